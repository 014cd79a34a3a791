"""One connection in pipeline mode, shared by callers that never wait for each other.

Work comes as *segments*: statements up to a sync point, which the server runs as one
transaction unless they open a longer one. Segments are sent at once, whoever sent others
before, and answered in order. Everything here is callbacks on the socket: a caller that is
cancelled only stops listening, its segment is answered and thrown away.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from mastra_postgres.errors import LostError, StrayCancelError

__all__ = (
    "COMMIT",
    "ROLLBACK",
    "Channel",
    "Command",
    "Ending",
    "Results",
    "Segment",
)

Results: TypeAlias = list[pq.abc.PGresult]

_BINARY: Final = pq.Format.BINARY
#: Statements that one connection keeps prepared; shapes beyond are sent as text.
_MOST_PREPARED: Final = 400
#: Seconds that a server has to answer after it was told to cancel.
_GRACE: Final = 5.0
#: Seconds that a statement may go on whose caller was cancelled.
_PATIENCE: Final = 0.2
#: Seconds in which a cancel request may still hit the next statement.
_NEAR: Final = 1.0


class Command(NamedTuple):
    """One statement for the driver."""

    sql: bytes
    values: Sequence[bytes | None] = ()
    #: Not prepared: it may need what a statement before it creates, or must always work.
    is_single: bool = False


COMMIT: Final = Command(b"COMMIT", is_single=True)
ROLLBACK: Final = Command(b"ROLLBACK", is_single=True)


class Segment:
    """Statements between two sync points, and whoever waits for their results."""

    __slots__ = (
        "behind",
        "commands",
        "deadline",
        "error",
        "expired",
        "future",
        "is_open",
        "preparing",
        "results",
        "writes",
    )

    def __init__(
        self,
        commands: Sequence[Command],
        future: asyncio.Future[Results] | None,
        deadline: float,
        *,
        is_open: bool = False,
        writes: bool = False,
        behind: Segment | None = None,
    ) -> None:
        self.commands: Sequence[Command] = commands
        #: What follows at once, in a transaction of its own, whatever becomes of this one.
        self.behind: Segment | None = behind
        self.future: asyncio.Future[Results] | None = future
        #: It may wait for a lock; others shouldn't wait behind it.
        self.writes: bool = writes
        #: It begins a transaction that has to be ended right behind it.
        self.is_open: bool = is_open
        #: Loop time at which the server is told to stop.
        self.deadline: float = deadline
        self.results: Results = []
        self.error: BaseException | None = None
        self.expired = False
        #: Segments that prepare what this one uses; the first cause of a failure is theirs.
        self.preparing: list[Segment] = []

    @property
    def is_abandoned(self) -> bool:
        """Whether its caller was cancelled."""
        return self.future is not None and self.future.done()

    def fail(self, error: BaseException) -> None:
        """Tell the caller, if there still is one."""
        self.error = error
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)

    def finish(self, *, is_near_cancel: bool) -> None:
        """All results are here; another segment may have been cancelled a moment ago."""
        failed = next((r for r in self.results if r.status == pq.ExecStatus.FATAL_ERROR), None)
        if failed is None:
            if self.future is not None and not self.future.done():
                self.future.set_result(self.results)
            return
        cause = next((other.error for other in self.preparing if other.error), None)
        error = cause or error_from_result(failed, "utf-8")
        if isinstance(error, psycopg.errors.QueryCanceled):
            error = self._cancelled(error, is_near_cancel=is_near_cancel)
        self.fail(error)

    def _cancelled(
        self, error: psycopg.errors.QueryCanceled, *, is_near_cancel: bool
    ) -> BaseException:
        """Why a statement was cancelled: by us, by a blow meant for another, or by others."""
        if self.expired:
            meant: Exception = TimeoutError("The server was told to stop; it took too long.")
        elif is_near_cancel:
            meant = StrayCancelError()
        else:
            return error
        meant.__cause__ = error
        return meant


class Channel:
    """
    A connection that answers segments in their order.

    Args:
        connection: Open and idle; belongs to the channel from now on.
        prepares: Whether statements may be prepared right now.
        on_drained: Called when everything was answered, and when the connection is lost.
        on_overdue: Called when ``cancel`` should be awaited.
    """

    def __init__(
        self,
        connection: psycopg.AsyncConnection[Any],
        *,
        prepares: Callable[[], bool],
        on_drained: Callable[[Channel], None],
        on_overdue: Callable[[Channel], None],
    ) -> None:
        self.connection = connection
        self.is_lost = False
        self._pgconn = connection.pgconn
        self._loop = asyncio.get_running_loop()
        self._prepares = prepares
        self._on_drained = on_drained
        self._on_overdue = on_overdue
        self._flights: deque[Segment] = deque()
        #: How many of them write.
        self._writes = 0
        self._prepared: dict[bytes, bytes] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing = False
        #: When the last answer came, or the first question after a pause was asked.
        self._moved = 0.0
        #: Cancel requests on their way, and when the last one was through.
        self._cancels = 0
        self._cancelled_at = float("-inf")
        self._fd = self._pgconn.socket
        self._pgconn.enter_pipeline_mode()
        self._loop.add_reader(self._fd, self._on_readable)

    @property
    def in_flight(self) -> int:
        """How many segments wait for their answer."""
        return len(self._flights)

    def suits(self, segment: Segment) -> bool:
        """Whether only segments of its kind are on their way; reads never wait for locks."""
        return not self._flights or segment.writes is (self._writes > 0)

    def is_stalled(self, seconds: float) -> bool:
        """Whether nothing was answered for so long."""
        return bool(self._flights) and self._loop.time() - self._moved > seconds

    # -- sending ---------------------------------------------------------------------------

    def send(self, segment: Segment) -> None:
        """Send a segment; its future is settled later, whatever happens."""
        pgconn = self._pgconn
        if not self._flights:
            self._moved = self._loop.time()
        try:
            self._send_commands(segment)
        except psycopg.OperationalError as exc:
            segment.fail(LostError(str(exc).strip(), unsent=True))
            self.lose(exc)
            return
        self._flights.append(segment)
        self._writes += segment.writes
        try:
            pgconn.pipeline_sync()
            if segment.is_open:
                # Ends a transaction that failed, too.
                pgconn.send_query_params(COMMIT.sql, None)
                self._flights.append(Ending(self, segment.deadline))
                pgconn.pipeline_sync()
            if (behind := segment.behind) is not None:
                self._send_commands(behind)
                self._flights.append(behind)
                self._writes += behind.writes
                pgconn.pipeline_sync()
            self._flush()
        except psycopg.OperationalError as exc:
            self.lose(exc)
            return
        self._watch(segment.deadline)

    def _send_commands(self, segment: Segment) -> None:
        pgconn = self._pgconn
        for command, name in zip(segment.commands, self._names(segment), strict=True):
            values = command.values or []  # older drivers take nothing but lists
            if name is None:
                pgconn.send_query_params(command.sql, values, result_format=_BINARY)
            else:
                pgconn.send_query_prepared(name, values, result_format=_BINARY)

    def _names(self, segment: Segment) -> list[bytes | None]:
        """The names of the prepared statements; what is new is prepared before the segment."""
        known = self._prepared
        names = [known.get(command.sql) for command in segment.commands]
        if None in names and self._prepares():
            for index, command in enumerate(segment.commands):
                if command.is_single or names[index] is not None:
                    continue
                if len(known) < _MOST_PREPARED:
                    names[index] = known.get(command.sql) or self._prepare(command.sql, segment)
        return names

    def _prepare(self, sql: bytes, user: Segment) -> bytes:
        # The name tells the text, so a pooler that mixes up connections does no harm.
        name = b"mpy_" + hashlib.blake2b(sql, digest_size=12).hexdigest().encode()
        preparing = _Preparing(sql, self._prepared, user.deadline)
        self._pgconn.send_prepare(name, sql)
        self._pgconn.pipeline_sync()
        self._flights.append(preparing)
        self._prepared[sql] = name
        user.preparing.append(preparing)
        return name

    def forget_prepared(self) -> None:
        """Prepare everything anew; what the server still knows stays as it is."""
        self._prepared.clear()

    def _flush(self) -> None:
        is_left = self._pgconn.flush() == 1
        if is_left is not self._writing:
            self._writing = is_left
            if is_left:
                self._loop.add_writer(self._fd, self._on_writable)
            else:
                self._loop.remove_writer(self._fd)

    def _on_writable(self) -> None:
        try:
            self._flush()
        except psycopg.OperationalError as exc:
            self.lose(exc)

    # -- receiving -------------------------------------------------------------------------

    def _on_readable(self) -> None:
        try:
            self._pgconn.consume_input()
            self._collect()
            if self._writing:
                self._flush()
        except psycopg.OperationalError as exc:
            self.lose(exc)

    def _collect(self) -> None:
        pgconn = self._pgconn
        nothing = 0
        while not pgconn.is_busy() and self._flights:
            result = pgconn.get_result()
            if result is None:
                # One after each statement; more of them mean that nothing comes any more.
                nothing += 1
                if nothing > 1:
                    break
                continue
            nothing = 0
            segment = self._flights[0]
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                self._flights.popleft()
                self._writes -= segment.writes
                self._moved = self._loop.time()
                segment.finish(is_near_cancel=self._is_near_cancel())
                if not self._flights and not self._cancels:
                    self._on_drained(self)
            else:
                segment.results.append(result)
        if pgconn.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError(pgconn.get_error_message())

    # -- deadlines -------------------------------------------------------------------------

    def _watch(self, deadline: float) -> None:
        """Look then at the latest; what was sent before may have had more time."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        if not self._flights:
            return
        oldest = self._flights[0]
        now = self._loop.time()
        if oldest.deadline > now:
            # Those behind it may have less time.
            at = min(oldest.deadline, now + _GRACE)
            self._timer = self._loop.call_at(at, self._on_deadline)
        elif oldest.expired:
            self.lose(TimeoutError("The server doesn't answer any more."))
        else:
            oldest.expired = True
            oldest.deadline = now + _GRACE
            self._timer = self._loop.call_at(oldest.deadline, self._on_deadline)
            self._on_overdue(self)

    def hurry(self) -> None:
        """Nobody waits for the answers any more: have the server stop, if it isn't done soon."""
        soon = self._loop.time() + _PATIENCE
        for segment in self._flights:
            segment.deadline = min(segment.deadline, soon)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(soon, self._on_deadline)

    async def cancel(self) -> None:
        """
        Ask the server to stop the statement it runs; that it does is seen in the answer.

        The request goes past the connection and may come late. So nobody else gets the
        connection before it is through.
        """
        if self.is_lost:
            return
        self._cancels += 1
        try:
            await self.connection.cancel_safe(timeout=_GRACE)
        finally:
            self._cancels -= 1
            self._cancelled_at = self._loop.time()
            if not self._flights and not self._cancels:
                self._on_drained(self)

    def _is_near_cancel(self) -> bool:
        return bool(self._cancels) or self._loop.time() - self._cancelled_at < _NEAR

    @property
    def is_busy(self) -> bool:
        """Whether an answer is missing, or a cancel request on its way."""
        return bool(self._flights or self._cancels)

    # -- ending ----------------------------------------------------------------------------

    def lose(self, cause: BaseException) -> None:
        """Close the connection at once; whoever waits gets an error. Idempotent."""
        if self.is_lost:
            return
        self.is_lost = True
        self._release_socket()
        flights, self._flights = self._flights, deque()
        self._pgconn.finish()
        text = _innermost(flights) or str(cause).strip() or type(cause).__name__
        for segment in flights:
            error: BaseException = LostError(text, unsent=False)
            if segment.expired:
                error = TimeoutError(text)
            error.__cause__ = cause
            segment.fail(error)
        self._on_drained(self)

    def _release_socket(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._loop.remove_writer(self._fd)
            self._writing = False


class Ending(Segment):
    """The end of a transaction that nobody waits for; it works, or the connection goes."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel, deadline: float) -> None:
        super().__init__((ROLLBACK,), None, deadline)
        self._channel = channel

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self._channel.lose(error)


class _Preparing(Segment):
    """A statement that is being prepared; forgotten again if the server refuses it."""

    __slots__ = ("_known", "_sql")

    def __init__(self, sql: bytes, known: dict[bytes, bytes], deadline: float) -> None:
        super().__init__((), None, deadline)
        self._sql = sql
        self._known = known

    def fail(self, error: BaseException) -> None:
        if isinstance(error, psycopg.errors.DuplicatePreparedStatement):
            # Of another client of the same pooler; equal names are equal statements.
            return
        self._known.pop(self._sql, None)
        super().fail(error)


def _innermost(flights: Iterable[Segment]) -> str:
    """What the server said last, before it closed the connection."""
    for segment in flights:
        for result in segment.results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                return result.get_error_message().strip()
    return ""
