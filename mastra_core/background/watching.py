"""Observe tasks (streaming.md 8.8)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from mastra_core.background.events import chunk_from_event
from mastra_core.wire.chunks import Chunk
from mastra_core.wire.events import Event

__all__ = ("TaskScope", "TaskStream")

#: A reader that is so far behind misses outputs, never the end of a task.
_MOST_OUTPUTS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScope:
    """Which tasks somebody observes; None doesn't filter."""

    agent_id: str | None = None
    run_id: str | None = None
    thread_id: str | None = None
    resource_id: str | None = None
    task_id: str | None = None

    def has(self, data: Mapping[str, Any]) -> bool:
        """Is it about a task of this scope?"""
        wanted = (
            ("agentId", self.agent_id),
            ("runId", self.run_id),
            ("threadId", self.thread_id),
            ("resourceId", self.resource_id),
            ("taskId", self.task_id),
        )
        return all(value is None or data.get(name) == value for name, value in wanted)


class TaskStream:
    """
    Chunks of tasks, from the moment at which it was asked for.

    Iterate it with ``async for``; ``aclose`` ends it, also while somebody waits.
    """

    def __init__(self, scope: TaskScope, on_close: Callable[[TaskStream], None]) -> None:
        self._scope = scope
        self._on_close = on_close
        self._waiting: deque[Chunk] = deque()
        self._changed = asyncio.Event()
        self._is_closed = False
        self._seen: set[tuple[str, str, str]] = set()

    # -- the manager's side ---------------------------------------------------------------

    def offer(self, event: Event) -> None:
        """Take an event if it belongs to the scope; twice told is once seen."""
        if self._is_closed or not isinstance(event.data, Mapping):
            return
        chunk = chunk_from_event(event) if self._scope.has(event.data) else None
        if chunk is not None:
            self.put(chunk)

    def put(self, chunk: Chunk) -> None:
        """Add a chunk, unless it was told already."""
        kind, payload = chunk["type"], chunk["payload"]
        if kind == "background-task-output":
            if len(self._waiting) >= _MOST_OUTPUTS:
                return
        else:
            at = payload.get("completedAt") or payload.get("suspendedAt")
            mark = (str(payload.get("taskId")), kind, str(at or payload.get("startedAt")))
            if mark in self._seen:
                return
            self._seen.add(mark)
        self._waiting.append(chunk)
        self._changed.set()

    # -- the reader's side ----------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Chunk:
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """Stop observing; the tasks go on."""
        self.close()

    def close(self) -> None:
        """The same, without waiting."""
        if not self._is_closed:
            self._is_closed = True
            self._changed.set()
            self._on_close(self)
