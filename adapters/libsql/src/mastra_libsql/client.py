"""Which executor serves a database: the one inside this process, or one for a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from mastra_libsql.embedded import EmbeddedExecutor
from mastra_libsql.settings import LibSQLSettings
from mastra_libsql.write_lock import WriteLock
from mastra_sql.executor import Executor, Observer

__all__ = ("Client", "open_client", "open_write_lock")


class Client(Executor, Protocol):
    """An executor with a life."""

    #: File or server, without secrets.
    where: str

    async def open(self) -> None:
        """Connect, so that a failure is seen now."""
        ...

    async def aclose(self) -> None:
        """Close what was opened; idempotent."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or never opened."""
        ...

    def held(self) -> dict[str, int]:
        """Connections, worker threads and waiting calls, right now."""
        ...

    def observe(self, observer: Observer | None) -> None:
        """Call this for every statement from now on."""
        ...


@asynccontextmanager
async def open_write_lock() -> AsyncIterator[WriteLock]:
    """The lock of one file, for all connections of this process that write to it."""
    yield WriteLock()


@asynccontextmanager
async def open_client(
    settings: LibSQLSettings, lock: WriteLock | None = None
) -> AsyncIterator[Client]:
    """The client of a database, open."""
    client = _client(settings, lock or WriteLock())
    try:
        await client.open()
        yield client
    finally:
        await client.aclose()


def _client(settings: LibSQLSettings, lock: WriteLock) -> Client:
    target = settings.target
    if target.is_embedded:
        return EmbeddedExecutor(target, settings, lock)
    from mastra_libsql.remote import remote_client

    return remote_client(target, settings)
