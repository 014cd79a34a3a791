"""Reading everything that happens on a thread (signals.md 12)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mastra_core.messages.signals import is_hidden
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.wire.chunks import Chunk

__all__ = ("ThreadSubscription", "broadcast_form")


class ThreadSubscription:
    """
    The chunks of all runs of one thread, run after run, until unsubscribed.

    ``async for chunk in subscription.stream``; a run that is active when subscribing is
    replayed from its beginning.
    """

    def __init__(
        self,
        *,
        hide_signals: bool | Sequence[str] | None,
        active_run_id: Callable[[], str | None],
        abort: Callable[..., bool],
        unsubscribe: Callable[[ThreadSubscription], None],
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

    def __await__(self) -> Generator[Any, None, ThreadSubscription]:
        """Wait until every later chunk of the thread will be read, wherever it is said."""
        if self.ready is not None:
            yield from asyncio.shield(self.ready).__await__()
        return self

    def add_run(self, run_id: str, buffer: ChunkBuffer) -> None:
        """Read this run after those before it."""
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
            while not self._is_over:
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
        while not self._is_over:
            while position < (buffer.count if feed.end is None else feed.end):
                chunk = buffer.at(position)
                position += 1
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
