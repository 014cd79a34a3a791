"""Detached tool calls on SQL (streaming.md 8.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import literal_column

from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult, TaskFilter
from mastra_core.errors import StorageConflictError
from mastra_core.rules import pruning
from mastra_core.rules import tasks as rules
from mastra_core.rules.arguments import choices, moment
from mastra_core.rules.paging import Page, optional_page
from mastra_core.wire.tasks import TERMINAL_TASK_STATUSES, BackgroundTask, BackgroundTasks
from mastra_sql.executor import Step
from mastra_sql.rows.codec import RowCodec
from mastra_sql.statements.background_tasks import TaskStatements
from mastra_sql.storage.host import SqlHost
from mastra_sql.storage.pruning import Prunable, prune

__all__ = ("SqlBackgroundTasks",)

_EQUAL: Final = ("agent_id", "thread_id", "resource_id", "tool_name", "tool_call_id", "run_id")


class SqlBackgroundTasks:
    """Domain ``background_tasks`` of a SQL store."""

    def __init__(self, host: SqlHost) -> None:
        self._host = host
        self._run = host.run
        self._sql = TaskStatements(host.dialect, host.tables)
        self._codec = RowCodec(BackgroundTask, host.tables.background_tasks, host.dialect)

    async def create_task(self, task: BackgroundTask) -> BackgroundTask:
        rules.check_task(task)
        values = self._codec.values(task)
        if values["args"] is None:
            values["args"] = "null"
        if not await self._run.write("create_task", Step.of(self._sql.insert(), values)):
            raise StorageConflictError(
                f"Background task {task.id!r} exists already; nothing was written.",
                what="task",
                found=task.id,
            )
        return task

    async def get_task(self, task_id: str) -> BackgroundTask | None:
        [rows] = await self._run.read("get_task", Step.of(self._sql.get(), {"id": task_id}))
        return self._codec.model(rows[0]) if rows else None

    async def update_task(
        self,
        task_id: str,
        patch: Mapping[str, Any],
        *,
        expected_status: str | Sequence[str] | None = None,
    ) -> bool:
        rules.check_patch(patch)
        expected = choices(expected_status)
        values = self._checked_values(patch)
        if expected is not None and not expected:
            return False
        if not values:
            # Nothing to write; the answer still says whether it would have been.
            task = await self.get_task(task_id)
            return task is not None and rules.is_expected(task.status, expected_status)
        statement = self._sql.update(values.keys(), expect_status=expected is not None)
        values["key_id"] = task_id
        if expected is not None:
            values["expected_statuses"] = self._host.dialect.list_value(expected)
        return bool(await self._run.write("update_task", Step.of(statement, values)))

    def _checked_values(self, patch: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of the members of a patch, each checked as the model would."""
        now = self._host.clock.now()
        template = BackgroundTask(
            id="-", status="pending", tool_name="-", tool_call_id="-", args=None, agent_id="-",
            run_id="-", created_at=now,
        )  # fmt: skip
        patched = rules.apply_patch(template, patch)
        values = self._codec.given({name: getattr(patched, name) for name in patch})
        if "args" in values and values["args"] is None:
            values["args"] = "null"
        return values

    async def list_tasks(self, task_filter: TaskFilter | None = None) -> BackgroundTasks:
        wanted = task_filter or TaskFilter()
        rules.check_filter(wanted)
        page = optional_page(
            wanted.page, wanted.per_page, store=self._host.store, operation="list_tasks"
        )
        values = self._filters(wanted)
        filters = values.keys()
        listing = self._sql.page(
            filters,
            wanted.date_filter_by,
            wanted.order_by,
            wanted.order_direction,
            limited=page is not None,
        )
        steps = [Step.of(listing, {**values, **_limits(page)})]
        if page is not None:
            steps.append(Step.of(self._sql.count(filters, wanted.date_filter_by), values))
        rows, *counts = await self._run.read("list_tasks", *steps)
        tasks = self._codec.models(rows)
        return BackgroundTasks(tasks=tasks, total=counts[0][0][0] if counts else len(tasks))

    async def delete_task(self, task_id: str) -> bool:
        step = Step.of(self._sql.delete(), {"id": task_id})
        return bool(await self._run.write("delete_task", step))

    async def delete_tasks(self, task_filter: TaskFilter) -> int:
        rules.check_filter(task_filter)
        if rules.filters_nothing(task_filter):
            return 0
        values = self._filters(task_filter)
        statement = self._sql.delete_matching(values.keys(), task_filter.date_filter_by)
        return len(await self._run.write("delete_tasks", Step.of(statement, values)))

    async def get_running_count(self) -> int:
        step = Step.of(self._sql.running(by_agent=False), {})
        [[(count,)]] = await self._run.read("get_running_count", step)
        return int(count)

    async def get_running_count_by_agent(self, agent_id: str) -> int:
        step = Step.of(self._sql.running(by_agent=True), {"agent_id": agent_id})
        [[(count,)]] = await self._run.read("get_running_count_by_agent", step)
        return int(count)

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        table = self._host.tables.background_tasks
        known = {
            pruning.TASKS: Prunable(
                table=table,
                anchor="completedAt",
                condition=table.c.status.in_(
                    [literal_column(f"'{status}'") for status in TERMINAL_TASK_STATUSES]
                ),
            )
        }
        return await prune(self._host, self._sql, known, policies, options)

    async def dangerously_clear_all(self) -> None:
        for statement in self._sql.clear(self._host.tables.background_tasks):
            await self._run.write("dangerously_clear_all", Step(statement))

    def _filters(self, wanted: TaskFilter) -> dict[str, Any]:
        values = {name: value for name in _EQUAL if (value := getattr(wanted, name))}
        statuses = choices(wanted.status)
        if statuses is not None:
            values["status"] = self._host.dialect.list_value(statuses)
        for name in ("from_date", "to_date"):
            bound = getattr(wanted, name)
            if bound is not None:
                values[name] = self._host.dialect.time_value(moment(bound, name))
        return values


def _limits(page: Page | None) -> dict[str, int]:
    if page is None or page.limit is None:
        return {}
    return {"limit": page.limit, "offset": page.offset}
