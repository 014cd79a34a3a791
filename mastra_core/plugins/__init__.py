"""Which plugin is used, and what if it is missing or broken? (design 4)

Plugins import their descriptors and the mark ``hookimpl`` from here; nothing is imported
before it is used.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mastra_core.plugins.context import AdapterContext, SharedResources
    from mastra_core.plugins.manager import PluginManager
    from mastra_core.plugins.markers import hookimpl, hookspec
    from mastra_core.plugins.options import PluginOptions
    from mastra_core.plugins.registry import Registry
    from mastra_core.plugins.resolve import (
        Infrastructure,
        open_infrastructure,
        open_lease,
        open_pubsub,
        open_storage,
    )
    from mastra_core.plugins.specs import (
        CheckResult,
        CliCommand,
        DoctorCheck,
        ExporterSpec,
        HttpRoutes,
        LeaseSpec,
        ModelProviderSpec,
        Placed,
        ProcessorSpec,
        PubSubSpec,
        SignalProviderSpec,
        StorageSpec,
        WireCodec,
    )
    from mastra_core.plugins.status import PluginStatus
    from mastra_core.plugins.urls import AdapterUrl, parse_adapter_url
    from mastra_core.plugins.versions import API, PROCESSOR_API, PUBSUB_API, STORAGE_API

__all__ = (
    "API",
    "PROCESSOR_API",
    "PUBSUB_API",
    "STORAGE_API",
    "AdapterContext",
    "AdapterUrl",
    "CheckResult",
    "CliCommand",
    "DoctorCheck",
    "ExporterSpec",
    "HttpRoutes",
    "Infrastructure",
    "LeaseSpec",
    "ModelProviderSpec",
    "Placed",
    "PluginManager",
    "PluginOptions",
    "PluginStatus",
    "ProcessorSpec",
    "PubSubSpec",
    "Registry",
    "SharedResources",
    "SignalProviderSpec",
    "StorageSpec",
    "WireCodec",
    "hookimpl",
    "hookspec",
    "open_infrastructure",
    "open_lease",
    "open_pubsub",
    "open_storage",
    "parse_adapter_url",
)

_MODULES: Final = MappingProxyType(
    {
        "context": ("AdapterContext", "SharedResources"),
        "manager": ("PluginManager",),
        "markers": ("hookimpl", "hookspec"),
        "options": ("PluginOptions",),
        "registry": ("Registry",),
        "resolve": (
            "Infrastructure",
            "open_infrastructure",
            "open_lease",
            "open_pubsub",
            "open_storage",
        ),
        "specs": (
            "CheckResult",
            "CliCommand",
            "DoctorCheck",
            "ExporterSpec",
            "HttpRoutes",
            "LeaseSpec",
            "ModelProviderSpec",
            "Placed",
            "ProcessorSpec",
            "PubSubSpec",
            "SignalProviderSpec",
            "StorageSpec",
            "WireCodec",
        ),
        "status": ("PluginStatus",),
        "urls": ("AdapterUrl", "parse_adapter_url"),
        "versions": ("API", "PROCESSOR_API", "PUBSUB_API", "STORAGE_API"),
    }
)
_HOME: Final = MappingProxyType(
    {name: module for module, names in _MODULES.items() for name in names}
)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
