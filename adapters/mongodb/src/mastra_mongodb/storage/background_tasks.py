"""Detached tool calls (streaming.md 8.10); times are ISO text, as Node writes them here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pymongo.errors import DuplicateKeyError

from mastra_core.base.isotime import to_iso_ms
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult, TaskFilter
from mastra_core.errors import StorageConflictError
from mastra_core.rules import pruning
from mastra_core.rules import tasks as rules
from mastra_core.rules.arguments import choices, moment
from mastra_core.rules.paging import optional_page
from mastra_core.wire.tables import BACKGROUND_TASKS
from mastra_core.wire.tasks import TERMINAL_TASK_STATUSES, BackgroundTask, BackgroundTasks
from mastra_mongodb.documents import DocumentCodec
from mastra_mongodb.pool import Collection
from mastra_mongodb.storage.host import STORE, Host
from mastra_mongodb.storage.pruning import Prunable, prune

__all__ = ("MongoBackgroundTasks",)

_EQUAL: Final = ("agent_id", "thread_id", "resource_id", "tool_name", "tool_call_id", "run_id")
_TIMES: Final = ("created_at", "started_at", "suspended_at", "completed_at")


class _TaskCodec(DocumentCodec[BackgroundTask]):
    """Members are named in snake_case, except for the times."""

    def __init__(self) -> None:
        super().__init__(
            BackgroundTask,
            BACKGROUND_TASKS,
            json=("args", "result", "error", "suspend_payload"),
            iso=_TIMES,
        )

    def member(self, field: str, alias: str) -> str:
        return alias if field in _TIMES else field


_TASKS: Final = _TaskCodec()


class MongoBackgroundTasks:
    """Domain ``background_tasks``; see ``contracts.storage.background_tasks``."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def _rows(self) -> Collection:
        return self._host.collection(BACKGROUND_TASKS)

    async def create_task(self, task: BackgroundTask) -> BackgroundTask:
        """Insert."""
        rules.check_task(task)
        document = _TASKS.document(task)
        with self._host.errors("create_task"):
            try:
                await self._rows.insert_one(document)
            except DuplicateKeyError as exc:
                raise StorageConflictError(
                    f"Background task {task.id!r} exists already; nothing was written.",
                    what="task",
                    found=task.id,
                ) from exc
            return _TASKS.model(document)

    async def get_task(self, task_id: str) -> BackgroundTask | None:
        """The task, or None."""
        with self._host.errors("get_task"):
            document = await self._rows.find_one({"id": task_id})
            return None if document is None else _TASKS.model(document)

    async def update_task(
        self,
        task_id: str,
        patch: Mapping[str, Any],
        *,
        expected_status: str | Sequence[str] | None = None,
    ) -> bool:
        """Write if the status is expected, in one command."""
        rules.check_patch(patch)
        expected = choices(expected_status)
        members = self._checked_members(patch)
        wanted: dict[str, Any] = {"id": task_id}
        if expected is not None:
            wanted["status"] = {"$in": list(expected)}
        with self._host.errors("update_task"):
            if not members:
                return await self._rows.find_one(wanted, {"_id": 1}) is not None
            result = await self._rows.update_one(wanted, {"$set": members})
            return bool(result.matched_count)

    def _checked_members(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Members of a patch, each checked as the model would."""
        template = BackgroundTask(
            id="-",
            status="pending",
            tool_name="-",
            tool_call_id="-",
            args=None,
            agent_id="-",
            run_id="-",
            created_at=self._host.now(),
        )
        patched = rules.apply_patch(template, patch)
        return _TASKS.given({name: getattr(patched, name) for name in patch})

    async def list_tasks(self, task_filter: TaskFilter | None = None) -> BackgroundTasks:
        """Tasks by (order field, id)."""
        wanted = task_filter or TaskFilter()
        rules.check_filter(wanted)
        place = optional_page(wanted.page, wanted.per_page, store=STORE, operation="list_tasks")
        found = _condition(wanted)
        direction = -1 if wanted.order_direction == "desc" else 1
        with self._host.errors("list_tasks"):
            cursor = self._rows.find(found).sort({wanted.order_by: direction, "id": direction})
            if place is None:
                tasks = _TASKS.models(await cursor.to_list())
                return BackgroundTasks(tasks=tasks, total=len(tasks))
            if place.limit == 0:
                return BackgroundTasks(tasks=[], total=await self._rows.count_documents(found))
            cursor = cursor.skip(place.offset).limit(place.limit or 0)
            documents, total = await asyncio.gather(
                cursor.to_list(), self._rows.count_documents(found)
            )
            return BackgroundTasks(tasks=_TASKS.models(documents), total=total)

    async def delete_task(self, task_id: str) -> bool:
        """Delete; True if there was one."""
        with self._host.errors("delete_task"):
            return bool((await self._rows.delete_one({"id": task_id})).deleted_count)

    async def delete_tasks(self, task_filter: TaskFilter) -> int:
        """Delete matches; an empty filter does nothing."""
        rules.check_filter(task_filter)
        if rules.filters_nothing(task_filter):
            return 0
        with self._host.errors("delete_tasks"):
            return (await self._rows.delete_many(_condition(task_filter))).deleted_count

    async def get_running_count(self) -> int:
        """How many are running."""
        with self._host.errors("get_running_count"):
            return await self._rows.count_documents({"status": "running"})

    async def get_running_count_by_agent(self, agent_id: str) -> int:
        """How many of one agent are running."""
        with self._host.errors("get_running_count_by_agent"):
            return await self._rows.count_documents({"agent_id": agent_id, "status": "running"})

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete terminal tasks completed strictly before the limit."""
        known = {
            pruning.TASKS: Prunable(
                collection=BACKGROUND_TASKS,
                anchor="completedAt",
                condition={"status": {"$in": list(TERMINAL_TASK_STATUSES)}},
                is_text=True,
            )
        }
        with self._host.errors("prune"):
            return await prune(self._host, "background_tasks", known, policies, options)

    async def dangerously_clear_all(self) -> None:
        """Delete every task."""
        with self._host.errors("dangerously_clear_all"):
            await self._rows.delete_many({})


def _condition(wanted: TaskFilter) -> dict[str, Any]:
    found: dict[str, Any] = {name: value for name in _EQUAL if (value := getattr(wanted, name))}
    statuses = choices(wanted.status)
    if statuses is not None:
        found["status"] = statuses[0] if len(statuses) == 1 else {"$in": list(statuses)}
    bounds = {
        word: to_iso_ms(moment(bound))
        for word, bound in (("$gte", wanted.from_date), ("$lt", wanted.to_date))
        if bound is not None
    }
    if bounds:
        found[wanted.date_filter_by] = bounds
    return found
