"""Background tasks of the in-memory store (streaming.md 8.10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mastra_core.base.clock import Clock
from mastra_core.contracts.storage.background_tasks import TaskFilter
from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.errors import StorageConflictError
from mastra_core.inmemory.storage.copies import copied
from mastra_core.inmemory.storage.domain import Domain, Tables
from mastra_core.rules import pruning
from mastra_core.rules import tasks as rules
from mastra_core.rules.arguments import choices
from mastra_core.rules.paging import optional_page
from mastra_core.wire.tasks import TERMINAL_TASK_STATUSES, BackgroundTask, BackgroundTasks

__all__ = ("InMemoryBackgroundTasks", "TaskTables")

_JSON = ("args", "result", "error", "suspend_payload")
#: Members with an index, the most selective first.
_INDEXED = ("tool_call_id", "run_id", "thread_id", "status", "agent_id")


class TaskTables(Tables):
    """Tasks of one store, with an index per member that lists filter by."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.tasks: dict[str, BackgroundTask] = {}
        self._ids: dict[tuple[str, str], dict[str, None]] = {}

    def put(self, task: BackgroundTask) -> None:
        """Write a task."""
        self.drop(task.id)
        self.tasks[task.id] = task
        for place in _places(task):
            self._ids.setdefault(place, {})[task.id] = None

    def drop(self, task_id: str) -> bool:
        """Delete a task; True if there was one."""
        task = self.tasks.pop(task_id, None)
        for place in _places(task) if task else ():
            members = self._ids[place]
            del members[task_id]
            if not members:
                del self._ids[place]
        return task is not None

    def ids_with(self, member: str, value: str) -> Iterable[str]:
        """Ids of the tasks whose member has this value."""
        return self._ids.get((member, value), {})

    def count_with(self, member: str, value: str) -> int:
        """How many tasks have this value."""
        return len(self._ids.get((member, value), {}))

    def candidates(self, task_filter: TaskFilter) -> Iterable[BackgroundTask]:
        """The tasks that one index allows; still to be matched."""
        for member in _INDEXED:
            values = choices(getattr(task_filter, member))
            if values is not None:
                return [self.tasks[k] for value in values for k in self.ids_with(member, value)]
        return self.tasks.values()


def _places(task: BackgroundTask) -> list[tuple[str, str]]:
    places = [(name, value) for name in _INDEXED if (value := getattr(task, name))]
    if task.status == "running":
        places.append(("running_of_agent", task.agent_id))
    return places


class InMemoryBackgroundTasks(Domain[TaskTables]):
    """Domain ``background_tasks``; see ``contracts.storage.background_tasks``."""

    def __init__(self, clock: Clock) -> None:
        self.attach(None)
        self._clock = clock

    async def create_task(self, task: BackgroundTask) -> BackgroundTask:
        """Insert."""
        rules.check_task(task)
        own = copied(task, _JSON)
        if own.id in self._tables.tasks:
            raise StorageConflictError(
                f"Background task {own.id!r} exists already; nothing was written.",
                what="task",
                found=own.id,
            )
        self._tables.put(own)
        return copied(own, _JSON)

    async def get_task(self, task_id: str) -> BackgroundTask | None:
        """The task, or None."""
        task = self._tables.tasks.get(task_id)
        return None if task is None else copied(task, _JSON)

    async def update_task(
        self,
        task_id: str,
        patch: Mapping[str, Any],
        *,
        expected_status: str | Sequence[str] | None = None,
    ) -> bool:
        """Compare the status and write, in one step without an await."""
        rules.check_patch(patch)
        task = self._tables.tasks.get(task_id)
        if task is None or not rules.is_expected(task.status, expected_status):
            return False
        self._tables.put(copied(rules.apply_patch(task, patch), _JSON))
        return True

    async def list_tasks(self, task_filter: TaskFilter | None = None) -> BackgroundTasks:
        """Tasks by (order field, id)."""
        wanted = task_filter or TaskFilter()
        rules.check_filter(wanted)
        place = optional_page(
            wanted.page, wanted.per_page, store="inmemory", operation="list_tasks"
        )
        found = sorted(
            self._matching(wanted),
            key=lambda task: rules.order_key(task, wanted.order_by),
            reverse=wanted.order_direction == "desc",
        )
        shown = found if place is None else found[place.offset : place.end]
        return BackgroundTasks(tasks=[copied(task, _JSON) for task in shown], total=len(found))

    async def delete_task(self, task_id: str) -> bool:
        """Delete; True if there was one."""
        return self._tables.drop(task_id)

    async def delete_tasks(self, task_filter: TaskFilter) -> int:
        """Delete matches; an empty filter does nothing."""
        rules.check_filter(task_filter)
        if rules.filters_nothing(task_filter):
            return 0
        return sum(self._tables.drop(task.id) for task in self._matching(task_filter))

    async def get_running_count(self) -> int:
        """How many are running."""
        return self._tables.count_with("status", "running")

    async def get_running_count_by_agent(self, agent_id: str) -> int:
        """How many of one agent are running."""
        return self._tables.count_with("running_of_agent", agent_id)

    async def prune(
        self, policies: Sequence[PrunePolicy], options: PruneOptions | None = None
    ) -> list[PruneResult]:
        """Delete terminal tasks completed strictly before the limit."""
        options = pruning.check_policies(policies, options, (pruning.TASKS,))
        return [await self._prune(policy, options) for policy in policies]

    async def _prune(self, policy: PrunePolicy, options: PruneOptions) -> PruneResult:
        limit = pruning.cutoff(policy, self._clock.now())
        ended = TaskFilter(
            status=TERMINAL_TASK_STATUSES, to_date=limit, date_filter_by="completedAt"
        )
        waiting = [task.id for task in self._matching(ended)]

        async def count() -> int:
            return len(waiting)

        async def delete(wanted: int) -> int:
            batch = waiting[-wanted:]
            del waiting[-wanted:]
            return sum(map(self._tables.drop, batch))

        return await pruning.prune_table(
            policy,
            options,
            domain="background_tasks",
            count=count,
            delete=delete,
            sleep=self._clock.sleep,
        )

    async def dangerously_clear_all(self) -> None:
        """Delete every task."""
        self._tables.clear()

    def _matching(self, task_filter: TaskFilter) -> list[BackgroundTask]:
        candidates = self._tables.candidates(task_filter)
        return [task for task in candidates if rules.matches(task, task_filter)]
