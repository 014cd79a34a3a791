"""Background task records (table ``mastra_background_tasks``; streaming.md 8)."""

from __future__ import annotations

from typing import Any, Literal

from mastra_core.wire.base import IsoTime, WireModel

__all__ = (
    "TASK_STATUSES",
    "TERMINAL_TASK_STATUSES",
    "BackgroundTask",
    "BackgroundTasks",
    "TaskStatus",
)

TaskStatus = Literal[
    "pending", "running", "suspended", "completed", "failed", "cancelled", "timed_out"
]
TASK_STATUSES: tuple[str, ...] = (
    "pending",
    "running",
    "suspended",
    "completed",
    "failed",
    "cancelled",
    "timed_out",
)
TERMINAL_TASK_STATUSES: tuple[str, ...] = ("completed", "failed", "cancelled", "timed_out")


class BackgroundTask(WireModel):
    """One tool call that runs detached from its run (streaming.md 8.1)."""

    id: str
    status: str
    tool_name: str
    tool_call_id: str
    args: Any
    agent_id: str
    thread_id: str | None = None
    resource_id: str | None = None
    run_id: str
    result: Any = None
    error: dict[str, Any] | None = None
    suspend_payload: Any = None
    retry_count: int = 0
    max_retries: int = 0
    timeout_ms: int = 300_000
    created_at: IsoTime
    started_at: IsoTime | None = None
    suspended_at: IsoTime | None = None
    completed_at: IsoTime | None = None

    def to_wire(self) -> dict[str, Any]:
        """JSON form: camelCase, absent members omitted."""
        return self._dumped(exclude_none=True)


class BackgroundTasks(WireModel):
    """One page of tasks; ``total`` is the count before paging."""

    tasks: list[BackgroundTask]
    total: int
