"""What mastra-libsql offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mastra_core.plugins import LeaseSpec, PubSubSpec, StorageSpec, hookimpl
from mastra_libsql.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
)

__all__ = (
    "MASTRA_PLUGIN_API",
    "mastra_lease_adapters",
    "mastra_pubsub_adapters",
    "mastra_storage_adapters",
)

MASTRA_PLUGIN_API = (1, 0)

_SCHEMES: Final = ("file", "libsql")
_DRIVERS: Final = ("wss", "ws", "https", "http")


@hookimpl
def mastra_storage_adapters() -> Iterable[StorageSpec]:
    """The store in a file, in memory, or on a libSQL server."""
    yield StorageSpec(
        name="libsql",
        schemes=_SCHEMES,
        drivers=_DRIVERS,
        factory="mastra_libsql.storage:LibSQLStorage",
        settings="mastra_libsql.settings:LibSQLSettings",
        capabilities=STORAGE_CAPABILITIES,
        extra="libsql",
        summary="Everything in one SQLite file, or on a libSQL server.",
    )


@hookimpl
def mastra_pubsub_adapters() -> Iterable[PubSubSpec]:
    """The bus in the same places."""
    yield PubSubSpec(
        name="libsql",
        schemes=_SCHEMES,
        drivers=_DRIVERS,
        factory="mastra_libsql.pubsub:LibSQLPubSub",
        settings="mastra_libsql.settings:LibSQLPubSubSettings",
        capabilities=PUBSUB_CAPABILITIES,
        extra="libsql",
        summary="Events between processes that share a SQLite file or a libSQL server.",
    )


@hookimpl
def mastra_lease_adapters() -> Iterable[LeaseSpec]:
    """Leases in the same places."""
    yield LeaseSpec(
        name="libsql",
        schemes=_SCHEMES,
        drivers=_DRIVERS,
        factory="mastra_libsql.lease:LibSQLLease",
        settings="mastra_libsql.settings:LibSQLLeaseSettings",
        capabilities=LEASE_CAPABILITIES,
        extra="libsql",
        summary="Leases between processes that share a SQLite file or a libSQL server.",
    )
