"""What mastra-libsql offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import StorageSpec, hookimpl
from mastra_libsql.capabilities import STORAGE_CAPABILITIES

__all__ = ("MASTRA_PLUGIN_API", "mastra_storage_adapters")

MASTRA_PLUGIN_API = (1, 0)


@hookimpl
def mastra_storage_adapters() -> Iterable[StorageSpec]:
    """The store in a file, in memory, or on a libSQL server."""
    yield StorageSpec(
        name="libsql",
        schemes=("file", "libsql"),
        drivers=("wss", "ws", "https", "http"),
        factory="mastra_libsql.storage:LibSQLStorage",
        settings="mastra_libsql.settings:LibSQLSettings",
        capabilities=STORAGE_CAPABILITIES,
        extra="libsql",
        summary="Everything in one SQLite file, or on a libSQL server.",
    )
