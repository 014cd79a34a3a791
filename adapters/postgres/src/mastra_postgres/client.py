"""The executor: statements and programs on the pool of one URL."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import psycopg

from mastra_core.contracts.storage.health import PoolState
from mastra_core.plugins.context import AdapterContext
from mastra_postgres.channel import COMMIT, Channel, Command, Results, Segment
from mastra_postgres.errors import LostError, is_lost_statement, is_rolled_back, storage_error
from mastra_postgres.pool import Pool
from mastra_postgres.settings import PostgresConnection
from mastra_postgres.values import Reader, parameters
from mastra_sql.executor import Executed, Observer, Program, ProgramFactory, Rows, Step
from mastra_sql.statement import Statement

__all__ = ("PostgresClient", "open_client", "share_client")

T = TypeVar("T")

_BEGIN: Final = Command(b"BEGIN", is_single=True)
#: Several reads of one state of the database.
_BEGIN_READING: Final = Command(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", is_single=True)
#: How often a transaction that others interrupt is tried.
_ATTEMPTS: Final = 6

_JSON_PARAMETER: Final = re.compile(r"CAST\(\$(\d+) AS JSONB\)")
#: Always the last clause of a statement.
_LOCK_CLAUSE: Final = re.compile(r"\s+FOR UPDATE(?: OF \S+)?(?: SKIP LOCKED)?\s*$")


class _Text(NamedTuple):
    """A statement as it is sent."""

    sql: bytes
    #: The same without row locks, for those who only read.
    reading: bytes
    #: Positions of JSON parameters.
    json_at: frozenset[int]
    #: It may be DDL.
    is_single: bool


class PostgresClient:
    """
    Runs statements and programs; one per URL and context.

    Single statements and whole lists of writes share connections and take one round trip.
    A program that reads first gets a connection for itself and takes two: its first reads
    go with BEGIN, its writes with COMMIT.
    """

    def __init__(self, settings: PostgresConnection) -> None:
        self.where: str = settings.where
        self.pool: Pool = Pool(settings)
        self._loop = asyncio.get_running_loop()
        self._timeout = settings.statement_timeout_ms / 1000
        self._reader = Reader()
        self._observer: Observer | None = None
        self._text_of: Callable[[Statement], _Text] = lru_cache(maxsize=2048)(_text_of)

    # -- executor --------------------------------------------------------------------------

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        commands = [self._reading(operation, step) for step in steps]
        try:
            if len(commands) == 1:
                results = await self._repeated(commands)
            else:
                commands = [_BEGIN_READING, *commands]
                results = (await self._repeated(commands, is_open=True))[1:]
        except Exception as exc:
            raise storage_error(exc, operation, self.where, writes=False) from exc
        return self._rows(steps, results)

    async def write(self, operation: str, step: Step) -> Rows:
        command = self._command(operation, step)
        for attempt in range(_ATTEMPTS):
            try:
                results = await self._submit([command], writes=True)
            except Exception as exc:
                if attempt + 1 == _ATTEMPTS or not self._may_repeat(exc):
                    raise storage_error(exc, operation, self.where, writes=True) from exc
            else:
                return self._rows((step,), results)[0]
        raise AssertionError  # the last attempt returns or raises

    async def transact(
        self, operation: str, program: ProgramFactory[T], *, seconds: float | None = None
    ) -> T:
        """
        Run a program in one transaction; see ``Executor``.

        Args:
            operation: For errors.
            program: Reads first, then all its writes at once.
            seconds: How long each of its rounds may take, other than usual.
        """
        seconds = self._timeout if seconds is None else seconds
        for attempt in range(_ATTEMPTS):
            try:
                return await self._run(operation, program(), seconds)
            except Exception as exc:
                if attempt + 1 == _ATTEMPTS or not self._may_repeat(exc):
                    raise storage_error(exc, operation, self.where, writes=True) from exc
        raise AssertionError  # the last attempt returns or raises

    async def announce(self, operation: str, steps: Sequence[Step], notice: Step) -> list[Rows]:
        """
        Run statements that write in one transaction, and tell others right behind its commit.

        The notice is a transaction of its own on the same connection, so nobody hears it before
        there is something to see, and nobody waits for it. It goes out even if the writes fail.
        """
        for attempt in range(_ATTEMPTS):
            # Anew each time: their futures and results belong to one attempt.
            commands = [self._command(operation, step) for step in steps]
            deadline = self._loop.time() + self._timeout
            told = Segment([self._command("notify", notice)], None, deadline, writes=True)
            try:
                return self._rows(steps, await self._submit(commands, writes=True, behind=told))
            except Exception as exc:
                if attempt + 1 == _ATTEMPTS or not self._may_repeat(exc):
                    raise storage_error(exc, operation, self.where, writes=True) from exc
        raise AssertionError  # the last attempt returns or raises

    def _may_repeat(self, exc: BaseException) -> bool:
        """Whether nothing was carried out, and another attempt may do better."""
        if is_lost_statement(exc):
            self.pool.stop_preparing()
            return True
        return is_rolled_back(exc) or (isinstance(exc, LostError) and exc.unsent)

    # -- one round trip --------------------------------------------------------------------

    async def _repeated(self, commands: Sequence[Command], *, is_open: bool = False) -> Results:
        """Results of statements that only read, so that they may be sent twice."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._submit(commands, is_open=is_open)
            except Exception as exc:
                if not isinstance(exc, LostError) and not self._may_repeat(exc):
                    raise
        return await self._submit(commands, is_open=is_open)

    def _submit(
        self,
        commands: Sequence[Command],
        *,
        is_open: bool = False,
        writes: bool = False,
        seconds: float | None = None,
        behind: Segment | None = None,
    ) -> asyncio.Future[Results]:
        """Send statements on a shared connection."""
        future: asyncio.Future[Results] = self._loop.create_future()
        deadline = self._loop.time() + (self._timeout if seconds is None else seconds)
        segment = Segment(commands, future, deadline, is_open=is_open, writes=writes, behind=behind)
        self.pool.submit(segment)
        return future

    # -- programs --------------------------------------------------------------------------

    async def _run(self, operation: str, running: Program[T], seconds: float) -> T:
        try:
            steps = next(running)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]  # a program's result
        if any(step.statement.writes for step in steps):
            # Nothing to read first: one segment is one transaction.
            commands = [self._command(operation, step) for step in steps]
            results = await self._submit(commands, writes=True, seconds=seconds)
            return _finished(running, self._rows(steps, results))
        return await self._interactive(operation, running, steps, seconds)

    async def _interactive(
        self, operation: str, running: Program[T], steps: Sequence[Step], seconds: float
    ) -> T:
        channel = await self.pool.acquire()
        is_open = True
        first = [_BEGIN]
        try:
            while True:
                commands = [self._command(operation, step) for step in steps]
                if any(step.statement.writes for step in steps):
                    results = await self._send(channel, [*first, *commands, COMMIT], seconds)
                    is_open = False
                    return _finished(running, self._rows(steps, results[len(first) :]))
                results = await self._send(channel, [*first, *commands], seconds)
                rows = self._rows(steps, results[len(first) :])
                first = []
                try:
                    steps = running.send(rows)
                except StopIteration as finished:
                    return finished.value  # type: ignore[no-any-return]  # a program's result
        finally:
            self.pool.release(channel, rollback=is_open)

    def _send(
        self, channel: Channel, commands: Sequence[Command], seconds: float
    ) -> asyncio.Future[Results]:
        future: asyncio.Future[Results] = self._loop.create_future()
        channel.send(Segment(commands, future, self._loop.time() + seconds))
        return future

    # -- statements and rows ---------------------------------------------------------------

    def _command(self, operation: str, step: Step) -> Command:
        text = self._text_of(step.statement)
        return Command(text.sql, self._values(operation, step, text), text.is_single)

    def _reading(self, operation: str, step: Step) -> Command:
        text = self._text_of(step.statement)
        return Command(text.reading, self._values(operation, step, text))

    def _values(self, operation: str, step: Step, text: _Text) -> list[bytes | None]:
        try:
            return parameters(step.values, text.json_at)
        except ValueError as exc:
            raise storage_error(exc, operation, self.where, writes=False) from exc

    def _rows(self, steps: Sequence[Step], results: Results) -> list[Rows]:
        rows = [self._reader.rows(result) for result, _ in zip(results, steps, strict=False)]
        if self._observer is not None:
            for step, found in zip(steps, rows, strict=True):
                statement = step.statement
                documents = len(found) if statement.documents else 0
                self._observer(Executed(statement.name, statement.sql, len(found), documents))
        return rows

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """
        Open the first connection.

        Raises:
            StorageError: The server can't be reached, or refuses us.
        """
        try:
            await self.pool.open()
        except Exception as exc:
            raise storage_error(exc, "open", self.where, writes=False) from exc

    async def aclose(self) -> None:
        """Close all connections; idempotent."""
        await self.pool.aclose()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self.pool.is_closed

    def pool_state(self) -> PoolState:
        """The connections of the pool, for people."""
        return self.pool.state()

    def held(self) -> dict[str, int]:
        """Connections and waiting calls, right now."""
        return self.pool.held()

    def observe(self, observer: Observer | None) -> None:
        """Call this for every statement from now on."""
        self._observer = observer

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        """
        A connection apart from the pool, e.g. to listen on; the caller closes it.

        Raises:
            psycopg.Error: The server can't be reached, or refuses us.
        """
        return await self.pool.connect()


@asynccontextmanager
async def open_client(settings: PostgresConnection) -> AsyncIterator[PostgresClient]:
    """The client of a database, open."""
    client = PostgresClient(settings)
    try:
        await client.open()
        yield client
    finally:
        await client.aclose()


def _finished(running: Program[T], rows: list[Rows]) -> T:
    """The result of a program whose writes are done."""
    try:
        running.send(rows)
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]  # a program's result
    raise RuntimeError("A program yields nothing more after its writes.")


def _text_of(statement: Statement) -> _Text:
    sql = statement.sql
    json_at = frozenset(int(number) - 1 for number in _JSON_PARAMETER.findall(sql))
    reading = _LOCK_CLAUSE.sub("", sql).encode()
    is_single = statement.writes and not statement.parameters
    return _Text(sql.encode(), reading, json_at, is_single)


def share_client(
    context: AdapterContext, settings: PostgresConnection
) -> AbstractAsyncContextManager[PostgresClient]:
    """The client that all users of a database in this context have in common."""
    connection = settings.connection
    return context.share(("postgres.client", connection), lambda: open_client(connection))
