"""A handful of connections for all callers of one URL.

Single statements share one or two connections, each a pipeline. Transactions that have to
think between their statements get a connection for themselves, and wait for one if need be.
Connections open when they are needed; if none can be opened, those who wait get the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

import psycopg

from mastra_core.contracts.storage.health import PoolState
from mastra_postgres.channel import Channel, Ending, Segment
from mastra_postgres.connect import connect
from mastra_postgres.errors import ClosedError, ExhaustedError
from mastra_postgres.settings import PostgresConnection

__all__ = ("Pool",)

logger = logging.getLogger(__name__)

#: Segments on one connection; more of them wait until some are answered.
_MOST_IN_FLIGHT: Final = 256
#: Seconds without an answer after which new work goes elsewhere.
_STALLED: Final = 0.05
#: Seconds that clean-up of a transaction may take.
_CLEANUP: Final = 10.0
#: Seconds until another connection is tried, if some are open and one more was refused.
_PAUSE: Final = 1.0


class Pool:
    """Opens connections, lends them, and shares them."""

    def __init__(self, settings: PostgresConnection) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        #: Nobody's; shared ones; those of one caller; and of these, who comes back soon.
        self._free: list[Channel] = []
        self._lanes: list[Channel] = []
        self._lent: set[Channel] = set()
        self._returning: set[Channel] = set()
        self._opening = 0
        self._paused_until = 0.0
        #: Work for the shared connections that none of them could take yet, and since when.
        self._queue: deque[tuple[Segment, float]] = deque()
        self._waiters: deque[asyncio.Future[Channel]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._prepares = settings.prepared_statements != "off"

    # -- facts -----------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """The database, without secrets."""
        return self._settings.where

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    def held(self) -> dict[str, int]:
        """Connections and waiting calls, right now."""
        channels = self._channels()
        waiting = len(self._queue) + len(self._waiters)
        return {
            "connections": len(channels) + self._opening,
            "waiting_calls": waiting + sum(channel.in_flight for channel in channels),
        }

    def state(self) -> PoolState:
        """The connections, for people."""
        busy = sum(lane.is_busy for lane in self._lanes)
        return PoolState(
            size=len(self._channels()),
            in_use=len(self._lent) + busy,
            limit=self._settings.pool_size,
            waiting=len(self._queue) + len(self._waiters),
        )

    def _channels(self) -> list[Channel]:
        return [*self._free, *self._lanes, *self._lent]

    @property
    def _total(self) -> int:
        return len(self._free) + len(self._lanes) + len(self._lent) + self._opening

    def prepares(self) -> bool:
        """Whether statements are prepared."""
        return self._prepares

    def stop_preparing(self) -> None:
        """The server, or a pooler in between, lost statements that were prepared."""
        if self._prepares and self._settings.prepared_statements == "auto":
            logger.info("prepared statements switched off", extra={"database": self.where})
            self._prepares = False
        for channel in self._channels():
            channel.forget_prepared()

    @property
    def _most_in_flight(self) -> int:
        # Poolers that lose prepared statements mix up the answers of pipelines, too.
        return _MOST_IN_FLIGHT if self._prepares else 1

    # -- sharing ---------------------------------------------------------------------------

    def submit(self, segment: Segment) -> None:
        """Send a segment on a shared connection, as soon as there is one."""
        if self._is_closed:
            segment.fail(ClosedError())
            return
        lane = None if self._queue else self._lane(segment)
        if lane is not None:
            lane.send(segment)
            return
        self._queue.append((segment, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(self._patience, self._give_up)
        self._grow()

    @property
    def _patience(self) -> float:
        return self._settings.pool_timeout_ms / 1000

    def _lane(self, segment: Segment) -> Channel | None:
        """The shared connection that should get a segment."""
        lanes = self._lanes
        best = min(lanes, key=lambda lane: _load(lane, segment), default=None)
        if best is not None and not best.is_busy:
            return best
        if self._waiters and not self._lent:
            # Whoever waits for a connection of their own gets the first that is done.
            return None
        is_bad = best is not None and (best.is_stalled(_STALLED) or not best.suits(segment))
        if is_bad or len(lanes) < self._settings.shared_connections:
            if self._free:
                channel = self._free.pop()
                lanes.append(channel)
                return channel
            self._open_one()
            if is_bad and self._opening:
                # Soon there is a better one.
                return None
        if best is not None and best.in_flight < self._most_in_flight:
            return best
        return None

    def _give_up(self) -> None:
        """Nobody waits for ever."""
        self._timer = None
        longest = self._loop.time() - self._patience
        while self._queue and self._queue[0][1] <= longest:
            segment, _ = self._queue.popleft()
            segment.fail(ExhaustedError(self._settings.pool_size))
        if self._queue:
            at = self._queue[0][1] + self._patience
            self._timer = self._loop.call_at(at, self._give_up)

    # -- lending ---------------------------------------------------------------------------

    async def acquire(self) -> Channel:
        """
        A connection for the caller alone, until ``release``.

        Raises:
            ExhaustedError: None became free in time.
        """
        if self._is_closed:
            raise ClosedError
        if not self._waiters and (channel := self._take()) is not None:
            return channel
        waiter: asyncio.Future[Channel] = self._loop.create_future()
        self._waiters.append(waiter)
        self._grow()
        try:
            async with asyncio.timeout(self._patience):
                return await self._handed_over(waiter)
        except TimeoutError as exc:
            if isinstance(exc, ExhaustedError):
                raise
            raise ExhaustedError(self._settings.pool_size) from exc

    async def _handed_over(self, waiter: asyncio.Future[Channel]) -> Channel:
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                # It came in the very moment in which its caller was cancelled.
                self.release(waiter.result())
            raise

    def _take(self) -> Channel | None:
        """A connection that nobody uses, now lent."""
        channel = self._free.pop() if self._free else None
        if channel is None and (len(self._lanes) > 1 or self._total >= self._settings.pool_size):
            idle = [lane for lane in self._lanes if not lane.is_busy]
            if idle:
                channel = idle[-1]
                self._lanes.remove(channel)
        if channel is not None:
            self._lent.add(channel)
        return channel

    def release(self, channel: Channel, *, rollback: bool = False) -> None:
        """
        Give a connection back, whatever state its transaction is in.

        Args:
            channel: What ``acquire`` gave.
            rollback: Its transaction may still be open.
        """
        if channel not in self._lent or channel in self._returning:
            return
        is_busy = channel.is_busy
        if rollback and not channel.is_lost:
            channel.send(Ending(channel, self._loop.time() + _CLEANUP))
        if is_busy and not channel.is_lost:
            # Its caller was cancelled: the server stops first.
            self._returning.add(channel)
            channel.hurry()
            return
        self._give_back(channel)

    def _give_back(self, channel: Channel) -> None:
        self._returning.discard(channel)
        self._lent.discard(channel)
        if not channel.is_lost and not self._is_closed:
            self._free.append(channel)
        self._pump()

    # -- giving out ------------------------------------------------------------------------

    def _on_drained(self, channel: Channel) -> None:
        """A connection has answered everything, or is lost."""
        if channel.is_lost:
            for group in (self._free, self._lanes):
                if channel in group:
                    group.remove(channel)
            self._returning.discard(channel)
            self._lent.discard(channel)
        elif channel in self._returning:
            self._give_back(channel)
            return
        elif channel in self._lent:
            return
        elif len(self._lanes) > self._settings.shared_connections and channel in self._lanes:
            self._lanes.remove(channel)
            self._free.append(channel)
        if self._queue or self._waiters:
            self._pump()

    def _pump(self) -> None:
        """Give connections to whoever waits."""
        if self._is_closed:
            return
        while self._queue:
            segment, _ = self._queue[0]
            lane = None
            if not segment.is_abandoned:
                lane = self._lane(segment)
                if lane is None:
                    break
            # Before it is sent: a connection that is lost by that calls this again.
            self._queue.popleft()
            if lane is not None:
                lane.send(segment)
        while self._waiters:
            if not self._waiters[0].done():
                channel = self._take()
                if channel is None:
                    break
                self._waiters[0].set_result(channel)
            self._waiters.popleft()
        self._grow()

    # -- opening ---------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the first connection, so that a failure is seen now."""
        self._opening += 1
        try:
            channel = self._channel(await connect(self._settings))
        finally:
            self._opening -= 1
        self._free.append(channel)

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        """A connection apart from the pool, for those who listen; the caller closes it."""
        return await connect(self._settings)

    def _grow(self) -> None:
        """Open as many connections as there are callers that wait for one."""
        wanted = len(self._waiters) + bool(self._queue)
        for _ in range(wanted - self._opening):
            self._open_one()

    def _open_one(self) -> None:
        if self._total >= self._settings.pool_size or self._is_closed:
            return
        if self._total and self._loop.time() < self._paused_until:
            return
        self._opening += 1
        self._spawn(self._open_task(), "postgres-open")

    async def _open_task(self) -> None:
        try:
            connection = await connect(self._settings)
        except Exception as exc:  # noqa: BLE001 - it is the error of those who wait
            self._opening -= 1
            self._not_opened(exc)
            return
        except BaseException:
            self._opening -= 1
            raise
        self._opening -= 1
        if self._is_closed:
            await connection.close()
            return
        self._free.append(self._channel(connection))
        self._pump()

    def _not_opened(self, exc: Exception) -> None:
        if self._total:
            # Others are open, or about to be: their callers can wait for those.
            self._paused_until = self._loop.time() + _PAUSE
            logger.warning("no further connection", extra={"error": str(exc)})
            return
        queue, self._queue = self._queue, deque()
        waiters, self._waiters = self._waiters, deque()
        for segment, _ in queue:
            segment.fail(exc)
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(exc)

    def _channel(self, connection: psycopg.AsyncConnection[Any]) -> Channel:
        return Channel(
            connection,
            prepares=self.prepares,
            on_drained=self._on_drained,
            on_overdue=lambda channel: self._spawn(channel.cancel(), "postgres-cancel"),
        )

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # A cancel request that fails is no harm: the deadline ends the connection.
            logger.debug("background work failed", extra={"error": str(error)})

    # -- closing ---------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close every connection; whoever still waits gets an error. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        closed = ClosedError()
        while self._queue:
            self._queue.popleft()[0].fail(closed)
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(closed)
        for channel in self._channels():
            channel.lose(closed)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _load(channel: Channel, segment: Segment) -> tuple[bool, bool, int]:
    return channel.is_stalled(_STALLED), not channel.suits(segment), channel.in_flight
