"""Telling other processes what a run here says (signals.md 17.3, owner side)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from mastra_core.base.clock import Clock
from mastra_core.base.isotime import epoch_ms
from mastra_core.errors import MastraError, PubSubConnectionError
from mastra_core.streaming.output import ModelOutput
from mastra_core.threads import events
from mastra_core.threads.subscription import broadcast_form
from mastra_core.wire.chunks import Chunk
from mastra_core.wire.events import Event

__all__ = ("RunAnnouncer",)

logger = logging.getLogger(__name__)

_PINNED: Final = frozenset({"start", "tool-call-approval", "tool-call-suspended"})

#: How long somebody who can't be told anything is tried, and how often.
_PATIENCE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.2

_Publish = Callable[[Event], Awaitable[None]]


class RunAnnouncer:
    """
    One segment of a run, told part by part and in order; readers here don't wait for it.

    Args:
        output: What the run says.
        publish: Puts an event on the thread's topic.
        stream_id: Id of the segment.
        stream_seq: How many segments of this run this process has begun.
        source_id: This process.
        clock: Says when a part was produced.
        on_stored: Told a time in milliseconds: storage has what the parts say that were produced
            until then, up to the end of a step (signals.md 17.8).
    """

    def __init__(
        self,
        output: ModelOutput,
        publish: _Publish,
        *,
        stream_id: str,
        stream_seq: int,
        source_id: str,
        clock: Clock,
        on_stored: Callable[[int], None] | None = None,
    ) -> None:
        self.run_id = output.run_id
        self.stream_id = stream_id
        self._output = output
        self._publish = publish
        self._stream_seq = stream_seq
        self._source_id = source_id
        self._clock = clock
        self._on_stored = on_stored
        #: Ends of steps that were told: their numbers, and until when all that was produced.
        self._step_ends: deque[tuple[int, int]] = deque()
        #: When the last part was produced.
        self._produced_at = 0
        self._is_silent = False
        #: So many parts there were so far.
        self._parts = 0
        #: Nobody could be told anything for too long: those elsewhere only learn of the end.
        self._gave_up = False

    def silence(self) -> None:
        """Nothing more is told: the thread isn't ours any more (G3)."""
        self._is_silent = True

    async def run(self) -> None:
        """Tell everything up to the end of the segment, and how it ended."""
        registered = events.run_registered(
            self.run_id,
            stream_id=self.stream_id,
            stream_seq=self._stream_seq,
            agent_id=self._output.agent_id,
            source_id=self._source_id,
        )
        await self._tell(registered)
        # Those elsewhere are better off with a gap than without the end.
        async for chunk in self._output.buffer.read(skips_gaps=True):
            if self._is_silent:
                return
            # Those that the buffer let go are missing in the numbers, too.
            self._parts = max(self._parts, self._output.buffer.gone)
            # Whatever the wall clock does: parts leave the bus by this time, the stored ones first.
            produced_at = self._produced_at = max(self._produced_at, epoch_ms(self._clock.now()))
            if not self._gave_up:
                await self._tell(self._part(chunk, produced_at))
            self._look_what_is_stored(chunk, produced_at)
            self._parts += 1

    def _look_what_is_stored(self, chunk: Chunk, produced_at: int) -> None:
        """Whose parts stand in storage by now?"""
        number, ends = self._parts, self._step_ends
        if ends and ends[-1][0] == number - 1:
            # What follows the end of the step stays, also if it was produced at the same time.
            ends[-1] = (number - 1, min(ends[-1][1], produced_at - 1))
        stored: int | None = None
        while ends and ends[0][0] <= self._output.buffer.covered:
            _, stored = ends.popleft()
        if chunk.get("type") == "step-finish":
            ends.append((number, produced_at))
        if stored is not None and self._on_stored is not None:
            self._on_stored(stored)

    async def finish(self, *, persisted: bool) -> None:
        """The segment is over, its messages are stored and its parts were told."""
        facts = {"stream_id": self.stream_id, "source_id": self._source_id}
        status = self._output.status
        if status == "suspended":
            await self._tell(events.run_suspended(self.run_id, **facts))
            return
        await self._tell(
            events.run_ended(
                self.run_id,
                **facts,
                status=status,
                persisted=persisted and status == "success",
                parts=self._parts,
            )
        )

    async def aborted(self) -> None:
        """Somebody aborted the run; what it still says follows."""
        await self._tell(
            events.run_aborted(self.run_id, stream_id=self.stream_id, source_id=self._source_id)
        )

    def _part(self, chunk: Chunk, produced_at: int) -> Event:
        return events.stream_part(
            self.run_id,
            broadcast_form(chunk, self.run_id),
            seq=self._parts,
            stream_id=self.stream_id,
            source_id=self._source_id,
            produced_at=produced_at,
            pinned=chunk.get("type") in _PINNED,
        )

    async def _tell(self, event: Event) -> None:
        """
        Tell one thing; an outage that passes costs time alone.

        The run doesn't depend on who listens: after too long it goes on, and receivers see by
        the numbers of the parts that some are missing.
        """
        end = self._clock.monotonic() + _PATIENCE_SECONDS
        while not self._is_silent:
            try:
                await self._publish(event)
            except MastraError as exc:
                # Numbers tell receivers what came twice.
                may_pass = exc.retryable or isinstance(exc, PubSubConnectionError)
                is_last = self._gave_up or self._clock.monotonic() > end or not may_pass
                logger.warning(
                    "a part of a run could not be told",
                    exc_info=True,
                    extra={"run_id": self.run_id, "event_type": event.type, "final": is_last},
                )
                if is_last:
                    self._gave_up = self._gave_up or may_pass
                    return
            else:
                return
            await self._clock.sleep(_PAUSE_SECONDS)
