"""The checks of ``doctor``; none of them raises, and none of them changes anything."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Final

from mastra_cli.check import Check
from mastra_cli.health import health_checks
from mastra_cli.roles import capabilities_check, shape_check
from mastra_cli.stores import made_roles, made_store, refuse_absent_file
from mastra_core.base.redact import redact_url
from mastra_core.config import AdapterSection, Settings
from mastra_core.contracts.storage import Storage
from mastra_core.contracts.storage.health import ObservableStorage
from mastra_core.contracts.storage.integrity import CheckableStorage
from mastra_core.errors import MastraError
from mastra_core.plugins import (
    CheckResult,
    PluginManager,
    Registry,
)

__all__ = ("check_plugins", "check_settings", "check_store", "plugin_checks")

#: Schemes of the providers in which the TypeScript system keeps its leases.
_LEASES_OF_NODE: Final = frozenset({"redis", "rediss", "redis+unix", "unix"})


def _failed(name: str, error: MastraError) -> Check:
    return Check(name=name, status="failed", summary=error.message, fix=error.hint)


def check_plugins(manager: PluginManager) -> Iterator[Check]:
    """One line for all that are well, and one for each that isn't."""
    found = manager.status()
    active = [item.name for item in found if item.status == "active"]
    yield Check(name="plugins", status="ok", summary=f"{len(active)} active: {', '.join(active)}")
    for item in found:
        if item.status in {"broken", "incompatible", "conflict"}:
            yield Check(
                name=f"plugin {item.name}",
                status="warning" if item.status == "conflict" else "failed",
                summary=f"{item.status}: {item.reason}",
                fix=f"mastra-py plugins {item.name}",
            )
        elif item.status == "active" and item.reason:
            yield Check(name=f"plugin {item.name}", status="warning", summary=item.reason)


def check_settings(settings: Settings) -> Iterator[Check]:
    """Which settings don't have their default, and where they come from."""
    told = [
        f"{name} = {value} ({source})"
        for name, (value, source) in settings.describe().items()
        if source != "default"
    ]
    yield Check(name="settings", status="ok", summary="; ".join(told) or "all defaults")


async def check_store(settings: Settings, manager: PluginManager) -> list[Check]:
    """Whether the store opens, is whole, what it can do, and whether it has to be migrated."""
    url = settings.storage.url
    if url is None:
        return [
            Check(
                name="storage",
                status="warning",
                summary="No store is set; everything is kept in memory and lost at the end.",
                fix="Set MASTRA_STORAGE_URL, or check one with --url file:./app.db",
            )
        ]
    try:
        _, target = made_store(None, settings=settings)
        refuse_absent_file(target)
        made = made_roles(None, settings=settings)
        store: Storage = made["storage"]
        looked = [capabilities_check(made), await shape_check(made), *await _wholeness(store)]
        if any(check.status == "failed" for check in looked):
            return looked
        if any(check.status == "warning" for check in looked):
            # Opening it for good would migrate it; looking is all that is wanted.
            health, _ = await _health(store)
            return [*looked, *health]
        async with store as opened:
            opens = _opened(opened, target.redacted)
            health, peers = await _health(opened)
    except MastraError as exc:
        return [_failed("storage", exc)]
    lease = _lease(store, settings, Registry(manager), target.scheme, has_peers=bool(peers))
    return [opens, *looked, *health, lease]


def _opened(store: Storage, url: str) -> Check:
    count = len(store.capabilities)
    if store.volatile:
        lost = f"{url} opens, but nothing in it survives the process."
        return Check(name="storage", status="warning", summary=lost)
    return Check(
        name="storage", status="ok", summary=f"{url} opens ({store.name}, {count} capabilities)"
    )


async def _wholeness(store: Storage) -> list[Check]:
    """Damage to the database itself, where the adapter can look for it."""
    if not isinstance(store, CheckableStorage):
        return []
    try:
        found = await store.check_integrity()
    except MastraError as exc:
        return [_failed("integrity", exc)]
    if found is None:
        return []
    if not found:
        return [Check(name="integrity", status="ok", summary="the database is whole")]
    return [
        Check(
            name="integrity",
            status="failed",
            summary=f"The database is damaged: {'; '.join(found)}",
            fix="Put a backup in its place; 'sqlite3 app.db .recover' saves what can be read.",
        )
    ]


async def _health(store: Storage) -> tuple[list[Check], Sequence[str]]:
    """How the server is doing, where the adapter can tell, and the traces of Node peers."""
    if not isinstance(store, ObservableStorage):
        return [], ()
    try:
        found = await store.health()
    except MastraError as exc:
        return [_failed("server", exc)], ()
    return list(health_checks(found)), found.node_peers


def _lease(
    store: Storage, settings: Settings, registry: Registry, scheme: str, *, has_peers: bool
) -> Check:
    """Leases that other processes, or the other system, don't see (design 4.4.3)."""
    named = settings.lease.url or settings.pubsub.url
    where = named.partition(":")[0] if named else scheme
    has_adapter = registry.find_adapter("lease", scheme) is not None
    if not store.volatile and named is None and (not has_adapter or scheme == "memory"):
        return Check(
            name="lease",
            status="warning",
            summary="Leases are only seen by one process: run one process at a time on this store.",
            fix="Set MASTRA_LEASE_URL to a provider that all processes reach.",
        )
    if has_peers and where not in _LEASES_OF_NODE:
        return Check(
            name="lease",
            status="warning",
            summary=f"Leases are in {where}, where the TypeScript system doesn't look; while it "
            "runs, both may write to one thread.",
            fix="Set MASTRA_LEASE_URL to the Redis of its pubsub.",
        )
    return Check(
        name="lease", status="ok", summary=redact_url(named) if named else "goes with the store"
    )


async def plugin_checks(
    settings: Settings, manager: PluginManager, *, may_open: bool
) -> list[Check]:
    """
    The checks that plugins bring along; one that raises is a failed check.

    The application that they get has no bus and no leases but its own: to open others could
    add their tables.

    Args:
        settings: Of the application that the checks get.
        manager: Knows the checks.
        may_open: Whether opening the store leaves it as it is; the application is in memory
            otherwise.
    """
    offers = Registry(manager).doctor_checks()
    if not offers:
        return []
    alone = {"pubsub": AdapterSection(), "lease": AdapterSection(url="memory:")}
    if not may_open:
        alone["storage"] = AdapterSection()
    settings = settings.model_copy(update=alone)
    from mastra_core.mastra import Mastra
    from mastra_core.plugins.making import load_factory

    checks: list[Check] = []
    async with Mastra(settings=settings) as application:
        for offer in offers:
            try:
                found = load_factory(offer.spec.factory)(application)
                result: CheckResult = await found if inspect.isawaitable(found) else found
            except Exception as exc:  # noqa: BLE001 - a third party's check must not end ours
                text = f"the check itself failed: {type(exc).__name__}: {exc}"
                checks.append(Check(name=offer.spec.name, status="failed", summary=text))
                continue
            checks.append(
                Check(
                    name=offer.spec.name,
                    status=result.status,
                    summary=result.summary,
                    fix=result.fix,
                )
            )
    return checks
