"""Which executor serves a database: the one inside this process, or one for a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.plugins.context import AdapterContext
from mastra_libsql.embedded import EmbeddedExecutor
from mastra_libsql.host_time import HostTime
from mastra_libsql.settings import LibSQLConnection
from mastra_libsql.write_lock import WriteLock
from mastra_sql import storage

__all__ = ("Client", "open_client", "open_write_lock", "share_client")


class Client(storage.Client, Protocol):
    """An executor that opens and closes."""

    async def open(self) -> None:
        """Connect, so that a failure is seen now."""
        ...

    async def aclose(self) -> None:
        """Close what was opened; idempotent."""
        ...


@asynccontextmanager
async def open_write_lock() -> AsyncIterator[WriteLock]:
    """The lock of one file, for all connections of this process that write to it."""
    yield WriteLock()


@asynccontextmanager
async def open_client(
    settings: LibSQLConnection, lock: WriteLock | None = None, clock: Clock | None = None
) -> AsyncIterator[Client]:
    """The client of a database, open."""
    client = _client(settings, lock or WriteLock(), clock or SystemClock())
    try:
        await client.open()
        yield client
    finally:
        await client.aclose()


@asynccontextmanager
async def share_client(
    context: AdapterContext, settings: LibSQLConnection
) -> AsyncIterator[Client]:
    """The client that all users of a database in this context have in common."""
    async with AsyncExitStack() as stack:
        lock = await stack.enter_async_context(
            context.share(("libsql.write_lock", settings.target.address), open_write_lock)
        )
        connection = settings.connection
        yield await stack.enter_async_context(
            context.share(
                ("libsql.client", connection),
                lambda: open_client(connection, lock, context.clock),
            )
        )


def _client(settings: LibSQLConnection, lock: WriteLock, clock: Clock) -> Client:
    target = settings.target
    if target.is_embedded:
        return EmbeddedExecutor(target, settings, lock, HostTime(clock))
    from mastra_libsql.remote import remote_client

    return remote_client(target, settings)
