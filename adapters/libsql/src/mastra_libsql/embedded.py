"""The database inside this process: a writer, a reader, and their connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import apsw

from mastra_core.errors import MastraError
from mastra_libsql.errors import storage_error
from mastra_libsql.host_time import HostTime
from mastra_libsql.settings import LibSQLConnection, Target, TargetKind
from mastra_libsql.worker import CallJob, ProgramJob, ReadJob, Session, StatementJob, Worker
from mastra_libsql.write_lock import BusyWait, WriteLock
from mastra_sql.executor import Observer, ProgramFactory, Rows, Step

__all__ = ("EmbeddedExecutor",)

T = TypeVar("T")

#: Statements that a connection keeps prepared.
_PREPARED: Final = 512


class EmbeddedExecutor:
    """
    Runs statements on a file or in memory.

    A file has one writing and one reading connection, each with its own thread; a database
    in memory has one connection for both. What must be on disk when it returns has a third
    one, opened with its first use.
    """

    def __init__(
        self, target: Target, settings: LibSQLConnection, lock: WriteLock, time: HostTime
    ) -> None:
        self.where: str = target.address
        self.time: HostTime = time
        self._settings = settings
        self._is_file = target.kind is TargetKind.FILE
        timeout = settings.busy_timeout_ms / 1000
        self._writer = Worker(
            self._open_writer, name=f"libsql-writer:{self.where}", lock=lock, lock_timeout=timeout
        )
        self._reader = self._careful_writer = self._writer
        if self._is_file:
            self._careful_writer = Worker(
                self._open_careful_writer,
                name=f"libsql-careful-writer:{self.where}",
                lock=lock,
                lock_timeout=timeout,
            )
            self._reader = Worker(
                self._open_reader, name=f"libsql-reader:{self.where}", lock=None, lock_timeout=0
            )

    # -- statements ------------------------------------------------------------------------

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        try:
            return await self._reader.submit(ReadJob(steps))
        except MastraError:
            raise
        except Exception as exc:
            raise storage_error(exc, operation, self.where) from exc

    async def write(self, operation: str, step: Step) -> Rows:
        try:
            return await self._writer.submit(StatementJob(step))
        except MastraError:
            raise
        except Exception as exc:
            raise storage_error(exc, operation, self.where) from exc

    async def transact(self, operation: str, program: ProgramFactory[T]) -> T:
        try:
            return await self._writer.submit(ProgramJob(program))
        except MastraError:
            raise
        except Exception as exc:
            raise storage_error(exc, operation, self.where) from exc

    async def transact_durably(self, operation: str, program: ProgramFactory[T]) -> T:
        """As ``transact``, but on disk when it returns, whatever the machine does then."""
        try:
            return await self._careful_writer.submit(ProgramJob(program))
        except MastraError:
            raise
        except Exception as exc:
            raise storage_error(exc, operation, self.where) from exc

    async def call(self, operation: str, call: Callable[[Session], T]) -> T:
        """Do something else with the writing connection, between transactions."""
        try:
            return await self._writer.submit(CallJob(call))
        except MastraError:
            raise
        except Exception as exc:
            raise storage_error(exc, operation, self.where) from exc

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """
        Open the writing connection; the reading one opens with its first use.

        Raises:
            StorageError: The file can't be opened, or is no database.
        """
        try:
            await self._writer.open()
        except Exception as exc:
            raise storage_error(exc, "open", self.where) from exc

    async def aclose(self) -> None:
        """Close both connections; idempotent."""
        for worker in (self._reader, self._careful_writer):
            if worker is not self._writer:
                await worker.aclose()
        await self._writer.aclose()

    @property
    def is_closed(self) -> bool:
        return self._writer.is_closed

    def held(self) -> dict[str, int]:
        """Connections, worker threads and waiting calls, right now."""
        workers = self._workers()
        return {
            "connections": sum(worker.is_open for worker in workers),
            "worker_threads": sum(worker.is_running for worker in workers),
            "waiting_calls": sum(worker.waiting for worker in workers),
        }

    def observe(self, observer: Observer | None) -> None:
        """Call this for every statement from now on, in the thread that ran it."""
        for worker in self._workers():
            worker.observe(observer)

    def _workers(self) -> set[Worker]:
        return {self._writer, self._reader, self._careful_writer}

    # -- connections -----------------------------------------------------------------------

    def _open_writer(self, is_closing: Callable[[], bool]) -> apsw.Connection:
        connection = self._connect(is_closing)
        try:
            if self._is_file:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
                connection.execute("PRAGMA synchronous = NORMAL")
            else:
                # Nothing to read tells whether the file is a database; there is no file.
                connection.execute("PRAGMA synchronous = OFF")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_careful_writer(self, is_closing: Callable[[], bool]) -> apsw.Connection:
        connection = self._open_writer(is_closing)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def open_probe(self) -> apsw.Connection:
        """A connection for somebody who only looks whether others wrote; he closes it."""
        connection = apsw.Connection(self.where, flags=apsw.SQLITE_OPEN_READWRITE)
        connection.set_busy_timeout(0)
        return connection

    def _open_reader(self, is_closing: Callable[[], bool]) -> apsw.Connection:
        connection = self._connect(is_closing)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect(self, is_closing: Callable[[], bool]) -> apsw.Connection:
        connection = apsw.Connection(self.where, statementcachesize=_PREPARED)
        # Plans never depend on bound values; else SQLite prepares every statement with a join
        # anew whenever it gets other values, which takes longer than running it.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.set_busy_handler(BusyWait(self._settings.busy_timeout_ms, is_closing))
        self._tell_time(connection)
        return connection

    def _tell_time(self, connection: apsw.Connection) -> None:
        """Let statements ask for the time; a database in this process has no clock."""
        time = self.time

        def now_ms(*_: object) -> int:
            return time.now_ms()

        def now_us(*_: object) -> int:
            return time.now_us()

        # As SQLite's own functions of time: the same all through one statement.
        for name, ask in (("mastra_now_ms", now_ms), ("mastra_now_us", now_us)):
            connection.create_scalar_function(name, ask, 0, deterministic=True)
