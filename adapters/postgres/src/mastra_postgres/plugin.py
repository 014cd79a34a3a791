"""What mastra-postgres offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mastra_core.plugins import StorageSpec, hookimpl
from mastra_postgres.capabilities import STORAGE_CAPABILITIES

__all__ = ("MASTRA_PLUGIN_API", "mastra_storage_adapters")

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
