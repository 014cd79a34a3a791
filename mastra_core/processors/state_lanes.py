"""State lanes of processors in a run: what one says, and what the thread knows already
(signals.md 13.3, 13.5)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.telemetry import Tracer
from mastra_core.contracts.processor import Processor
from mastra_core.errors import ProcessorError, StorageConflictError
from mastra_core.messages.message_list import MessageList
from mastra_core.messages.signals import create_signal
from mastra_core.messages.state_lanes import (
    LaneHistory,
    StateInput,
    decide_change,
    lane_history,
    lane_window,
    state_input,
    tracking_after,
)
from mastra_core.processors.lane_tracking import KnownLanes, LaneTracker
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal

__all__ = ("UNCHANGED", "LaneView", "MessageLoader", "RunLanes", "StateUnchanged", "Transcript")

logger = logging.getLogger(__name__)

#: Writers of one lane that may come between before one gives up.
_ATTEMPTS: Final = 16


@dataclass(frozen=True, slots=True)
class StateUnchanged:
    """The state is known already; nothing was added."""

    skipped: Literal[True] = True
    reason: Literal["unchanged"] = "unchanged"


UNCHANGED: Final = StateUnchanged()


class Transcript(Protocol):
    """The run into whose transcript states go."""

    def enter(self, signal: Signal) -> Signal:
        """Seal what was said so far and add the signal; returns the rewritten one."""
        ...

    def withdraw(self, signal: Signal) -> None:
        """Take it out again, since it proved to be known."""
        ...

    async def echo(self, signal: Signal) -> None:
        """Show it on the stream."""
        ...


class MessageLoader(Protocol):
    """Where rows come from that the run doesn't remember."""

    async def load(self, message_ids: Sequence[str]) -> list[Message]:
        """Those that exist."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """What a processor is told about its lane."""

    history: LaneHistory
    tracking: Mapping[str, Any] | None


class RunLanes:
    """
    The lanes of one run.

    Args:
        tracker: Where tracking is kept; None for an agent without memory.
        loader: Loads tracked signals that the run doesn't remember.
        messages: The transcript, which says thread and resource.
        transcript: Changes it.
        clock: Gives times.
        ids: Gives ids.
        tracer: Notes what was added.
    """

    def __init__(
        self,
        *,
        tracker: LaneTracker | None,
        loader: MessageLoader | None,
        messages: MessageList,
        transcript: Transcript,
        clock: Clock,
        ids: Ids,
        tracer: Tracer,
    ) -> None:
        self._tracker = tracker
        self._tracer = tracer
        self._loader = loader
        self._messages = messages
        self._transcript = transcript
        self._clock = clock
        self._ids = ids

    # -- for processors -------------------------------------------------------------------

    def sender(
        self, processor: Processor
    ) -> Callable[[Mapping[str, Any]], Awaitable[Signal | StateUnchanged]]:
        """``send_state_signal`` of one processor; its lane unless the value names another."""

        async def send_state_signal(value: Mapping[str, Any]) -> Signal | StateUnchanged:
            if self._tracker is None or self._messages.thread_id is None:
                raise _without_memory(processor)
            return await self._apply(processor, state_input(value, lane=_lane_of(processor)))

        return send_state_signal

    async def view(self, processor: Processor) -> LaneView | None:
        """
        What ``compute_state_signal`` is told; None if there is nothing to compute for.

        Raises:
            ProcessorError: The agent has no memory, or the thread is gone.
        """
        if self._tracker is None:
            raise _without_memory(processor)
        thread_id = self._messages.thread_id
        if thread_id is None:
            logger.debug("state lane skipped: no thread", extra={"processor": processor.id})
            return None
        lane = _lane_of(processor)
        known = await self._load(processor, thread_id)
        tracking = known.tracking(lane)
        window = lane_window(self._messages, lane, thread_id)
        history = lane_history(window)
        if not history.has_snapshot and (tracking or {}).get("lastSnapshotSignalId"):
            history = lane_history(window, await self._earlier(lane, thread_id, tracking or {}))
        return LaneView(history=history, tracking=tracking)

    async def apply(
        self, processor: Processor, returned: Mapping[str, Any]
    ) -> Signal | StateUnchanged:
        """What ``compute_state_signal`` returned takes effect."""
        state = state_input(
            {k: v for k, v in returned.items() if k != "id"}, lane=_lane_of(processor)
        )
        return await self._apply(processor, state)

    # -- the rule -------------------------------------------------------------------------

    async def _apply(self, processor: Processor, state: StateInput) -> Signal | StateUnchanged:
        thread_id = self._messages.thread_id
        assert thread_id is not None
        assert self._tracker is not None
        for _ in range(_ATTEMPTS):
            known = await self._load(processor, thread_id)
            tracking = known.tracking(state.lane)
            window = lane_window(self._messages, state.lane, thread_id)
            change = decide_change(state, tracking, window)
            if change is None:
                return UNCHANGED
            signal = create_signal(
                state.signal_value(thread_id=thread_id, version=change.version),
                clock=self._clock,
                ids=self._ids,
            )
            entered = self._transcript.enter(signal)
            after = tracking_after(entered, tracking, window, now=self._clock.now())
            try:
                is_ours = await self._tracker.commit(known, state.lane, after)
            except BaseException:
                self._transcript.withdraw(entered)
                raise
            if is_ours:
                self._note(processor, state, entered)
                await self._transcript.echo(entered)
                return entered
            self._transcript.withdraw(entered)
        raise StorageConflictError(
            f"Lane {state.lane!r} of thread {thread_id!r} changes too often to be written.",
            details={"thread_id": thread_id, "lane": state.lane},
        )

    def _note(self, processor: Processor, state: StateInput, signal: Signal) -> None:
        """A moment under the processor's span; only for what was really added (G18)."""
        self._tracer.start(
            f"signal: {state.lane}",
            {
                "stateId": state.lane,
                "mode": state.mode,
                "tagName": signal.tag_name,
                "processorId": processor.id,
                "output": {
                    "attributes": signal.attributes,
                    "hasDelta": "delta" in state.members,
                },
            },
            kind="agent_signal",
        ).end()

    async def _load(self, processor: Processor, thread_id: str) -> KnownLanes:
        assert self._tracker is not None
        known = await self._tracker.load(thread_id)
        if known is None:
            raise ProcessorError(
                processor_id=processor.id,
                phase="compute_state_signal",
                reason=f"could not load thread {thread_id}",
            )
        return known

    async def _earlier(
        self, lane: str, thread_id: str, tracking: Mapping[str, Any]
    ) -> list[Signal]:
        """The tracked signals that the run doesn't remember."""
        if self._loader is None:
            return []
        copies = tracking.get("activeCopies")
        ids = [c["id"] for c in copies or () if isinstance(c, Mapping) and "id" in c]
        wanted = dict.fromkeys((tracking["lastSnapshotSignalId"], *ids))
        rows = await self._loader.load(list(wanted))
        found = MessageList(clock=self._clock, ids=self._ids, thread_id=thread_id)
        found.add_remembered(r for r in rows if r.role == "signal" and r.thread_id == thread_id)
        return lane_window(found, lane, thread_id)


def _lane_of(processor: Processor) -> str:
    """The lane of a processor: its ``state_id``, else its id."""
    named = getattr(processor, "state_id", None)
    return named if isinstance(named, str) and named else processor.id


def _without_memory(processor: Processor) -> ProcessorError:
    return ProcessorError(
        f"[Processor:{processor.id}] sendStateSignal requires Mastra memory with an active "
        "resourceId and threadId",
        processor_id=processor.id,
    )
