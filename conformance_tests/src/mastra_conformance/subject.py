"""What is tested: one adapter behind one URL, described without opening it.

How it is opened for one test is another room, see ``opening``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Final

from mastra_core.contracts.capabilities import lease_capability_names, pubsub_capability_names
from mastra_core.errors import ConfigError
from mastra_core.plugins import (
    LeaseSpec,
    PluginManager,
    PubSubSpec,
    Registry,
    StorageSpec,
    parse_adapter_url,
)
from mastra_core.plugins.choice import Offer
from mastra_core.plugins.discovery import Candidate, scan_entry_points
from mastra_core.plugins.specs import AdapterSpec, Role

__all__ = ("BUILTINS", "Subject", "find_subject", "plugin_manager")

BUILTINS: Final = ("mastra_core.inmemory.plugin",)
"""Plugins of the core itself."""

_MAX_LABEL = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One adapter under test."""

    #: As it was given; may contain secrets.
    url: str
    #: The URL as it may be shown; also names this adapter in reports.
    key: str
    name: str
    plugin_name: str
    #: Module (or class) that holds the hooks.
    plugin_module: str
    distribution: str | None
    version: str | None
    specs: tuple[AdapterSpec, ...]
    #: What all roles declare together, in names like ``memory.copy_thread``, ``lease.watch``.
    capabilities: frozenset[str]
    #: Nothing survives the process, and no other process sees it.
    is_volatile: bool
    #: A server keeps the data; else, unless volatile, a file does.
    is_served: bool = False
    #: Import strings of plugins beside the installed ones.
    plugins: tuple[str, ...] = ()

    @property
    def roles(self) -> tuple[str, ...]:
        """What the adapter offers, in a fixed order."""
        return tuple(spec.role for spec in self.specs)

    @property
    def label(self) -> str:
        """The URL in characters that are harmless in test ids and file names."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.key).strip("-")[-_MAX_LABEL:].strip("-")

    def spec(self, role: str) -> AdapterSpec:
        """
        The descriptor of one role.

        Raises:
            LookupError: The adapter doesn't offer it.
        """
        for spec in self.specs:
            if spec.role == role:
                return spec
        raise LookupError(f"{self.name!r} offers no {role}.")

    def __str__(self) -> str:
        release = " ".join(filter(None, (self.distribution, self.version)))
        return f"{self.key} = {self.name} ({release}): {', '.join(self.roles)}"


def find_subject(url: str, *, plugins: tuple[str, ...] = ()) -> Subject:
    """
    The adapter of a URL; imports its plugin module and nothing else of it.

    Raises:
        MastraError: The URL can't be read, or no usable plugin offers its scheme.
    """
    manager = plugin_manager(plugins)
    registry = Registry(manager)
    parsed = parse_adapter_url(url, schemes=manager.schemes())
    roles: tuple[Role, ...] = ("storage", "pubsub", "lease")
    found: dict[Role, Offer[AdapterSpec]] = {
        role: offer
        for role in roles
        if (offer := registry.find_adapter(role, parsed.scheme)) is not None
    }
    # Asking for a role that is there checks the driver; for none, it says why.
    wanted: Role = next(iter(found)) if found else "storage"
    first = registry.adapter(wanted, parsed)
    plugin = first.record.plugin
    return Subject(
        url=url,
        key=parsed.redacted,
        name=first.spec.name,
        plugin_name=first.record.name,
        plugin_module=str(getattr(plugin, "__name__", type(plugin).__module__)),
        distribution=first.record.distribution,
        version=first.record.version or _installed_version(first.record.distribution),
        specs=tuple(offer.spec for offer in found.values()),
        capabilities=frozenset().union(*(_names(offer.spec) for offer in found.values())),
        is_volatile=parsed.is_volatile,
        is_served=parsed.rest.startswith("//") and not parsed.rest.startswith("///"),
        plugins=plugins,
    )


def plugin_manager(plugins: Iterable[str] = ()) -> PluginManager:
    """
    A manager with the core's plugins, the installed ones, and some modules beside them.

    Raises:
        ConfigError: A module isn't there.
        PluginError: One of them can't be used as a plugin.
    """
    modules = [_module(name) for name in plugins]
    return PluginManager(modules, builtins=BUILTINS, scan=_entry_points)


@cache
def _entry_points() -> tuple[Candidate, ...]:
    """What is installed, looked for once: each of thousands of handles has a manager of its own."""
    return scan_entry_points()


def _installed_version(distribution: str | None) -> str | None:
    try:
        return version(distribution) if distribution else None
    except PackageNotFoundError:
        return None


def _module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        raise ConfigError(f"There is no plugin module {name!r}: {exc}.") from exc


def _names(spec: AdapterSpec) -> frozenset[str]:
    match spec:
        case StorageSpec():
            return spec.capabilities
        case PubSubSpec():
            return pubsub_capability_names(spec.capabilities)
        case LeaseSpec():
            return lease_capability_names(spec.capabilities)
        case _:
            return frozenset()
