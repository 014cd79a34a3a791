"""Background task records (streaming.md 8.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.wire.tasks import BackgroundTask, BackgroundTasks

__all__ = (
    "BackgroundTasksStorage",
    "TaskFilter",
    "TaskTime",
)

TaskTime = Literal["createdAt", "startedAt", "suspendedAt", "completedAt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks; members are ANDed, ``status`` may be a list."""

    status: str | Sequence[str] | None = None
    agent_id: str | None = None
    thread_id: str | None = None
    resource_id: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    run_id: str | None = None
    #: Inclusive.
    from_date: datetime | None = None
    #: Exclusive.
    to_date: datetime | None = None
    date_filter_by: TaskTime = "createdAt"
    order_by: TaskTime = "createdAt"
    order_direction: Literal["asc", "desc"] = "asc"
    page: int | None = None
    per_page: int | None = None


class BackgroundTasksStorage(Protocol):
    """Domain ``background_tasks``; unknown ids return None or False, never raise."""

    async def create_task(self, task: BackgroundTask) -> BackgroundTask:
        """
        Insert.

        Raises:
            StorageConflictError: The id exists.
        """
        ...

    async def get_task(self, task_id: str) -> BackgroundTask | None:
        """The task, or None."""
        ...

    async def update_task(
        self,
        task_id: str,
        patch: Mapping[str, Any],
        *,
        expected_status: str | Sequence[str] | None = None,
    ) -> bool:
        """
        Write the members named in ``patch`` (Python names), if the status is expected.

        A compare-and-set in one statement: of several writers with one expectation exactly
        one gets True.
        """
        ...

    async def list_tasks(self, task_filter: TaskFilter | None = None) -> BackgroundTasks:
        """Tasks by (order field, id); paging needs both page and per_page."""
        ...

    async def delete_task(self, task_id: str) -> bool:
        """Delete; True if there was one."""
        ...

    async def delete_tasks(self, task_filter: TaskFilter) -> int:
        """Delete matches; an empty filter does nothing."""
        ...

    async def get_running_count(self) -> int:
        """How many are running."""
        ...

    async def get_running_count_by_agent(self, agent_id: str) -> int:
        """How many of one agent are running."""
        ...

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete terminal tasks completed strictly before the limit."""
        ...

    async def dangerously_clear_all(self) -> None:
        """Delete every task."""
        ...
