"""``psycopg`` as anybody would use it: a pool, a cursor per statement, prepared by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, ClassVar

import psycopg
from driver import Driver, Floors, Statements
from driver_apsw import taken_down
from harness import Call
from psycopg.types.string import TextLoader
from templates import Varying

from mastra_core.plugins.context import AdapterContext
from mastra_postgres import PostgresStorage
from mastra_postgres.lease import PostgresLease
from mastra_postgres.pubsub import PostgresPubSub

__all__ = ("PsycopgDriver", "open_psycopg", "with_option")

POOL = 4
OURS, PLAIN = "ours_", "plain_"


class PsycopgDriver(Driver):
    """Tables of ours and tables of the plain driver in one database."""

    backend: ClassVar[str] = "postgres"
    plain: ClassVar[str] = "psycopg"

    def __init__(self, pool: Sequence[Any], alone: Any, hearer: Any) -> None:
        #: Connections that nobody uses right now.
        self._pool: asyncio.LifoQueue[Any] = asyncio.LifoQueue()
        for connection in pool:
            self._pool.put_nowait(connection)
        self._alone = alone
        self._hearer = hearer

    async def floors(self, call: Call, varying: Varying) -> Floors:
        tape = await taken_down(self.store, call)

        async def shared(bound: Statements) -> list[list[Any]]:
            connection = await self._pool.get()
            try:
                return await _run(connection, bound)
            finally:
                self._pool.put_nowait(connection)

        return Floors(
            tape.repeated(varying, lambda bound: _run(self._alone, bound), rewrite=_on_plain),
            tape.repeated(varying, shared, rewrite=_on_plain),
        )

    @asynccontextmanager
    async def hearing(self) -> AsyncIterator[Call]:
        """Insert and notify in one transaction; the other connection hears and selects."""
        async with asyncio.timeout(10):
            for text in (
                "CREATE TABLE IF NOT EXISTS plain_heard (n bigserial PRIMARY KEY, event text)",
                "LISTEN plain_heard",
            ):
                await self._hearer.execute(text)
        heard, seen = asyncio.Event(), asyncio.Event()
        latest = "SELECT n, event FROM plain_heard WHERE n > $1 ORDER BY n LIMIT 100"

        async def listen() -> None:
            after = 0
            while True:
                async for _ in self._hearer.notifies(stop_after=1):
                    heard.set()
                rows = await (await self._hearer.execute(latest, (after,))).fetchall()
                after = rows[-1][0] if rows else after
                seen.set()

        insert = (
            "WITH one AS (INSERT INTO plain_heard (event) VALUES ($1)) "
            "SELECT pg_notify('plain_heard', '')"
        )

        async def write_and_hear() -> None:
            seen.clear()
            await self._alone.execute(insert, ('{"n": 1}',))
            await seen.wait()

        listening = asyncio.create_task(listen())
        try:
            yield write_and_hear
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    async def server_version(self) -> tuple[str, str]:
        return "PostgreSQL", self._alone.info.parameter_status("server_version") or ""


async def _run(connection: Any, calls: Statements) -> list[list[Any]]:
    found = []
    for is_one, steps in calls:
        if is_one and len(steps) > 1:
            async with connection.transaction():
                found += [await _rows(connection, *step) for step in steps]
        else:
            found += [await _rows(connection, *step) for step in steps]
    return found


async def _rows(connection: Any, sql: str, values: Sequence[Any]) -> list[Any]:
    cursor = await connection.execute(sql, values)
    return [] if cursor.description is None else await cursor.fetchall()


def _on_plain(sql: str, is_one: bool) -> str:  # noqa: FBT001 - called by position
    """On the tables of the plain driver; outside of transactions it locks no rows."""
    sql = sql.replace(f"{OURS}mastra", f"{PLAIN}mastra")
    return sql if is_one else sql.partition(" FOR UPDATE")[0]


def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Leave documents to the floor's own codec, which is quicker than psycopg's."""
    for name in ("json", "jsonb"):
        connection.adapters.register_loader(name, TextLoader)


def with_option(url: str, **options: object) -> str:
    """A URL with options of ours."""
    pairs = "&".join(f"mastra_{name}={value}" for name, value in options.items())
    return f"{url}{'&' if '?' in url else '?'}{pairs}"


@asynccontextmanager
async def open_psycopg(url: str) -> AsyncIterator[PsycopgDriver]:
    """Ours and the plain driver in one database."""
    ours = with_option(url, pool_size=POOL, prefix=OURS)
    plain = with_option(url, pool_size=POOL, prefix=PLAIN)
    raw: dict[str, Any] = {"autocommit": True, "cursor_factory": psycopg.AsyncRawCursor}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        context = AdapterContext()
        store = await enter(PostgresStorage(ours, context))
        other = await enter(PostgresStorage(plain, AdapterContext()))
        async with PostgresLease(plain, AdapterContext()) as lease:
            await lease.get_lease_owner("none")
        connections = [
            await enter(await psycopg.AsyncConnection.connect(url, **raw)) for _ in range(POOL + 2)
        ]
        for connection in connections:
            _configure(connection)
        alone, hearer, *pool = connections
        driver = PsycopgDriver(pool, alone, hearer)
        driver.store_url = driver.bus_url = ours
        driver.store, driver.other = store, other
        driver.bus = await enter(PostgresPubSub(ours, context))
        driver.far_bus = await enter(PostgresPubSub(ours, AdapterContext()))
        driver.lease = driver.bus.get_lease_provider()
        await driver.lease.get_lease_owner("none")
        for each in (store, other):
            await each.dangerously_clear_all()
        yield driver
        for each in (store, other):
            await each.dangerously_clear_all()
