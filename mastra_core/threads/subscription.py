"""Reading everything that happens on a thread (signals.md 12)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.errors import StreamGapError, wire_from_error
from mastra_core.messages.signals import is_hidden
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.threads.history import HistoryPage, ReadHistory, is_prompt, read_history
from mastra_core.wire.chunks import Chunk

__all__ = ("MAX_WAITING_RUNS", "ThreadSubscription", "broadcast_form")

#: How many runs wait for one reader; of the oldest beyond it gets a gap instead (signals.md G6).
MAX_WAITING_RUNS: Final = 256


class ThreadSubscription:
    """
    The chunks of all runs of one thread, run after run, until unsubscribed.

    ``async for chunk in subscription.stream``; a run that is active when subscribing is
    replayed from its beginning. With a history its first chunk is ``thread-history``, and of the
    active run follows what no stored message says.
    """

    def __init__(
        self,
        *,
        hide_signals: bool | Sequence[str] | None,
        active_run_id: Callable[[], str | None],
        abort: Callable[..., bool],
        unsubscribe: Callable[[ThreadSubscription], None],
        history: Callable[[], Awaitable[HistoryPage]] | None = None,
    ) -> None:
        self._hide_signals = hide_signals
        self._runs: deque[_Feed] = deque()
        self._arrived = asyncio.Event()
        self._is_over = False
        self._current: _Feed | None = None
        self.active_run_id = active_run_id
        self.abort = abort
        self._unsubscribe = unsubscribe
        #: Done when runs of other processes are heard, too; None if there are none.
        self.ready: asyncio.Task[None] | None = None
        self._load_history = history
        self._history: ReadHistory | None = None
        self._lost_runs: list[str] = []

    def __await__(self) -> Generator[Any, None, ThreadSubscription]:
        """
        Wait until every later chunk of the thread will be read, wherever it is said, and the
        history was read, if it is wanted.
        """
        if self.ready is not None:
            yield from asyncio.shield(self.ready).__await__()
        yield from self._read_history().__await__()
        return self

    async def _read_history(self) -> None:
        if self._load_history is None or self._history is not None:
            return
        self._history = await read_history(
            self._load_history,
            lambda: [feed.buffer for feed in self._runs],
            hide_signals=self._hide_signals,
        )
        complete = self._history.complete
        self._runs = deque(feed for feed in self._runs if id(feed.buffer) not in complete)

    def add_run(self, run_id: str, buffer: ChunkBuffer) -> None:
        """Read this run after those before it; a reader that is too slow misses whole runs."""
        if len(self._runs) >= MAX_WAITING_RUNS:
            self._lost_runs.append(self._runs.popleft().run_id)
        self._runs.append(_Feed(run_id, buffer))
        self._arrived.set()

    def cut_run(self, run_id: str) -> None:
        """The run was aborted: what it says from now on is not read (signals.md 12.3)."""
        feeds = [*self._runs, self._current] if self._current is not None else list(self._runs)
        for feed in feeds:
            if feed.run_id == run_id and feed.end is None:
                feed.end = feed.buffer.count
                feed.buffer.wake()

    def unsubscribe(self) -> None:
        """End the iteration; idempotent."""
        if self._is_over:
            return
        self._is_over = True
        self._unsubscribe(self)
        self._arrived.set()
        if self._current is not None:
            self._current.buffer.wake()

    @property
    def stream(self) -> AsyncIterator[Chunk]:
        """The chunks; stopping the iteration early unsubscribes."""
        return self._read()

    async def _read(self) -> AsyncIterator[Chunk]:
        try:
            if self._load_history is not None:
                await self._read_history()
                assert self._history is not None
                yield self._history.chunk
            while not self._is_over:
                if self._lost_runs:
                    yield _gap(self._lost_runs.pop(0), "the reader was too slow for this run")
                    self._lost_runs.clear()
                if not self._runs:
                    self._arrived.clear()
                    await self._arrived.wait()
                    continue
                self._current = self._runs.popleft()
                async for chunk in self._read_run(self._current):
                    yield chunk
        finally:
            self.unsubscribe()

    async def _read_run(self, feed: _Feed) -> AsyncIterator[Chunk]:
        run_id, buffer = feed.run_id, feed.buffer
        position = 0
        held: Chunk | None = None
        while not self._is_over:
            while position < (buffer.count if feed.end is None else feed.end):
                try:
                    chunk = buffer.at(position)
                except StreamGapError as exc:
                    yield _gap(run_id, exc.message)
                    return
                position += 1
                if self._is_known(feed, position - 1, chunk):
                    # Its start is shown when something follows that isn't known.
                    held = chunk if chunk.get("type") == "start" else held
                    continue
                if held is not None:
                    yield broadcast_form(held, run_id)
                    held = None
                if not is_hidden(chunk, hide=self._hide_signals):
                    yield broadcast_form(chunk, run_id)
                if self._is_over or _ends_run(chunk):
                    return
            if feed.end is not None:
                yield {"type": "abort", "runId": run_id}
                return
            if buffer.is_closed:
                return
            await buffer.changed()

    def _is_known(self, feed: _Feed, position: int, chunk: Chunk) -> bool:
        """Does the history say this? What waits for an answer is shown until it is answered."""
        if self._history is None or not self._history.has(feed.buffer, position, chunk):
            return False
        return not is_prompt(chunk) or any(run.run_id == feed.run_id for run in self._runs)


def _gap(run_id: str, why: str) -> Chunk:
    error = wire_from_error(StreamGapError(f"Chunks of run {run_id!r} are missing: {why}."))
    return {"type": "error", "runId": run_id, "payload": {"error": error}}


@dataclass(slots=True)
class _Feed:
    """One run of the thread, and where reading it ends if it was aborted."""

    run_id: str
    buffer: ChunkBuffer
    end: int | None = None


def _ends_run(chunk: Mapping[str, Any]) -> bool:
    kind = chunk.get("type")
    if kind in ("error", "abort"):
        return True
    if kind != "finish":
        return False
    result = (chunk.get("payload") or {}).get("stepResult") or {}
    return bool(result.get("reason") != "tool-calls")


def broadcast_form(chunk: Chunk, run_id: str) -> Chunk:
    """What readers of the thread get: bodies and transcripts are left out (signals.md 12.4)."""
    shown = chunk if "runId" in chunk else {**chunk, "runId": run_id}
    payload = shown.get("payload")
    if not isinstance(payload, Mapping):
        return shown
    match shown.get("type"):
        case "step-start":
            hidden = ("request", "inputMessages")
            if any(name in payload for name in hidden):
                shown = {**shown, "payload": {k: v for k, v in payload.items() if k not in hidden}}
        case "step-finish" | "finish":
            shown = {**shown, "payload": _without_transcript(payload)}
        case _:
            pass
    return shown


def _without_transcript(payload: Mapping[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in payload.items() if k != "messages"}
    for member, hidden in (("metadata", "request"), ("output", "steps")):
        value = kept.get(member)
        if isinstance(value, Mapping) and hidden in value:
            kept[member] = {k: v for k, v in value.items() if k != hidden}
    response = kept.get("response")
    if isinstance(response, Mapping):
        transcript = ("messages", "uiMessages", "dbMessages")
        kept["response"] = {k: v for k, v in response.items() if k not in transcript}
    return kept
