"""What mastra-postgres offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mastra_core.plugins import LeaseSpec, PubSubSpec, StorageSpec, hookimpl
from mastra_postgres.capabilities import (
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

_SCHEMES: Final = ("postgresql", "postgres")
_DRIVERS: Final = ("psycopg",)


@hookimpl
def mastra_storage_adapters() -> Iterable[StorageSpec]:
    """The store in a PostgreSQL database."""
    yield StorageSpec(
        name="postgres",
        schemes=_SCHEMES,
        drivers=_DRIVERS,
        factory="mastra_postgres.storage:PostgresStorage",
        settings="mastra_postgres.settings:PostgresSettings",
        capabilities=STORAGE_CAPABILITIES,
        extra="postgres",
        summary="Everything in a PostgreSQL database, shared by any number of processes.",
    )


@hookimpl
def mastra_pubsub_adapters() -> Iterable[PubSubSpec]:
    """The bus in the same database."""
    yield PubSubSpec(
        name="postgres",
        schemes=_SCHEMES,
        drivers=_DRIVERS,
        factory="mastra_postgres.pubsub:PostgresPubSub",
        settings="mastra_postgres.settings:PostgresPubSubSettings",
        capabilities=PUBSUB_CAPABILITIES,
        extra="postgres",
        summary="Events between processes that share a PostgreSQL database.",
    )


@hookimpl
def mastra_lease_adapters() -> Iterable[LeaseSpec]:
    """Leases in the same database."""
    yield LeaseSpec(
        name="postgres",
        schemes=_SCHEMES,
        drivers=_DRIVERS,
        factory="mastra_postgres.lease:PostgresLease",
        settings="mastra_postgres.settings:PostgresLeaseSettings",
        capabilities=LEASE_CAPABILITIES,
        extra="postgres",
        summary="Leases between processes that share a PostgreSQL database.",
    )
