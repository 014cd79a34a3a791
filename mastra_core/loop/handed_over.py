"""Tasks that a run has handed over, while it goes on (streaming.md 8.6, 8.7)."""

from __future__ import annotations

from mastra_core.loop.segment import RunSegment
from mastra_core.loop.tool_step import ToolStep
from mastra_core.messages.message_list import ListedMessage
from mastra_core.messages.task_results import apply_task, waiting_tasks
from mastra_core.wire.tasks import BackgroundTask

__all__ = ("LiveTranscript", "heal_placeholders", "wait_for_tasks")


class LiveTranscript:
    """The transcript of a run at work, in which ends of tasks are entered at once."""

    def __init__(self, segment: RunSegment) -> None:
        self._segment = segment
        self._is_over = False

    @property
    def thread_id(self) -> str | None:
        """The thread of the run."""
        return self._segment.messages.thread_id

    def end(self) -> None:
        """Nothing is shown any more."""
        self._is_over = True

    async def take(self, task: BackgroundTask) -> bool:
        """Put the end of the task in place of the placeholder; True if that is stored, too."""
        segment = self._segment
        entered = None if self._is_over else _enter(segment, task)
        if entered is None:
            return False
        if task.run_id == segment.setup.run_id:
            await segment.show(_result_chunk(segment, task))
        # Only this one: what the model says at the moment hasn't been judged yet.
        await segment.save([entered])
        return segment.setup.saver is not None


def _enter(segment: RunSegment, task: BackgroundTask) -> ListedMessage | None:
    for message in reversed(segment.messages.messages):
        if message.role == "assistant" and apply_task(message.content, task):
            message.saved = False
            return message
    return None


def _result_chunk(segment: RunSegment, task: BackgroundTask) -> dict[str, object]:
    payload: dict[str, object] = {
        "args": task.args,
        "toolCallId": task.tool_call_id,
        "toolName": task.tool_name,
    }
    kind = "tool-result" if task.status == "completed" else "tool-error"
    if task.status == "completed":
        payload["result"] = task.result
    else:
        payload["error"] = task.error or {}
    payload["providerMetadata"] = {
        "mastra": {"backgroundTask": {"taskId": task.id, "status": task.status}}
    }
    return segment.chunk(kind, payload)


async def heal_placeholders(segment: RunSegment) -> None:
    """Enter the ends of tasks that this transcript doesn't know of, for whatever reason."""
    background = segment.setup.background
    if background is None:
        return
    waiting = [
        task_id
        for message in segment.messages.messages
        if message.role == "assistant"
        for task_id in waiting_tasks(message.content)
    ]
    if not waiting:
        return
    found = [_enter(segment, task) for task in await background.ended_meanwhile(waiting)]
    entered = {message.id: message for message in found if message is not None}
    if entered:
        await segment.save(list(entered.values()))


async def wait_for_tasks(segment: RunSegment, tools: ToolStep) -> bool:
    """
    The background check at the end of a step; True if the model is to see a result now.

    What was to be awaited is waited for; other tasks only if the run was told to, and not in its
    first step.
    """
    background = segment.setup.background
    if background is None:
        return False
    unfinished = await background.unfinished()
    segment.has_tasks = bool(unfinished)
    for task_id, limit_ms in tools.awaited.items():
        await segment.interrupt.guard(
            background.wait_for_end([task_id], limit_ms=limit_ms, progress=segment.show)
        )
    has_ended = False
    limit = background.wait_limit_ms(is_first_step=segment.iteration == 1)
    if unfinished and not tools.calls and limit is not None:
        has_ended = await segment.interrupt.guard(
            background.wait_for_end(unfinished, limit_ms=limit, progress=segment.show)
        )
    if tools.awaited or has_ended:
        await heal_placeholders(segment)
    return has_ended
