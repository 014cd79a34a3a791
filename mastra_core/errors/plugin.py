"""Errors of finding, loading and choosing plugins (design.md 4.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from mastra_core.errors.base import Category, ErrorFields, MastraError, with_facts

__all__ = (
    "AdapterNotInstalledError",
    "DriverNotInstalledError",
    "PluginBlockedError",
    "PluginBrokenError",
    "PluginConflictError",
    "PluginError",
    "PluginIncompatibleError",
)


class PluginError(MastraError):
    """A plugin can't be used."""

    id = "MASTRA_PLUGIN_ERROR"
    category: Category = "SYSTEM"


class AdapterNotInstalledError(PluginError, ImportError):
    """The scheme is known, but its package is not installed."""

    id = "MASTRA_ADAPTER_NOT_INSTALLED"
    category: Category = "USER"

    def __init__(
        self,
        message: str | None = None,
        *,
        scheme: str = "",
        extra: str = "",
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message
            or f"No adapter for '{scheme.removesuffix('://')}://' is installed. "
            f"Install it with: pip install 'mastra-core[{extra}]'",
            **with_facts(fields, scheme=scheme, extra=extra),
        )


class DriverNotInstalledError(PluginError, ImportError):
    """The adapter is installed, but the driver that it needs is not."""

    id = "MASTRA_DRIVER_NOT_INSTALLED"
    category: Category = "USER"

    def __init__(
        self,
        message: str | None = None,
        *,
        distribution: str = "",
        version: str = "",
        driver: str = "",
        extra: str = "",
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message
            or f"{_release(distribution, version)} is installed, but its driver {driver!r} is not. "
            f"Install it with: pip install 'mastra-core[{extra}]'",
            **with_facts(
                fields, distribution=distribution, version=version, driver=driver, extra=extra
            ),
        )


class PluginBrokenError(PluginError):
    """The plugin raised while it was loaded or asked what it offers; see the cause."""

    id = "MASTRA_PLUGIN_BROKEN"
    category: Category = "THIRD_PARTY"

    def __init__(
        self,
        message: str | None = None,
        *,
        plugin: str = "",
        distribution: str = "",
        version: str = "",
        reason: str = "",
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message
            or f"{_plugin(plugin, distribution, version)} could not be loaded: "
            f"{reason.rstrip('.')}. Details: python -m mastra_core plugins {plugin}",
            **with_facts(
                fields, plugin=plugin, distribution=distribution, version=version, reason=reason
            ),
        )


class PluginIncompatibleError(PluginError):
    """The plugin was written for another plugin API."""

    id = "MASTRA_PLUGIN_INCOMPATIBLE"

    def __init__(
        self,
        message: str | None = None,
        *,
        plugin: str = "",
        distribution: str = "",
        version: str = "",
        needs: str = "",
        host: str = "mastra-core",
        offers: str = "",
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message
            or f"{_plugin(plugin, distribution, version)} needs plugin API {needs}; "
            f"{host} offers {offers}. "
            f"Upgrade mastra-core or install an older {distribution or plugin}.",
            **with_facts(
                fields,
                plugin=plugin,
                distribution=distribution,
                version=version,
                needs=needs,
                offers=offers,
            ),
        )


class PluginConflictError(PluginError):
    """Two active plugins claim the same name or scheme; neither wins silently."""

    id = "MASTRA_PLUGIN_CONFLICT"
    category: Category = "USER"

    def __init__(
        self,
        message: str | None = None,
        *,
        what: str = "scheme",
        name: str = "",
        distributions: Sequence[str] = (),
        **fields: Unpack[ErrorFields],
    ) -> None:
        names = list(distributions)
        preferred = names[0] if names else "dist-name"
        super().__init__(
            message
            or f"The {what} {name!r} is claimed by {' and '.join(names)}. "
            f'Choose one in mastra.toml: [plugins.prefer] {name} = "{preferred}"',
            **with_facts(fields, what=what, name=name, distributions=names),
        )


class PluginBlockedError(PluginError):
    """The plugin is installed but switched off, so it was never imported."""

    id = "MASTRA_PLUGIN_BLOCKED"
    category: Category = "USER"

    def __init__(
        self,
        message: str | None = None,
        *,
        plugin: str = "",
        by: str = "MASTRA_PLUGINS_DISABLE",
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Plugin {plugin!r} is installed, but switched off by {by}.",
            **with_facts(fields, plugin=plugin, by=by),
        )


def _release(distribution: str, version: str) -> str:
    return f"{distribution} {version}".strip()


def _plugin(plugin: str, distribution: str, version: str) -> str:
    release = _release(distribution, version)
    return f"Plugin {plugin!r} ({release})" if release else f"Plugin {plugin!r}"
