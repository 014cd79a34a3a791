"""Stopping a run from outside, wherever it is waiting (streaming.md 2.7), or only the request
that it makes, since input came before the answer (signals.md 10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from mastra_core.base.clock import Clock
from mastra_core.bus.timers import Alarm

__all__ = ("Interrupt", "RequestAttempt", "RequestPreempted", "RunInterrupted")

T = TypeVar("T")


class RunInterrupted(BaseException):
    """The run was aborted while it waited for a model or a tool."""


class RequestPreempted(BaseException):
    """Input arrived before the model had said anything: its request is dropped."""


class RequestAttempt:
    """
    One request, from the moment when its input was drained until its answer began.

    While it is armed, input that arrives takes its place. ``abort`` is what its model watches.

    Args:
        clock: Measures the debounce; only needed with one.
        debounce: For so many seconds no more input must come first, so that a burst of it takes
            the place of one request alone.
    """

    def __init__(self, clock: Clock | None = None, *, debounce: float = 0.0) -> None:
        self.abort = asyncio.Event()
        self._clock = clock
        self._debounce = debounce
        self._alarm: Alarm | None = None
        self.is_preempted = False
        self._is_armed = False
        self._waiting: asyncio.Task[object] | None = None

    @property
    def is_open(self) -> bool:
        """May input take its place, or has some done so?"""
        return self._is_armed or self.is_preempted

    def arm(self) -> None:
        """All input that is there was drained: what comes now fires."""
        self._is_armed = True

    def accept(self) -> None:
        """The answer has begun, or is over: input waits for the next step."""
        self._is_armed = False
        if self._alarm is not None:
            self._alarm.stop()

    def preempt(self) -> None:
        """Input arrived."""
        if not self._is_armed:
            return
        if self._clock is None or self._debounce <= 0:
            self._fire()
            return
        if self._alarm is None:
            self._alarm = Alarm(self._clock, self._fire, name="interruption")
        self._alarm.set(self._clock.monotonic() + self._debounce)

    def _fire(self) -> None:
        if not self._is_armed:
            return
        self._is_armed = False
        self.is_preempted = True
        self.abort.set()
        if self._waiting is not None:
            self._waiting.cancel()

    def check(self) -> None:
        """
        Go on with this request?

        Raises:
            RequestPreempted: Input has taken its place.
        """
        if self.is_preempted:
            raise RequestPreempted

    async def next_of(self, parts: AsyncIterator[T]) -> T:
        """
        The next part of an answer; only this wait ends when input arrives.

        Raises:
            StopAsyncIteration: There is none.
            RequestPreempted: Input has taken the place of the request.
        """
        self.check()
        task = asyncio.current_task()
        assert task is not None
        self._waiting = task
        try:
            return await anext(parts)
        except asyncio.CancelledError:
            # Of an abort that came at the same time the guard of the run hears.
            if self.is_preempted and task.uncancel() == 0:
                raise RequestPreempted from None
            raise
        finally:
            self._waiting = None


class Interrupt:
    """
    The abort signal of one run.

    ``event`` can be read and awaited by models and tools. While the loop is inside
    :meth:`guard`, an abort also ends that wait at once.
    """

    def __init__(self) -> None:
        self.event = asyncio.Event()
        #: Why the run must end, if not because somebody wished it.
        self.error: Exception | None = None
        #: The request that goes on.
        self.attempt: RequestAttempt | None = None
        self._guarded: asyncio.Task[object] | None = None

    @property
    def is_aborted(self) -> bool:
        """Has the run been aborted?"""
        return self.event.is_set()

    def abort(self) -> None:
        """Abort the run; later calls do nothing."""
        if self.event.is_set():
            return
        self.event.set()
        if self.attempt is not None:
            self.attempt.accept()
            self.attempt.abort.set()
        if self._guarded is not None:
            self._guarded.cancel()

    def signal_arrived(self) -> None:
        """Input for this run was queued: it takes the place of a request without an answer."""
        if self.attempt is not None and not self.is_aborted:
            self.attempt.preempt()

    def begin_attempt(self, clock: Clock | None = None, *, debounce: float = 0.0) -> RequestAttempt:
        """The next request; not armed yet."""
        self.attempt = RequestAttempt(clock, debounce=debounce)
        if self.is_aborted:
            self.attempt.abort.set()
        return self.attempt

    def fail(self, error: Exception) -> None:
        """End the run at once as failed, with this error."""
        if self.error is None:
            self.error = error
            self.abort()

    async def guard(self, work: Awaitable[T]) -> T:
        """
        Wait for ``work`` unless the run is aborted first.

        Inside another guarded wait, in whichever task, it is that one which an abort ends.

        Raises:
            RunInterrupted: It was aborted, before or while waiting; also if ``work`` took no
                notice of that and came to its end.
        """
        if self._guarded is not None:
            return await work
        if self.event.is_set():
            if asyncio.iscoroutine(work):
                work.close()
            raise RunInterrupted
        task = asyncio.current_task()
        assert task is not None
        self._guarded = task
        try:
            result = await work
        except (asyncio.CancelledError, RunInterrupted):
            if self.event.is_set() and task.uncancel() == 0:
                raise RunInterrupted from None
            raise
        finally:
            self._guarded = None
        if self.event.is_set():
            if task.uncancel() > 0:
                raise asyncio.CancelledError
            raise RunInterrupted
        return result
