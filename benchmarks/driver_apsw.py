"""``apsw`` as anybody would use it: one connection, one thread, one hop per call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import time_ns
from typing import Any, ClassVar

import apsw
from driver import Driver, Floors, SqlTape, Statements
from harness import Call
from templates import Varying

from mastra_core.plugins.context import AdapterContext
from mastra_libsql import LibSQLStorage
from mastra_libsql.lease import LibSQLLease
from mastra_libsql.pubsub import LibSQLPubSub

__all__ = ("ApswDriver", "connected", "open_apsw")


class ApswDriver(Driver):
    """A file of ours, and a file of the plain driver."""

    backend: ClassVar[str] = "libsql file"
    plain: ClassVar[str] = "apsw, one thread"

    def __init__(self, connection: apsw.Connection, thread: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._thread = thread

    async def floors(self, call: Call, varying: Varying) -> Floors:
        tape = await taken_down(self.store, call)
        plainly = tape.repeated(varying, lambda bound: self._hop(lambda: self._run(bound)))
        return Floors(plainly, plainly)

    async def _hop(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _run(self, calls: Statements) -> list[list[Any]]:
        execute = self._connection.execute
        found = []
        for is_one, steps in calls:
            if is_one:
                execute("BEGIN IMMEDIATE")
            found += [execute(sql, values).fetchall() for sql, values in steps]
            if is_one:
                execute("COMMIT")
        return found

    @asynccontextmanager
    async def hearing(self) -> AsyncIterator[Call]:
        """Written and read by two threads; nothing of SQLite tells the other one."""
        execute = self._connection.execute
        await self._hop(lambda: execute("CREATE TABLE heard (n INTEGER PRIMARY KEY, event TEXT)"))
        with ThreadPoolExecutor(1) as other_thread, connected(self._path) as other:
            loop = asyncio.get_running_loop()

            def read() -> Any:
                latest = "SELECT event FROM heard ORDER BY n DESC LIMIT 1"
                return other.execute(latest).fetchall()

            async def write_and_read() -> None:
                await self._hop(lambda: execute("INSERT INTO heard (event) VALUES ('{\"n\": 1}')"))
                await loop.run_in_executor(other_thread, read)

            yield write_and_read

    @property
    def _path(self) -> Path:
        return Path(self._connection.filename)

    async def server_version(self) -> tuple[str, str]:
        return "SQLite", apsw.sqlite_lib_version()


def connected(path: Path) -> apsw.Connection:
    """A connection with the settings that ours have."""
    connection = apsw.Connection(str(path), statementcachesize=512)
    # Else every statement with a join is prepared anew for every call.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(5_000)
    connection.create_scalar_function("mastra_now_us", lambda: time_ns() // 1_000, 0)
    connection.create_scalar_function("mastra_now_ms", lambda: time_ns() // 1_000_000, 0)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


async def taken_down(store: Any, call: Call) -> SqlTape:
    """The statements of one call of the store, or of a lease that shares its client."""
    # To see the statements of a call, there is no public way.
    client = store._door.client  # noqa: SLF001
    tape = SqlTape(read=client.read, write=client.write, transact=client.transact)
    names = ("read", "write", "transact")
    for name in names:
        setattr(client, name, getattr(tape, name))
    try:
        await call()
    finally:
        for name in names:
            delattr(client, name)
    return tape


@asynccontextmanager
async def open_apsw(folder: Path) -> AsyncIterator[ApswDriver]:
    """Ours and the plain driver on two files of a folder."""
    ours, plain = f"file:{folder / 'ours.db'}", f"file:{folder / 'plain.db'}"
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        other = await enter(LibSQLStorage(plain))
        # Makes the table that the floor of leases needs.
        await LibSQLLease(plain).get_lease_owner("none")
        connection = connected(folder / "plain.db")
        stack.callback(connection.close)
        driver = ApswDriver(connection, stack.enter_context(ThreadPoolExecutor(1)))
        context = AdapterContext()
        driver.store_url = driver.bus_url = ours
        driver.store, driver.other = await enter(LibSQLStorage(ours, context)), other
        driver.bus = await enter(LibSQLPubSub(ours, context))
        driver.far_bus = await enter(LibSQLPubSub(ours, AdapterContext()))
        driver.lease = driver.bus.get_lease_provider()
        await driver.lease.get_lease_owner("none")
        yield driver
