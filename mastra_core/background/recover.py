"""Take over what a dead process left, and forget what is old (streaming.md 8.9, 8.3)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mastra_core.background.execute import LAST_WRITES
from mastra_core.base.tasks import shielded
from mastra_core.contracts.storage.background_tasks import TaskFilter
from mastra_core.errors import MastraError
from mastra_core.wire.tasks import BackgroundTask

if TYPE_CHECKING:
    from mastra_core.background.manager import BackgroundTaskManager

__all__ = ("Recovery", "clean_up")

logger = logging.getLogger(__name__)

_PAGE: Final = 100
#: Ends that are as old as this were told to their threads long ago.
_RECENT: Final = timedelta(hours=1)


class Recovery:
    """Looks for tasks whose process is gone; a lease says whose a task is."""

    def __init__(self, manager: BackgroundTaskManager) -> None:
        self._manager = manager
        #: Ended tasks whose results were looked at.
        self._told: set[str] = set()

    async def run(self) -> None:
        """Look now and again and again, until cancelled."""
        manager = self._manager
        while True:
            try:
                await self.look()
            except MastraError:
                logger.exception("background tasks can't be recovered now")
            await manager.clock.sleep(manager.settings.recovery_interval_ms / 1000)

    async def look(self) -> None:
        """
        One look.

        Raises:
            StorageError, LeaseError: A store or provider failed.
        """
        manager = self._manager
        found = await manager.store.list_tasks(TaskFilter(status=("pending", "running")))
        for task in found.tasks:
            if not manager.is_ours(task.id):
                await self._take(task)
        await self._tell_results()

    async def _take(self, seen: BackgroundTask) -> None:
        """Take one over if nobody has it; a task whose lease is held elsewhere is left alone."""
        manager = self._manager
        executor = manager.executor_for(seen)
        may_repeat = seen.status == "pending" or seen.retry_count < seen.max_retries
        if may_repeat and executor is None:
            # Some other process knows its tool.
            return
        lease = manager.new_lease(seen.id)
        if not await lease.acquire():
            return
        is_taken = False
        try:
            # What was read before the lease was ours may be old.
            task = await manager.store.get_task(seen.id)
            if task is None or manager.is_ours(seen.id):
                return
            if task.status == "running":
                task = await self._put_back(task)
            if task is not None and task.status == "pending" and executor is not None:
                manager.adopt(task, lease, executor)
                is_taken = True
        finally:
            if not is_taken:
                await shielded(lease.release(), LAST_WRITES)

    async def _put_back(self, task: BackgroundTask) -> BackgroundTask | None:
        """Its process died while it ran: once more if it may, else that was its end."""
        manager = self._manager
        if task.retry_count >= task.max_retries:
            await manager.fail(task, "The process that ran the task is gone.")
            return None
        patch = {"status": "pending", "retry_count": task.retry_count + 1}
        if not await manager.store.update_task(task.id, patch, expected_status="running"):
            return None
        return task.replace(**patch)

    async def _tell_results(self) -> None:
        """A process may have died between the end of a task and the message that shows it."""
        manager = self._manager
        found = await manager.store.list_tasks(
            TaskFilter(
                status=("completed", "failed", "timed_out"),
                from_date=manager.clock.now() - _RECENT,
                date_filter_by="completedAt",
                order_by="completedAt",
            )
        )
        recent = {task.id for task in found.tasks}
        self._told &= recent
        for task in found.tasks:
            if task.id in self._told or manager.is_ours(task.id):
                continue
            lease = manager.new_lease(task.id)
            if await lease.acquire():
                try:
                    await manager.deliver(task)
                finally:
                    await shielded(lease.release(), LAST_WRITES)
                self._told.add(task.id)


async def clean_up(manager: BackgroundTaskManager) -> None:
    """Delete old records of ended tasks, until cancelled."""
    rules = manager.settings.cleanup
    while True:
        await manager.clock.sleep(rules.cleanup_interval_ms / 1000)
        now = manager.clock.now()
        for statuses, ttl_ms in (
            (("completed",), rules.completed_ttl_ms),
            (("failed", "timed_out", "cancelled"), rules.failed_ttl_ms),
        ):
            try:
                await manager.store.delete_tasks(
                    TaskFilter(
                        status=statuses,
                        to_date=now - timedelta(milliseconds=ttl_ms),
                        date_filter_by="completedAt",
                    )
                )
            except MastraError:
                logger.exception("old background tasks can't be deleted now")
