"""A libSQL server, over HTTP or a WebSocket.

Either way every step is one batch. A WebSocket could carry a transaction in several
messages, too, but it would hold the server's only write lock while they travel.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

import aiohttp
import libsql_client

from mastra_core.errors import MastraError, StorageTimeoutError
from mastra_libsql.errors import (
    ClosedError,
    error_id,
    is_busy,
    is_lost_answer,
    is_malformed_json,
    storage_error,
)
from mastra_libsql.guards import Bound, guards
from mastra_libsql.settings import LibSQLConnection, Target, TargetKind
from mastra_libsql.web_socket import WebSocketClient
from mastra_sql.executor import Executed, Observer, ProgramFactory, Rows, Step

__all__ = ("RemoteExecutor", "WebSocketExecutor", "remote_client")

T = TypeVar("T")

_FIRST_WAIT: Final = 0.005
_LONGEST_WAIT: Final = 0.25
#: A wait doubles at most so often; a number that doubles for ever is no number at last.
_DOUBLINGS: Final = 16


class _StaleReadError(Exception):
    """Somebody else wrote between the reads and the writes of a program."""


class _Doubt:
    """Whether a write was sent of which nobody knows if it was carried out."""

    def __init__(self) -> None:
        self.is_there = False

    def __enter__(self) -> None:
        self.is_there = True

    def __exit__(self, _: object, exc: BaseException | None, __: object) -> None:
        # An answer, if only a refusal, ends it; so does a server that wasn't even reached.
        self.is_there = isinstance(exc, asyncio.CancelledError) or (
            exc is not None and _is_lost(exc)
        )


def remote_client(target: Target, settings: LibSQLConnection) -> RemoteExecutor:
    """The executor for the protocol of the URL; not connected yet."""
    if target.kind is TargetKind.HTTP:
        return RemoteExecutor(target, settings)
    return WebSocketExecutor(target, settings)


class RemoteExecutor:
    """
    Runs statements at a server; programs are optimistic, see ``guards``.

    This is all that HTTP needs.
    """

    def __init__(self, target: Target, settings: LibSQLConnection) -> None:
        self.where: str = target.address
        self._target = target
        self._timeout = settings.request_timeout_ms / 1000
        self._patience = settings.busy_timeout_ms / 1000
        self._driver: libsql_client.Client | None = None
        # More than a few concurrent writers make a server spin instead of write.
        self._writers = asyncio.Semaphore(settings.max_remote_writers)
        self._losers = asyncio.Lock()
        self._waiting = 0
        self._observer: Observer | None = None
        self._random = random.Random()  # noqa: S311 - jitter is no secret

    # -- statements ------------------------------------------------------------------------

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        return await self._guarded(operation, lambda: self._retried(lambda: self._read(steps)))

    async def write(self, operation: str, step: Step) -> Rows:
        doubt = _Doubt()

        async def attempt() -> Rows:
            with doubt:
                [rows] = await self._send([step])
            return rows

        return await self._guarded(operation, lambda: self._writing(attempt), doubt)

    async def transact(self, operation: str, program: ProgramFactory[T]) -> T:
        doubt = _Doubt()
        return await self._guarded(
            operation, lambda: self._writing(lambda: self._transaction(program, doubt)), doubt
        )

    async def _read(self, steps: Sequence[Step]) -> list[Rows]:
        try:
            return await self._send(steps)
        except Exception as exc:
            if not _is_lost(exc):
                raise
            # The server closed it, perhaps while it was idle; reading again is harmless.
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

    # -- transactions ----------------------------------------------------------------------

    async def _transaction(self, factory: ProgramFactory[T], doubt: _Doubt) -> T:
        """Run one program once; raises what makes another attempt worthwhile."""
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
                    with doubt:
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
            results = await self._answer(self._opened().batch([*checks, *map(_sendable, steps)]))
        except libsql_client.LibsqlError as exc:
            if checks and is_malformed_json(exc):
                raise _StaleReadError("Rows changed since they were read.") from exc
            raise
        written = results[len(checks) :]
        return [self._rows(step, result) for step, result in zip(steps, written, strict=True)]

    # -- retries and errors ----------------------------------------------------------------

    async def _guarded(
        self, operation: str, work: Callable[[], Awaitable[T]], doubt: _Doubt | None = None
    ) -> T:
        """Bound the wait for an answer; let only errors of ours out."""
        try:
            return await work()
        except MastraError:
            raise
        except _StaleReadError as exc:
            raise StorageTimeoutError(
                f"Other writers changed the rows of {operation} again and again; "
                f"nothing of it was written to {self.where}.",
                id=error_id(operation),
                details={"operation": operation, "database": self.where},
            ) from exc
        except Exception as exc:
            in_doubt = doubt is not None and doubt.is_there
            raise storage_error(exc, operation, self.where, in_doubt=in_doubt) from exc

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
        async with AsyncExitStack() as stack:
            while True:
                try:
                    async with asyncio.timeout(self._timeout):
                        return await attempt()
                except Exception as exc:
                    if not (isinstance(exc, _StaleReadError) or is_busy(exc)):
                        raise
                    if loop.time() >= deadline:
                        raise
                    if failures == 0 and isinstance(exc, _StaleReadError):
                        # One after the other: losers that race again make each other lose.
                        await stack.enter_async_context(self._losers)
                        deadline = loop.time() + self._patience
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
        self._driver = self._connect(token.get_secret_value() if token else None)
        try:
            async with asyncio.timeout(self._timeout):
                await self._driver.execute("SELECT 1")
        except Exception as exc:
            await self.aclose()
            raise storage_error(exc, "open", self.where) from exc

    def _connect(self, token: str | None) -> libsql_client.Client:
        return libsql_client.create_client(self.where, auth_token=token)

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


def _is_lost(exc: BaseException) -> bool:
    """Whether a connection broke that was there, perhaps after a request was sent."""
    if isinstance(exc, aiohttp.ClientConnectorError | aiohttp.ClientResponseError):
        return False
    if isinstance(exc, ConnectionError | aiohttp.ClientError | aiohttp.WebSocketError):
        return True
    return is_lost_answer(exc)


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


class WebSocketExecutor(RemoteExecutor):
    """The same over a connection that stays open and carries many calls at once."""

    def __init__(self, target: Target, settings: LibSQLConnection) -> None:
        super().__init__(target, settings)
        self._calls: set[asyncio.Future[Any]] = set()

    def _connect(self, token: str | None) -> libsql_client.Client:
        return WebSocketClient(self.where, token)

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
