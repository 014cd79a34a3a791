"""A libSQL server: batches over HTTP, transactions over a WebSocket."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import aiohttp
import libsql_client

from mastra_core.errors import MastraError
from mastra_libsql.errors import ClosedError, is_busy, is_malformed_json, storage_error
from mastra_libsql.guards import Bound, guards
from mastra_libsql.settings import LibSQLConnection, Target, TargetKind
from mastra_sql.executor import Executed, Observer, ProgramFactory, Rows, Step

__all__ = ("HttpExecutor", "RemoteExecutor", "WebSocketExecutor", "remote_client")

T = TypeVar("T")

_FIRST_WAIT: Final = 0.005
_LONGEST_WAIT: Final = 0.25
#: A wait doubles at most so often; a number that doubles for ever is no number at last.
_DOUBLINGS: Final = 16


class _StaleReadError(Exception):
    """Somebody else wrote between the reads and the writes of a program."""


def remote_client(target: Target, settings: LibSQLConnection) -> RemoteExecutor:
    """The executor for the protocol of the URL; not connected yet."""
    if target.kind is TargetKind.HTTP:
        return HttpExecutor(target, settings)
    return WebSocketExecutor(target, settings)


class RemoteExecutor(ABC):
    """What both protocols have in common: limits, retries, errors."""

    def __init__(self, target: Target, settings: LibSQLConnection) -> None:
        self.where: str = target.address
        self._target = target
        self._timeout = settings.request_timeout_ms / 1000
        self._patience = settings.busy_timeout_ms / 1000
        self._driver: libsql_client.Client | None = None
        # More than a few concurrent writers make a server spin instead of write.
        self._writers = asyncio.Semaphore(settings.max_remote_writers)
        self._waiting = 0
        self._observer: Observer | None = None
        self._random = random.Random()  # noqa: S311 - jitter is no secret

    # -- statements ------------------------------------------------------------------------

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        return await self._guarded(operation, lambda: self._retried(lambda: self._read(steps)))

    async def write(self, operation: str, step: Step) -> Rows:
        async def attempt() -> Rows:
            [rows] = await self._send([step])
            return rows

        return await self._guarded(operation, lambda: self._writing(attempt))

    async def transact(self, operation: str, program: ProgramFactory[T]) -> T:
        return await self._guarded(
            operation, lambda: self._writing(lambda: self._transaction(program))
        )

    @abstractmethod
    async def _transaction(self, factory: ProgramFactory[T]) -> T:
        """Run one program once; raises what makes another attempt worthwhile."""

    async def _read(self, steps: Sequence[Step]) -> list[Rows]:
        try:
            return await self._send(steps)
        except (aiohttp.ServerDisconnectedError, ConnectionError):
            # An idle connection that the server closed; reading again is harmless.
            return await self._send(steps)

    async def _send(self, steps: Sequence[Step]) -> list[Rows]:
        """Run statements in one request and one transaction."""
        driver = self._opened()
        bound = [_sendable(step) for step in steps]
        if len(bound) == 1:
            results = [await self._answer(driver.execute(*bound[0]))]
        else:
            results = await self._answer(driver.batch(list(bound)))
        return [self._rows(step, result) for step, result in zip(steps, results, strict=True)]

    async def _answer(self, call: Awaitable[T]) -> T:
        """The answer of the driver to one call."""
        return await call

    def _rows(self, step: Step, result: libsql_client.ResultSet) -> Rows:
        rows: Rows = [row.astuple() for row in result.rows] if step.statement.columns else []
        if self._observer is not None:
            documents = len(rows) if step.statement.documents else 0
            statement = step.statement
            self._observer(Executed(statement.name, statement.sql, len(rows), documents))
        return rows

    # -- retries and errors ----------------------------------------------------------------

    async def _guarded(self, operation: str, work: Callable[[], Awaitable[T]]) -> T:
        """Bound the wait for an answer; let only errors of ours out."""
        try:
            return await work()
        except MastraError:
            raise
        except Exception as exc:
            raise storage_error(exc, operation, self.where) from exc

    async def _writing(self, attempt: Callable[[], Awaitable[T]]) -> T:
        self._waiting += 1
        try:
            async with self._writers:
                return await self._retried(attempt)
        finally:
            self._waiting -= 1

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works or the patience is used up; only lost races are tried again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        failures = 0
        while True:
            try:
                async with asyncio.timeout(self._timeout):
                    return await attempt()
            except Exception as exc:
                if not (isinstance(exc, _StaleReadError) or is_busy(exc)):
                    raise
                if loop.time() >= deadline:
                    raise
            failures += 1
            longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(failures, _DOUBLINGS))
            await asyncio.sleep(self._random.uniform(longest / 4, longest))

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """
        Connect and ask the server something.

        Raises:
            StorageError: It isn't there, or refuses the token.
        """
        token = self._target.auth_token
        self._driver = libsql_client.create_client(
            self.where, auth_token=token.get_secret_value() if token else None
        )
        try:
            async with asyncio.timeout(self._timeout):
                await self._driver.execute("SELECT 1")
        except Exception as exc:
            await self.aclose()
            raise storage_error(exc, "open", self.where) from exc

    async def aclose(self) -> None:
        """Close the connection; idempotent."""
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()

    def _opened(self) -> libsql_client.Client:
        if self._driver is None:
            raise ClosedError("The connection is closed.")
        return self._driver

    @property
    def is_closed(self) -> bool:
        return self._driver is None

    def held(self) -> dict[str, int]:
        """Connections, worker threads and waiting calls, right now."""
        return {
            "connections": int(self._driver is not None),
            "worker_threads": 0,
            "waiting_calls": self._waiting,
        }

    def observe(self, observer: Observer | None) -> None:
        """Call this for every statement from now on."""
        self._observer = observer


def _sendable(step: Step) -> Bound:
    """
    The statement for the driver; what would break the connection for everybody is refused.

    Raises:
        UnicodeEncodeError: A text holds a lone surrogate, which no server understands.
    """
    for value in step.values:
        if type(value) is str and not value.isascii():
            value.encode()
    return step.statement.sql, step.values


class HttpExecutor(RemoteExecutor):
    """HTTP has no interactive transactions: programs are optimistic, see ``guards``."""

    async def _transaction(self, factory: ProgramFactory[T]) -> T:
        program = factory()
        seen: list[tuple[Step, Rows]] = []
        has_written = False
        try:
            steps = next(program)
            while True:
                if has_written:
                    raise AssertionError("A program yields its writes once, at the end.")
                has_written = any(step.statement.writes for step in steps)
                if has_written:
                    results = await self._commit(seen, steps)
                else:
                    results = await self._send(steps)
                    seen += zip(steps, results, strict=True)
                steps = program.send(results)
        except StopIteration as finished:
            result: T = finished.value
            return result
        finally:
            program.close()

    async def _commit(self, seen: Sequence[tuple[Step, Rows]], steps: Sequence[Step]) -> list[Rows]:
        """All writes, if every read still holds."""
        checks: list[Bound] = []
        for step, rows in seen:
            if step.statement.columns and not step.statement.volatile:
                checks += guards(step, rows)
        try:
            results = await self._opened().batch([*checks, *map(_sendable, steps)])
        except libsql_client.LibsqlError as exc:
            if checks and is_malformed_json(exc):
                raise _StaleReadError("Rows changed since they were read.") from exc
            raise
        written = results[len(checks) :]
        return [self._rows(step, result) for step, result in zip(steps, written, strict=True)]


class WebSocketExecutor(RemoteExecutor):
    """A WebSocket carries interactive transactions."""

    def __init__(self, target: Target, settings: LibSQLConnection) -> None:
        super().__init__(target, settings)
        self._calls: set[asyncio.Future[Any]] = set()

    async def _transaction(self, factory: ProgramFactory[T]) -> T:
        program = factory()
        transaction = self._opened().transaction()
        try:
            # The driver begins without the write lock, which may come too late for what was
            # read; so begin again with it.
            await self._in_one_go(transaction, [("COMMIT", ()), ("BEGIN IMMEDIATE", ())])
            steps = next(program)
            while True:
                results = await self._in_one_go(transaction, [_sendable(step) for step in steps])
                rows = [self._rows(step, got) for step, got in zip(steps, results, strict=True)]
                steps = program.send(rows)
        except StopIteration as finished:
            await self._answer(transaction.commit())
            result: T = finished.value
            return result
        finally:
            program.close()
            # Without a commit the server rolls back when the stream is closed.
            transaction.close()

    async def _in_one_go(
        self, transaction: libsql_client.Transaction, bound: Sequence[Bound]
    ) -> list[libsql_client.ResultSet]:
        """Send statements without waiting for the answer of each; the first error counts."""
        calls = [self._start(transaction.execute(sql, values)) for sql, values in bound]
        answers = await asyncio.gather(*map(asyncio.shield, calls), return_exceptions=True)
        results: list[libsql_client.ResultSet] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            results.append(answer)
        return results

    async def _answer(self, call: Awaitable[T]) -> T:
        return await asyncio.shield(self._start(call))

    def _start(self, call: Awaitable[T]) -> asyncio.Future[T]:
        """The driver trips over calls that are cancelled, so they end by themselves."""
        task = asyncio.ensure_future(call)
        self._calls.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            # Whoever still waits has it; for all others it was looked at here.
            task.exception()

    async def aclose(self) -> None:
        await super().aclose()
        if self._calls:
            await asyncio.wait(self._calls, timeout=self._timeout)
