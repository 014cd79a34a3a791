"""One stream over a turn and all turns that background tasks cause (streaming.md 9)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from mastra_core.base.clock import Clock
from mastra_core.base.tasks import shielded
from mastra_core.errors import StorageError
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.streaming.output import ModelOutput, OuterStream
from mastra_core.wire.chunks import Chunk

__all__ = (
    "DEFAULT_MAX_IDLE_MS",
    "ContinueOn",
    "EndedTask",
    "TaskChunks",
    "UntilIdle",
    "UntilIdleRules",
    "directive_for",
)

logger = logging.getLogger(__name__)

DEFAULT_MAX_IDLE_MS: Final = 300_000
#: Wait for all tasks before the next turn, or take one for each that ends.
ContinueOn = Literal["all", "each"]

#: Seconds that a run may take to say its last words when the process goes down.
_LAST_CHUNKS_SECONDS: Final = 6.0
_PREFIX: Final = "background-task-"
_ENDS: Final = ("completed", "failed", "cancelled", "suspended")
_WORDS: Final[Mapping[str, str]] = {
    "completed": (
        "ended; their results stand in the conversation above as if they had been given at once"
    ),
    "failed": "failed; their errors stand in the conversation above",
    "cancelled": "were cancelled; there will be no result",
    "suspended": "wait for input from outside; there is no result yet",
}


class TaskChunks(Protocol):
    """Chunks of the tasks of one agent and thread."""

    def __aiter__(self) -> AsyncIterator[Chunk]: ...

    def close(self) -> None:
        """Stop observing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilIdleRules:
    """How long the stream stays open for tasks that don't end, and when it goes on."""

    max_idle_ms: int = DEFAULT_MAX_IDLE_MS
    continue_on: ContinueOn = "all"
    #: How often the records of known tasks are looked at, should an event get lost.
    poll_ms: int = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTask:
    """Why there is a further turn."""

    task_id: str
    tool_call_id: str
    tool_name: str
    how: str


def directive_for(ended: Iterable[EndedTask]) -> str:
    """
    What the model is told at the beginning of a further turn: calls by id, never a payload.

    The words are ours; peers say the same in others.
    """
    grouped: dict[str, list[str]] = {}
    for task in ended:
        named = f"{task.tool_call_id} ({task.tool_name}, task {task.task_id})"
        grouped.setdefault(task.how, []).append(named)
    lines = [
        f"- These tool calls {_WORDS[how]}: {', '.join(grouped[how])}."
        for how in _ENDS
        if how in grouped
    ]
    return "\n".join(
        [
            "Work that you had started in the background has changed:",
            *lines,
            "Go on from there. Don't make these calls again.",
        ]
    )


