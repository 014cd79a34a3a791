"""The end of a background task in the message that holds its call (streaming.md 8.6).

Pure functions on the content of a message: for the transcript of a run that goes on, and for
stored messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_core.base.isotime import to_iso_ms
from mastra_core.wire.tasks import BackgroundTask

__all__ = (
    "INJECTED",
    "PLACEHOLDER",
    "apply_start",
    "apply_task",
    "find_task_part",
    "placeholder",
    "waiting_tasks",
)

#: Ends that leave a result; cancelled and suspended tasks leave the placeholder.
INJECTED: Final = ("completed", "failed", "timed_out")

#: What is recorded as the result until the real one is there; peers write the same words.
PLACEHOLDER: Final = (
    'Background task started. Task ID: {task_id}. The tool "{tool_name}" is running in the '
    "background. You will be notified when it completes."
)


def find_task_part(content: Mapping[str, Any], task: BackgroundTask) -> dict[str, Any] | None:
    """The part of a message that holds the call of this task; None if none does."""
    for part in reversed(content.get("parts") or ()):
        if part.get("type") != "tool-invocation":
            continue
        invocation = part.get("toolInvocation") or {}
        if invocation.get("toolCallId") != task.tool_call_id:
            continue
        # Some models count their calls anew in every run.
        mark = _mark(part)
        is_ours = invocation.get("state") == "call" if mark is None else mark["taskId"] == task.id
        if is_ours:
            found: dict[str, Any] = part
            return found
    return None


def _mark(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    mastra = (part.get("providerMetadata") or {}).get("mastra") or {}
    mark = mastra.get("backgroundTask")
    return mark if isinstance(mark, Mapping) and mark.get("taskId") else None


def waiting_tasks(content: Mapping[str, Any]) -> list[str]:
    """Ids of the tasks whose placeholders a message holds."""
    marks = [_mark(part) for part in content.get("parts") or ()]
    return [
        str(mark["taskId"])
        for mark in marks
        if mark is not None and mark.get("status") == "running"
    ]


def apply_start(content: dict[str, Any], task: BackgroundTask) -> None:
    """Note in the message of the call that the task has started, unless its end stands there."""
    known = (content.get("metadata") or {}).get("backgroundTasks") or {}
    if "completedAt" not in known.get(task.tool_call_id, {}):
        _note_times(content, task)


def _note_times(content: dict[str, Any], task: BackgroundTask) -> None:
    metadata = content.setdefault("metadata", {})
    metadata["mode"] = "stream"
    metadata["backgroundTasks"] = {
        **(metadata.get("backgroundTasks") or {}),
        task.tool_call_id: _times(task),
    }


def apply_task(content: dict[str, Any], task: BackgroundTask) -> bool:
    """
    Put the end of a task into the content of the message that holds its call.

    Returns:
        False, and nothing changes, if it isn't there or stands there already.
    """
    if task.status not in INJECTED:
        return False
    part = find_task_part(content, task)
    if part is None:
        return False
    mark = _mark(part)
    if mark is not None and mark.get("status") in INJECTED:
        return False
    invocation = dict(part["toolInvocation"])
    for name in ("result", "errorText", "isError"):
        invocation.pop(name, None)
    if task.status == "completed":
        invocation |= {"state": "result", "result": task.result}
    else:
        text = str((task.error or {}).get("message", "unknown error"))
        invocation |= {"state": "output-error", "errorText": f"Background task failed: {text}"}
    part["toolInvocation"] = invocation
    part.pop("createdAt", None)
    provider = dict(part.get("providerMetadata") or {})
    provider["mastra"] = {
        **(provider.get("mastra") or {}),
        "backgroundTask": {"taskId": task.id, "status": task.status},
        "modelOutput": None,
    }
    part["providerMetadata"] = provider
    _note_times(content, task)
    # Older readers look at the flat list (streaming.md 10.1).
    content["toolInvocations"] = [
        one["toolInvocation"] for one in content["parts"] if one.get("type") == "tool-invocation"
    ]
    return True


def _times(task: BackgroundTask) -> dict[str, Any]:
    times: dict[str, Any] = {"taskId": task.id}
    for name, at in (
        ("startedAt", task.started_at),
        ("suspendedAt", task.suspended_at),
        ("completedAt", task.completed_at),
    ):
        if at is not None:
            times[name] = to_iso_ms(at)
    return times


def placeholder(task_id: str, tool_name: str) -> str:
    """The result that stands in for the real one."""
    return PLACEHOLDER.format(task_id=task_id, tool_name=tool_name)
