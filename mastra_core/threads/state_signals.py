"""Tell a thread from outside what is the case on one of its state lanes (signals.md 13.4, G9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.contracts.signal_sink import SendSignalResult, SignalTarget, StateSignalResult
from mastra_core.errors import (
    MastraError,
    RunArgumentError,
    SignalPersistUnavailableError,
    StorageConflictError,
    ThreadNotFoundError,
)
from mastra_core.messages.signals import create_signal
from mastra_core.messages.state_lanes import StateInput, decide_change, state_input, tracking_after
from mastra_core.processors.lane_tracking import KnownLanes, LaneTracker
from mastra_core.wire.signals import Signal

__all__ = ("StateSender",)

#: Writers of one lane that may come between before one gives up.
_ATTEMPTS: Final = 16
#: Outcomes after which the state was told.
_TOLD: Final = ("wake", "deliver", "persist")


class StateSender:
    """Sends states to lanes; those of one lane one after the other."""

    def __init__(self, *, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._lanes = _LaneLocks()

    async def send(
        self,
        value: Mapping[str, Any],
        target: SignalTarget,
        *,
        tracker: LaneTracker | None,
        would_take: Callable[[], bool],
        route: Callable[[Signal], SendSignalResult],
    ) -> StateSignalResult:
        """
        Tell the thread, unless it knows.

        The lane is written before the signal is routed and put back if the signal wasn't taken,
        so that one that was dropped doesn't count as told.

        Args:
            value: The state (signals.md 13.1).
            target: The thread, and what to do there.
            tracker: Where lanes are kept; None without memory.
            would_take: Is there a way for the signal, as things stand? If not, the lane isn't
                touched.
            route: Routes the signal.

        Raises:
            InvalidSignalError: The state is malformed.
            RunArgumentError: No thread is named.
            SignalPersistUnavailableError: The agent has no memory.
            ThreadNotFoundError: The thread isn't stored, or is another resource's.
            StorageConflictError: Others change the lane all the time.
        """
        state = state_input(value)
        if target.thread_id is None or target.resource_id is None:
            raise RunArgumentError(
                "resourceId and threadId are required to send a state signal",
                id="AGENT_INVALID_TARGET",
            )
        # Created once before anything is written, so that bad contents change nothing.
        create_signal(
            state.signal_value(thread_id=target.thread_id, version=1),
            clock=self._clock,
            ids=self._ids,
        )
        if tracker is None:
            raise SignalPersistUnavailableError("sendStateSignal requires Mastra memory")
        async with self._lanes.hold(target.thread_id, state.lane):
            return await self._send(state, target, tracker, would_take, route)

    async def _send(
        self,
        state: StateInput,
        target: SignalTarget,
        tracker: LaneTracker,
        would_take: Callable[[], bool],
        route: Callable[[Signal], SendSignalResult],
    ) -> StateSignalResult:
        thread_id, resource_id = target.thread_id, target.resource_id
        assert thread_id is not None
        for _ in range(_ATTEMPTS):
            known = await tracker.load(thread_id, resource_id=resource_id)
            if known is None:
                raise ThreadNotFoundError(
                    f"sendStateSignal could not load thread {thread_id}",
                    thread_id=thread_id,
                    resource_id=resource_id,
                )
            tracking = known.tracking(state.lane)
            signal = self._changed(state, known, thread_id)
            if signal is None:
                return StateSignalResult(skipped=True, reason="unchanged")
            if not would_take():
                return _told(route(signal))
            after = tracking_after(signal, tracking, None, now=self._clock.now())
            if await tracker.commit(known, state.lane, after, is_open=True):
                return await self._route(state, signal, tracking, tracker, route)
        raise StorageConflictError(
            f"Lane {state.lane!r} of thread {thread_id!r} changes too often to be written.",
            details={"thread_id": thread_id, "lane": state.lane},
        )

    def _changed(self, state: StateInput, known: KnownLanes, thread_id: str) -> Signal | None:
        """The signal of a state that the thread doesn't know; None if it does."""
        tracking = known.tracking(state.lane)
        # Of a change that nobody confirmed the signal may have got lost: it is told again.
        window = () if known.is_open(state.lane) else None
        change = decide_change(state, tracking, window)
        if change is None:
            return None
        return create_signal(
            state.signal_value(thread_id=thread_id, version=change.version),
            clock=self._clock,
            ids=self._ids,
        )

    async def _route(
        self,
        state: StateInput,
        signal: Signal,
        previous: Mapping[str, Any] | None,
        tracker: LaneTracker,
        route: Callable[[Signal], SendSignalResult],
    ) -> StateSignalResult:
        assert signal.metadata is not None
        thread_id = signal.metadata["state"]["threadId"]
        is_told = False
        try:
            result = route(signal)
            try:
                is_told = (await result.accepted).action in _TOLD
            except MastraError:
                # Whoever awaits ``accepted`` gets it.
                return _told(result)
            return _told(result)
        finally:
            if is_told:
                await tracker.confirm(thread_id, state.lane, signal.id)
            else:
                await tracker.undo(thread_id, state.lane, signal.id, previous)


def _told(result: SendSignalResult) -> StateSignalResult:
    return StateSignalResult(
        skipped=False,
        signal=result.signal,
        accepted=result.accepted,
        persisted=result.persisted,
    )


class _LaneLocks:
    """One lock per lane that somebody writes to; forgotten when nobody does."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, str], tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, thread_id: str, lane: str) -> AsyncIterator[None]:
        """Be the only one at this lane."""
        key = (thread_id, lane)
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)
