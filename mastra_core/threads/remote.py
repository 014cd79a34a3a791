"""What other processes say about a thread, for its readers here (signals.md 12.9-12.11)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mastra_core.errors import LeaseUnavailableError
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.threads import events
from mastra_core.threads.events import ThreadEvent
from mastra_core.wire.chunks import Chunk

__all__ = ("MAX_REMOTE_PARTS", "MAX_REMOTE_RUNS", "RemoteRun", "RemoteRuns")

logger = logging.getLogger(__name__)

#: So many parts of a run are kept for readers that are slow, and so many runs that aren't known
#: to be whole; whoever misses something gets a gap (signals.md G6).
MAX_REMOTE_PARTS: Final = 65_536
MAX_REMOTE_RUNS: Final = 256
#: So many segments that ended are remembered, in case a part of one comes again.
_REMEMBERED: Final = 1000
_PROMPTS: Final = frozenset({"tool-call-approval", "tool-call-suspended"})


@dataclass(slots=True, kw_only=True)
class RemoteRun:
    """One segment of a run of another process."""

    run_id: str
    stream_id: str
    agent_id: str | None = None
    #: Shown as it comes, since its owner holds the lease; else only once it is known to be whole.
    is_live: bool = False
    state: Literal["running", "suspended", "ended"] = "running"
    buffer: ChunkBuffer = field(default_factory=lambda: ChunkBuffer(limit=MAX_REMOTE_PARTS))
    #: What kind of chunk came last.
    last: str | None = None
    #: Number of the part that comes next; None if nobody has told one.
    next_part: int | None = None
    #: All that was taken of it was said before anybody here read.
    is_past: bool = False
    #: Parts are missing, so nothing that follows is shown.
    has_gap: bool = False


class RemoteRuns:
    """
    The runs of other processes on one thread, in the order in which they were registered.

    Args:
        source_id: This process, whose own events are skipped.
        owner: Asks who has the thread's lease; None if nobody has. It raises
            ``LeaseUnavailableError`` if that isn't known.
        show: Gives a run to the readers of the thread.
    """

    def __init__(
        self,
        *,
        source_id: str,
        owner: Callable[[], Awaitable[str | None]],
        show: Callable[[str, ChunkBuffer], None],
    ) -> None:
        self._source_id = source_id
        self._owner = owner
        self._show = show
        self._runs: dict[str, RemoteRun] = {}
        #: Terminal events that were taken already; they may come again.
        self._ended: dict[str, None] = {}
        #: Segments that somebody aborted.
        self._aborted: dict[str, None] = {}
        #: Called whenever an end was heard.
        self._heard_end = asyncio.Event()

    def was_aborted(self, stream_id: str) -> bool:
        """Has its owner said that somebody aborted this segment?"""
        return stream_id in self._aborted

    async def until_ended(self, stream_id: str) -> None:
        """Until its owner has said that this segment has ended."""
        while stream_id not in self._ended:
            self._heard_end.clear()
            await self._heard_end.wait()

    @property
    def active(self) -> RemoteRun | None:
        """The run that has the thread elsewhere, as far as its events tell."""
        for run in reversed(self._runs.values()):
            if run.is_live and run.state != "ended":
                return run
        return None

    async def take(self, event: ThreadEvent, *, is_past: bool = False) -> None:
        """
        Enter one event; those of this process, and unknown ones, change nothing.

        Args:
            event: What another process said.
            is_past: It was said before anybody here read; what had ended by then isn't shown.
        """
        run_id = event.run_id
        if run_id is None:
            return
        if event.source_id == self._source_id:
            if event.type == events.REGISTERED:
                # We have the thread, so whoever had it before has said all that it could.
                self._taken_over(event.stream_id or run_id)
            return
        match event.type:
            case events.REGISTERED:
                run = await self._register(event, run_id)
                run.next_part = run.next_part or 0
                run.is_past = run.is_past or is_past
            case events.PART:
                await self._part(event, run_id, is_past=is_past)
            case events.SUSPENDED:
                self._suspended(event, run_id)
            case events.COMPLETED | events.ABORTED | events.FAILED:
                self._end(event, run_id, is_past=is_past)
            case events.DISCARDED:
                # It was never to be seen: its owner could not begin it.
                run_found = self._found(event, run_id)
                if run_found is not None:
                    self._close(run_found)
            case _:
                pass

    async def _register(self, event: ThreadEvent, run_id: str) -> RemoteRun:
        stream_id = event.stream_id or run_id
        known = self._runs.get(stream_id)
        if known is not None:
            return known
        # A resumed run goes on in a new segment.
        for earlier in [r for r in self._runs.values() if r.run_id == run_id]:
            if earlier.state == "suspended":
                self._close(earlier)
        run = RemoteRun(run_id=run_id, stream_id=stream_id, agent_id=event.text("agentId"))
        self._runs[stream_id] = run
        while len(self._runs) > MAX_REMOTE_RUNS:
            # Its owner never told of its end.
            self._close(next(iter(self._runs.values())))
        run.is_live = await self._has_lease(run_id) is True
        if run.is_live:
            self._taken_over(stream_id)
            self._show(run_id, run.buffer)
        return run

    async def _has_lease(self, run_id: str) -> bool | None:
        """None if nobody knows, which is no reason to give a run up (field report R101)."""
        try:
            return await self._owner() == run_id
        except LeaseUnavailableError:
            logger.warning("owner of a thread not known", exc_info=True)
            return None

    def _taken_over(self, stream_id: str) -> None:
        """
        A run with the lease says on the topic that it begins. Owners tell how a run ended
        before they let the thread go: one that is still at work here died, or lost the thread.
        """
        for run in list(self._runs.values()):
            if run.stream_id != stream_id and run.state == "running":
                self._lose(run)

    def _lose(self, run: RemoteRun) -> None:
        if run.last in _PROMPTS:
            # A prompt that waits for an answer may outlive its owner: it is parked, not lost.
            run.state = "suspended"
            run.buffer.close()
            return
        text = f"Thread run {run.run_id} lost its lease before publishing a terminal event"
        run.buffer.append(_error(run.run_id, text))
        self._close(run)

    async def _part(self, event: ThreadEvent, run_id: str, *, is_past: bool) -> None:
        part = event.data.get("part")
        if not isinstance(part, dict) or (event.stream_id or run_id) in self._ended:
            return
        run = self._runs.get(event.stream_id or run_id)
        if run is None:
            # The beginning was trimmed, or came before we listened.
            run = await self._register(event, run_id)
        if self._is_next(run, event.data.get("seq"), is_past=is_past):
            chunk: Chunk = part
            run.last = chunk.get("type")
            run.buffer.append(chunk)

    def _is_next(self, run: RemoteRun, number: Any, *, is_past: bool) -> bool:
        """
        Is this the part that is to follow? Parts may come twice, or be lost on their way.

        What is missing of the past was deleted, since storage has it (12.2); so was what would
        stand between the past and the first part that is heard.
        """
        if run.has_gap:
            return False
        if not isinstance(number, int):
            return True
        if run.next_part is not None and number < run.next_part:
            return False
        may_skip = is_past or run.is_past
        run.is_past = is_past
        if run.next_part is not None and number > run.next_part and not may_skip:
            self._show_gap(run)
            return False
        run.next_part = number + 1
        return True

    def _show_gap(self, run: RemoteRun) -> None:
        """What follows makes no sense without what is missing; storage has it all (G6)."""
        run.has_gap = True
        text = f"Parts of the thread run {run.run_id} were lost on their way; its rows are stored."
        run.buffer.append(_error(run.run_id, text))

    def _suspended(self, event: ThreadEvent, run_id: str) -> None:
        run = self._found(event, run_id)
        if run is not None:
            run.state = "suspended"
            self._show_whole(run)
            run.buffer.close()

    def _end(self, event: ThreadEvent, run_id: str, *, is_past: bool) -> None:
        run = self._found(event, run_id)
        if run is None:
            if event.type == events.FAILED and not is_past:
                self._show_failure(run_id, event)
            return
        if event.type == events.ABORTED:
            self._aborted[run.stream_id] = None
            while len(self._aborted) > _REMEMBERED:
                del self._aborted[next(iter(self._aborted))]
            # What follows is its end; what it said so far is told as aborted.
            if run.is_live and not run.buffer.is_closed:
                run.buffer.append({"type": "abort", "runId": run_id})
                self._close(run)
            return
        if event.type == events.FAILED:
            if run.is_live:
                run.buffer.append(_error(run_id, event.data.get("error")))
        else:
            told = event.data.get("parts")
            has_all = not isinstance(told, int) or (run.next_part or 0) == told
            if run.is_live and not has_all and not (run.has_gap or run.is_past):
                self._show_gap(run)
            if has_all and not run.has_gap and _is_whole(event, run) and not is_past:
                self._show_whole(run)
        self._close(run)

    def _found(self, event: ThreadEvent, run_id: str) -> RemoteRun | None:
        """The segment that is meant; older senders don't say which (19.9)."""
        if event.stream_id is not None:
            return self._runs.get(event.stream_id)
        of_run = [run for run in self._runs.values() if run.run_id == run_id]
        if not of_run:
            return None
        return of_run[0] if event.type == events.SUSPENDED else of_run[-1]

    def _show_whole(self, run: RemoteRun) -> None:
        if not run.is_live:
            run.is_live = True
            self._show(run.run_id, run.buffer)

    def _show_failure(self, run_id: str, event: ThreadEvent) -> None:
        buffer = ChunkBuffer()
        buffer.append(_error(run_id, event.data.get("error")))
        buffer.close()
        self._show(run_id, buffer)

    def _close(self, run: RemoteRun) -> None:
        run.state = "ended"
        run.buffer.close()
        self._runs.pop(run.stream_id, None)
        self._ended[run.stream_id] = None
        self._heard_end.set()
        while len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    async def check(self) -> bool:
        """Does whoever runs here still have the thread? True if a run was given up."""
        run = self.active
        if run is None or not await self.seems_lost():
            return False
        self._lose(run)
        return True

    async def seems_lost(self) -> bool:
        """Does somebody run here who hasn't the thread any more, as far as we have heard?"""
        run = self.active
        if run is None or run.state == "suspended":
            return False
        if await self._has_lease(run.run_id) is not False:
            return False
        return run.state != "ended" and self._runs.get(run.stream_id) is run

    def end(self) -> None:
        """Nobody reads any more."""
        for run in list(self._runs.values()):
            self._close(run)


def _is_whole(event: ThreadEvent, run: RemoteRun) -> bool:
    persisted = event.data.get("persisted")
    if isinstance(persisted, bool):
        return persisted
    # An older sender: judged by what it said.
    kinds = {chunk.get("type") for chunk in run.buffer.chunks}
    if "finish" not in kinds or kinds & {"error", "abort"}:
        return False
    finish = next(c for c in reversed(run.buffer.chunks) if c.get("type") == "finish")
    result: Any = (finish.get("payload") or {}).get("stepResult") or {}
    return bool(result.get("reason") != "error")


def _error(run_id: str, error: Any) -> Chunk:
    """An error that survived the wire, or a word in its place (19.7)."""
    shown = error if error not in (None, {}, "") else "The run failed in another process."
    return {"type": "error", "runId": run_id, "payload": {"error": shown}}
