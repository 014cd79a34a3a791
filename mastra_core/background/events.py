"""Events and chunks of tasks (streaming.md 3.3, 8.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_core.wire.chunks import Chunk
from mastra_core.wire.events import Event
from mastra_core.wire.tasks import BackgroundTask

__all__ = (
    "DISPATCH_TOPIC",
    "END_CHUNKS",
    "RESULT_TOPIC",
    "WORKER_GROUP",
    "chunk_from_event",
    "command",
    "is_slim",
    "lifecycle_event",
    "running_chunk",
    "slim",
    "worker_topic",
)

DISPATCH_TOPIC: Final = "background-tasks"
WORKER_GROUP: Final = "background-task-workers"
RESULT_TOPIC: Final = "background-tasks-result"

#: Chunks after which a task is known to run no more; suspended counts (streaming.md 9.7).
END_CHUNKS: Final = frozenset(
    f"background-task-{end}" for end in ("completed", "failed", "cancelled", "suspended")
)

#: Member of an event that was too large to carry its task's values; the record has them.
_IN_RECORD: Final = "inRecord"
_VALUES: Final = frozenset({"args", "result", "error", "suspendPayload"})

_IDS: Final = ("taskId", "toolName", "toolCallId", "runId", "agentId")
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "task.running": ("startedAt", "args"),
    "task.output": ("payload",),
    "task.completed": ("result", "completedAt"),
    "task.failed": ("error", "completedAt"),
    "task.cancelled": ("completedAt",),
    "task.suspended": ("args", "suspendPayload", "suspendedAt"),
    "task.resumed": ("args", "startedAt"),
}


def worker_topic(worker_id: str) -> str:
    """Where commands for one process go."""
    return f"{DISPATCH_TOPIC}:{worker_id}"


def command(kind: str, task: BackgroundTask, **more: Any) -> Event:
    """``task.dispatch``, ``task.resume``, ``task.cancel`` or ``task.restart``."""
    wire = task.to_wire()
    names = (
        *("toolName", "toolCallId", "args", "agentId", "threadId", "resourceId"),
        *("timeoutMs", "maxRetries", "runId"),
    )
    data = {"taskId": task.id, **{name: wire[name] for name in names if name in wire}, **more}
    return Event(type=kind, run_id=task.id, data=data)


def lifecycle_event(kind: str, task: BackgroundTask, *, chunk: Chunk | None = None) -> Event:
    """What became of a task; every process hears it."""
    wire = task.to_wire()
    names = (
        *("toolName", "toolCallId", "runId", "agentId", "threadId", "resourceId", "args"),
        *("result", "error", "startedAt", "completedAt", "suspendPayload", "suspendedAt"),
    )
    data = {"taskId": task.id, **{name: wire[name] for name in names if name in wire}}
    if chunk is not None:
        data["chunk"] = chunk
    return Event(type=kind, run_id=task.id, data=data)


def slim(event: Event) -> Event:
    """The event without what the record of its task holds as well."""
    assert isinstance(event.data, Mapping)
    data = {name: value for name, value in event.data.items() if name not in _VALUES}
    return Event(type=event.type, run_id=event.run_id, data={**data, _IN_RECORD: True})


def is_slim(event: Event) -> bool:
    """Have its values to be read from the record?"""
    return isinstance(event.data, Mapping) and event.data.get(_IN_RECORD) is True


def chunk_from_event(event: Event) -> Chunk | None:
    """The chunk of the manager that an event stands for; None for one that we don't know."""
    names = _MEMBERS.get(event.type)
    if names is None or not isinstance(event.data, Mapping):
        return None
    data = {**event.data, "payload": event.data.get("chunk")}
    payload = {name: data[name] for name in (*_IDS, *names) if data.get(name) is not None}
    if event.type == "task.completed":
        payload.setdefault("result", None)
    return {"type": f"background-{event.type.replace('.', '-')}", "payload": payload}


def running_chunk(task: BackgroundTask) -> Chunk:
    """``background-task-running`` of a task that is running already."""
    chunk = chunk_from_event(lifecycle_event("task.running", task))
    assert chunk is not None
    return chunk