class UntilIdle:
    """
    Forwards turn after turn into one outer stream.

    Args:
        tasks: What becomes of tasks; observed since before the first turn.
        go_on: Starts a further turn with this directive.
        ended: Of these task ids, those that run no more, with how they ended.
        rules: How long to wait.
        clock: Measures that.
        abort_signal: The caller's.
    """

    def __init__(
        self,
        *,
        tasks: TaskChunks,
        go_on: Callable[[str], Awaitable[ModelOutput]],
        ended: Callable[[Sequence[str]], Awaitable[list[EndedTask]]],
        rules: UntilIdleRules,
        clock: Clock,
        abort_signal: asyncio.Event | None = None,
    ) -> None:
        self.outer = OuterStream(buffer=ChunkBuffer(), abandon=self.abort)
        self._tasks = tasks
        self._go_on = go_on
        self._look = ended
        self._rules = rules
        self._clock = clock
        self._abort_signal = abort_signal
        self._abort_turn: Callable[[], None] | None = None
        self._running: dict[str, None] = {}
        self._ended: set[str] = set()
        self._reasons: dict[tuple[str, str], EndedTask] = {}
        self._processed: set[tuple[str, str, str]] = set()
        self._changed = asyncio.Event()
        self._is_closed = False
        #: How many chunks of the turn that runs were forwarded.
        self._forwarded = 0
        self._work: asyncio.Task[Any] | None = None

    # -- from outside ---------------------------------------------------------------------

    def close(self) -> None:
        """End the outer stream; a run that goes on goes on (rule 4)."""
        self._is_closed = True
        self._tasks.close()
        self.outer.buffer.close()
        self._changed.set()
        if self._work is not None:
            self._work.cancel()

    def abort(self) -> None:
        """End everything: the turn that runs is aborted, and none follows (rule 13)."""
        self._is_closed = True
        self._changed.set()
        if self._abort_turn is not None:
            self._abort_turn()

    # -- the work -------------------------------------------------------------------------

    async def run(self, first: ModelOutput) -> None:
        """Forward this turn and all that follow; closes the outer stream."""
        self._work = asyncio.current_task()
        loop = asyncio.get_running_loop()
        helpers = [loop.create_task(self._listen(), name="until-idle-tasks")]
        if self._abort_signal is not None:
            helpers.append(loop.create_task(self._watch(), name="until-idle-abort"))
        try:
            await self._forward(first)
            while not self._is_closed:
                if self._may_go_on():
                    await self._forward(await self._go_on(directive_for(self._take_reasons())))
                elif not self._running or not await self._wait():
                    return
        except Exception as exc:
            logger.exception("a further turn could not be started")
            self.outer.failure = exc
        finally:
            self._is_closed = True
            for helper in helpers:
                helper.cancel()
            self._tasks.close()
            self.outer.buffer.close()
            await asyncio.wait(helpers)

    async def _forward(self, turn: ModelOutput) -> None:
        # The abort of the object that the caller holds means everything.
        self._abort_turn = turn.abort_run
        if self._is_closed:
            turn.abort_run()
        self._forwarded = 0
        try:
            await self._forward_rest(turn)
        except asyncio.CancelledError:
            if not self._is_closed:
                # The process goes down, and with it the run: its last chunks are still to come.
                with suppress(TimeoutError):
                    await shielded(self._forward_rest(turn), deadline=_LAST_CHUNKS_SECONDS)
            raise
        self._abort_turn = None
        if turn.status == "canceled":
            self._is_closed = True

    async def _forward_rest(self, turn: ModelOutput) -> None:
        position = 0
        async with aclosing(turn.buffer.read()) as chunks:
            async for chunk in chunks:
                position += 1
                if position > self._forwarded:
                    self._forwarded = position
                    self._take(chunk)

    async def _listen(self) -> None:
        async for chunk in self._tasks:
            self._take(chunk)

    async def _watch(self) -> None:
        assert self._abort_signal is not None
        await self._abort_signal.wait()
        self.abort()

    def _take(self, chunk: Chunk) -> None:
        """Show a chunk, and learn from it which tasks run."""
        self.outer.buffer.append(chunk)
        kind = str(chunk.get("type"))
        if kind.startswith(_PREFIX):
            self._learn(kind.removeprefix(_PREFIX), chunk.get("payload") or {})
        self._changed.set()

    def _learn(self, kind: str, payload: Mapping[str, Any]) -> None:
        task_id = str(payload.get("taskId"))
        if kind in _ENDS:
            at = payload.get("completedAt") or payload.get("suspendedAt")
            mark = (task_id, kind, str(at))
            if mark not in self._processed:
                self._processed.add(mark)
                self._note_end(
                    EndedTask(
                        task_id=task_id,
                        tool_call_id=str(payload.get("toolCallId")),
                        tool_name=str(payload.get("toolName")),
                        how=kind,
                    )
                )
        elif kind == "resumed":
            self._ended.discard(task_id)
            self._running[task_id] = None
        elif kind in ("started", "running") and task_id not in self._ended:
            self._running[task_id] = None

    def _note_end(self, task: EndedTask) -> None:
        self._running.pop(task.task_id, None)
        self._ended.add(task.task_id)
        self._reasons[task.task_id, task.how] = task

    def _may_go_on(self) -> bool:
        return bool(self._reasons) and (self._rules.continue_on == "each" or not self._running)

    def _take_reasons(self) -> list[EndedTask]:
        taken = list(self._reasons.values())
        self._reasons.clear()
        return taken

    async def _wait(self) -> bool:
        """Wait between turns; False if nothing at all happened for too long (rule 11)."""
        end = self._clock.monotonic() + self._rules.max_idle_ms / 1000
        self._changed.clear()
        while not self._changed.is_set():
            left = end - self._clock.monotonic()
            if left <= 0:
                return False
            await self._sleep(min(left, self._rules.poll_ms / 1000))
            if not self._changed.is_set():
                # A lost event must not keep us waiting (field report R128).
                await self._look_at_records()
        return True

    async def _look_at_records(self) -> None:
        try:
            ended = await self._look(list(self._running))
        except StorageError:
            # The tasks go on, and there is a next look.
            logger.warning("records of tasks can't be read now", exc_info=True)
            return
        for task in ended:
            self._note_end(task)
            self._changed.set()

    async def _sleep(self, seconds: float) -> None:
        """So long, or until something happens."""
        loop = asyncio.get_running_loop()
        waits = (
            loop.create_task(self._clock.sleep(seconds), name="until-idle-timer"),
            loop.create_task(self._changed.wait(), name="until-idle-change"),
        )
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
