"""Tell a thread from outside what is the case on one of its state lanes (signals.md 13.4, G9)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
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
from mastra_core.messages.signals import create_signal, signal_from_wire
from mastra_core.messages.state_lanes import StateInput, decide_change, state_input, tracking_after
from mastra_core.processors.lane_tracking import KnownLanes, LaneTracker, OpenChange
from mastra_core.wire.signals import Signal

__all__ = ("StateRoutes", "StateSender")

logger = logging.getLogger(__name__)

#: Writers of one lane that may come between before one gives up.
_ATTEMPTS: Final = 16
#: How often is looked whether another process has told the state by now; the longest pause.
_LOOK_FIRST: Final = 0.02
_LOOK_LONGEST: Final = 0.5
#: The same where others tell one state after the other.
_LOOK_OFTEN: Final = 0.1
#: Outcomes after which the state was told.
_TOLD: Final = ("wake", "deliver", "persist")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRoutes:
    """The ways of a state's signal into its thread."""

    #: Is there one, as things stand? If not, the lane isn't touched.
    would_take: Callable[[], bool]
    #: Routes a new signal.
    send: Callable[[Signal], SendSignalResult]
    #: Routes one that another process may have routed already.
    repeat: Callable[[Signal], SendSignalResult]


class StateSender:
    """
    Sends states to lanes; those of one lane one after the other, in all processes.

    Args:
        clock: Gives times.
        ids: Gives ids.
        patience: Seconds that another process has until it must have told what it began to.
    """

    def __init__(self, *, clock: Clock, ids: Ids, patience: Callable[[], float]) -> None:
        self._clock = clock
        self._ids = ids
        self._patience = patience
        self._lanes = _LaneLocks()

    async def send(
        self,
        value: Mapping[str, Any],
        target: SignalTarget,
        *,
        tracker: LaneTracker | None,
        routes: StateRoutes,
    ) -> StateSignalResult:
        """
        Tell the thread, unless it knows.

        The lane is written before the signal is routed and put back if the signal wasn't taken,
        so that one that was dropped doesn't count as told. Whoever finds the same state written
        and not yet taken waits until that is decided; if its sender never says, the very signal
        that it was about to send is sent on, so that the thread gets it once. Who has another
        state to tell lets that one go before it.

        Args:
            value: The state (signals.md 13.1).
            target: The thread, and what to do there.
            tracker: Where lanes are kept; None without memory.
            routes: How its signal gets there.

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
            return await self._send(state, target, tracker, routes)

    async def _send(
        self,
        state: StateInput,
        target: SignalTarget,
        tracker: LaneTracker,
        routes: StateRoutes,
    ) -> StateSignalResult:
        thread_id, resource_id = target.thread_id, target.resource_id
        assert thread_id is not None
        until = self._clock.monotonic() + self._patience()
        for _ in range(_ATTEMPTS):
            known = await self._load(state, target, tracker, until=until)
            if known is None:
                raise ThreadNotFoundError(
                    f"sendStateSignal could not load thread {thread_id}",
                    thread_id=thread_id,
                    resource_id=resource_id,
                )
            tracking = known.tracking(state.lane)
            change = decide_change(state, tracking, None)
            opened = known.opened(state.lane)
            if change is None and opened is None:
                return StateSignalResult(skipped=True, reason="unchanged")
            if change is None and opened is not None:
                if await self._is_decided(known, state.lane, tracker):
                    continue
                signal = self._left(opened) or self._signal(state, thread_id, known)
                opening = replace(opened, signal=signal.to_wire(), tries=opened.tries + 1)
                way = routes.repeat
            else:
                signal = self._signal(state, thread_id, known)
                opening = OpenChange(signal=signal.to_wire(), before=tracking)
                way = routes.send
            if not routes.would_take():
                return _told(way(signal))
            after = tracking_after(signal, tracking, None, now=self._clock.now())
            if await tracker.commit(known, state.lane, after, opening=opening):
                return await self._route(state, signal, opening, tracker, way)
        raise StorageConflictError(
            f"Lane {state.lane!r} of thread {thread_id!r} changes too often to be written.",
            details={"thread_id": thread_id, "lane": state.lane},
        )

    async def _load(
        self, state: StateInput, target: SignalTarget, tracker: LaneTracker, *, until: float
    ) -> KnownLanes | None:
        """
        The lanes, once nobody is about to tell another state on this one, or time is over: the
        thread is to hear them in the order in which the lane had them.
        """
        assert target.thread_id is not None
        pause = _LOOK_FIRST
        while True:
            known = await tracker.load(target.thread_id, resource_id=target.resource_id)
            if known is None or known.opened(state.lane) is None:
                return known
            left = until - self._clock.monotonic()
            if left <= 0 or decide_change(state, known.tracking(state.lane), None) is None:
                return known
            await self._clock.sleep(min(pause, left))
            # Who has told one state goes on with the next at once: the moment between is short.
            pause = min(2 * pause, _LOOK_OFTEN)

    async def _is_decided(self, known: KnownLanes, lane: str, tracker: LaneTracker) -> bool:
        """
        Wait until somebody says what became of an open change.

        Returns:
            False if nobody did: whoever made it has died, or stands still.
        """
        deadline = self._clock.monotonic() + self._patience()
        pause = _LOOK_FIRST
        while (left := deadline - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(pause, left))
            pause = min(2 * pause, _LOOK_LONGEST)
            current = await tracker.load(known.thread.id)
            if current is None or not current.is_as(known, lane):
                return True
        return False

    def _signal(self, state: StateInput, thread_id: str, known: KnownLanes) -> Signal:
        """A new signal that tells the state; of one that may be known the version stays."""
        change = decide_change(state, known.tracking(state.lane), ())
        assert change is not None
        return create_signal(
            state.signal_value(thread_id=thread_id, version=change.version),
            clock=self._clock,
            ids=self._ids,
        )

    def _left(self, opened: OpenChange) -> Signal | None:
        """The signal that another process was about to send."""
        if opened.signal is None:
            return None
        try:
            return signal_from_wire(opened.signal, clock=self._clock)
        except MastraError:
            logger.warning("the signal of a lane can't be read", exc_info=True)
            return None

    async def _route(
        self,
        state: StateInput,
        signal: Signal,
        opening: OpenChange,
        tracker: LaneTracker,
        way: Callable[[Signal], SendSignalResult],
    ) -> StateSignalResult:
        assert signal.metadata is not None
        thread_id = signal.metadata["state"]["threadId"]
        is_told = False
        try:
            result = way(signal)
            try:
                is_told = (await result.accepted).action in _TOLD
                if is_told and result.persisted is not None:
                    is_told = False
                    await result.persisted
                    is_told = True
            except MastraError:
                # Whoever awaits ``accepted`` or ``persisted`` gets it.
                return _told(result)
            return _told(result)
        finally:
            if is_told:
                await tracker.confirm(thread_id, state.lane, signal.id)
            else:
                await tracker.undo(thread_id, state.lane, signal.id, opening)


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
