"""Background tasks in Redis (streaming.md 8.10)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mastra_core.base.isotime import epoch_ms
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, PruneResult
from mastra_core.contracts.storage.background_tasks import TaskFilter
from mastra_core.contracts.storage.memory import DateRange
from mastra_core.errors import StorageConflictError
from mastra_core.rules import pruning
from mastra_core.rules import tasks as rules
from mastra_core.rules.arguments import choices
from mastra_core.rules.paging import bounds_ms, optional_page
from mastra_core.wire.tasks import TERMINAL_TASK_STATUSES, BackgroundTask, BackgroundTasks
from mastra_redis.keys import raw
from mastra_redis.link import Argument
from mastra_redis.records import encoded, model_of
from mastra_redis.storage.host import Command, Host, Outcome, Values

__all__ = ("RedisBackgroundTasks",)

#: Members with an order of their own, the most selective first.
_INDEXED: Final = ("tool_call_id", "run_id", "thread_id", "status", "agent_id")
_FILTERS: Final = (*_INDEXED, "resource_id", "tool_name")
_ALL: Final = b"all"
_RUNNING: Final = b"running_of_agent:"


class RedisBackgroundTasks:
    """Domain ``background_tasks``; see ``contracts.storage.background_tasks``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._keys = host.keys

    async def create_task(self, task: BackgroundTask) -> BackgroundTask:
        """Insert."""
        rules.check_task(task)
        key = self._keys.task(task.id)
        written = encoded(task)
        stored = _read(written)
        commands: list[Command] = [("SET", key, written), *self._moves(None, stored)]
        if await self._host.commit("create_task", [key], [None], commands) is not None:
            raise StorageConflictError(
                f"Background task {task.id!r} exists already; nothing was written.",
                what="task",
                found=task.id,
            )
        self._host.recent.see(key, written)
        return stored

    async def get_task(self, task_id: str) -> BackgroundTask | None:
        """The task, or None."""
        found = await self._host.read("get_task", "GET", self._keys.task(task_id))
        return None if found is None else _read(found)

    async def update_task(
        self,
        task_id: str,
        patch: Mapping[str, Any],
        *,
        expected_status: str | Sequence[str] | None = None,
    ) -> bool:
        """Compare the status and write, in one step of the server."""
        rules.check_patch(patch)
        key = self._keys.task(task_id)

        def compute(seen: Values) -> Outcome[bool]:
            task = None if seen[0] is None else _read(seen[0])
            if task is None or not rules.is_expected(task.status, expected_status):
                return Outcome(False)
            written = encoded(rules.apply_patch(task, patch))
            commands: list[Command] = [("SET", key, written), *self._moves(task, _read(written))]
            return Outcome(True, commands, [written])

        return await self._host.change("update_task", [key], compute)

    async def list_tasks(self, task_filter: TaskFilter | None = None) -> BackgroundTasks:
        """Tasks by (order field, id); by creation and one indexed member it costs the page."""
        wanted = task_filter or TaskFilter()
        rules.check_filter(wanted)
        place = optional_page(
            wanted.page, wanted.per_page, store=self._host.name, operation="list_tasks"
        )
        places, is_exact = self._order(wanted)
        if is_exact and wanted.order_by == "createdAt" and place is not None:
            total, tasks = await self._read_order(
                "list_tasks",
                places,
                wanted,
                offset=place.offset,
                count=-1 if place.limit is None else place.limit,
            )
            return BackgroundTasks(tasks=tasks, total=total)
        found = sorted(
            await self._matching("list_tasks", wanted),
            key=lambda task: rules.order_key(task, wanted.order_by),
            reverse=wanted.order_direction == "desc",
        )
        shown = found if place is None else found[place.offset : place.end]
        return BackgroundTasks(tasks=shown, total=len(found))

    async def delete_task(self, task_id: str) -> bool:
        """Delete; True if there was one."""
        key = self._keys.task(task_id)

        def compute(seen: Values) -> Outcome[bool]:
            if seen[0] is None:
                return Outcome(False)
            return Outcome(True, [("DEL", key), *self._moves(_read(seen[0]), None)], [None])

        return await self._host.change("delete_task", [key], compute)

    async def delete_tasks(self, task_filter: TaskFilter) -> int:
        """Delete matches; an empty filter does nothing."""
        rules.check_filter(task_filter)
        if rules.filters_nothing(task_filter):
            return 0
        return await self._delete_all(
            [task.id for task in await self._matching("delete_tasks", task_filter)]
        )

    async def _delete_all(self, task_ids: Sequence[str]) -> int:
        return sum(await asyncio.gather(*(self.delete_task(task_id) for task_id in task_ids)))

    async def get_running_count(self) -> int:
        """How many are running."""
        return int(
            await self._host.read("get_running_count", "ZCARD", self._place("status", "running"))
        )

    async def get_running_count_by_agent(self, agent_id: str) -> int:
        """How many of one agent are running."""
        key = self._keys.task_index + _RUNNING + raw(agent_id)
        return int(await self._host.read("get_running_count_by_agent", "ZCARD", key))

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete terminal tasks completed strictly before the limit."""
        options = pruning.check_policies(policies, options, (pruning.TASKS,))
        return [await self._prune(policy, options) for policy in policies]

    async def _prune(self, policy: PrunePolicy, options: PruneOptions) -> PruneResult:
        limit = pruning.cutoff(policy, self._host.clock.now())
        ended = TaskFilter(
            status=TERMINAL_TASK_STATUSES, to_date=limit, date_filter_by="completedAt"
        )
        waiting = [task.id for task in await self._matching("prune", ended)]

        async def count() -> int:
            return len(waiting)

        async def delete(wanted: int) -> int:
            batch = waiting[-wanted:]
            del waiting[-wanted:]
            return await self._delete_all(batch)

        return await pruning.prune_table(
            policy,
            options,
            domain="background_tasks",
            count=count,
            delete=delete,
            sleep=self._host.clock.sleep,
        )

    async def dangerously_clear_all(self) -> None:
        """Delete every task."""
        await self._host.clear("dangerously_clear_all", (self._keys.tasks, self._keys.task_index))

    # -- orders --------------------------------------------------------------------------------

    async def _matching(self, operation: str, wanted: TaskFilter) -> list[BackgroundTask]:
        places, _ = self._order(wanted)
        bounded = wanted if wanted.date_filter_by == "createdAt" else None
        _, tasks = await self._read_order(operation, places, bounded, offset=0, count=-1)
        return [task for task in tasks if rules.matches(task, wanted)]

    async def _read_order(
        self,
        operation: str,
        places: Sequence[bytes],
        bounded: TaskFilter | None,
        *,
        offset: int,
        count: int,
    ) -> tuple[int, list[BackgroundTask]]:
        if not places:
            return 0, []
        low, high = _scores(bounded) if bounded else ("-inf", "+inf")
        newest = bounded is not None and bounded.order_direction == "desc"
        total, texts = await self._host.script(
            operation,
            "tasks_page",
            places,
            [self._keys.tasks, low, high, offset, count, int(newest)],
            repeatable=True,
        )
        return total, [_read(text) for text in texts if text is not None]

    def _order(self, wanted: TaskFilter) -> tuple[list[bytes], bool]:
        """The orders that hold every match, and whether they hold nothing else."""
        given = [name for name in _FILTERS if _filters(wanted, name)]
        is_bounded = wanted.from_date is not None or wanted.to_date is not None
        exact = len(given) <= 1 and not (is_bounded and wanted.date_filter_by != "createdAt")
        for name in _INDEXED:
            values = choices(getattr(wanted, name))
            if values is not None:
                return [self._place(name, value) for value in values], exact
        return [self._keys.task_index + _ALL], exact and not given

    def _place(self, member: str, value: str) -> bytes:
        return self._keys.task_index + member.encode() + b":" + raw(value)

    def _places(self, task: BackgroundTask | None) -> list[bytes]:
        if task is None:
            return []
        places = [self._keys.task_index + _ALL]
        places += [self._place(name, value) for name in _INDEXED if (value := getattr(task, name))]
        if task.status == "running":
            places.append(self._keys.task_index + _RUNNING + raw(task.agent_id))
        return places

    def _moves(self, old: BackgroundTask | None, new: BackgroundTask | None) -> list[Command]:
        before, after = self._places(old), self._places(new)
        commands: list[Command] = []
        if old is not None:
            commands += [("ZREM", p, raw(old.id)) for p in before if p not in after]
        if new is not None:
            score = epoch_ms(new.created_at)
            commands += [("ZADD", p, score, raw(new.id)) for p in after if p not in before]
        return commands


def _filters(wanted: TaskFilter, name: str) -> bool:
    value = getattr(wanted, name)
    return bool(value) or (name == "status" and value is not None and value != "")


def _scores(wanted: TaskFilter) -> tuple[Argument, Argument]:
    low, high = bounds_ms(DateRange(start=wanted.from_date, end=wanted.to_date, end_exclusive=True))
    return ("-inf" if low is None else low, "+inf" if high is None else high - 1)


def _read(text: bytes) -> BackgroundTask:
    return model_of(BackgroundTask, text, what="a background task")
