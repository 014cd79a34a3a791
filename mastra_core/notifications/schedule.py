"""The schedule row that tells every process, Node's too, to dispatch (notifications.md 11).

Our own loop doesn't need it, see ``notifications.dispatcher``; it is kept so that peers that
know nothing else dispatch as well.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.base.cron import next_fire_ms
from mastra_core.base.ids import Ids
from mastra_core.contracts.storage.schedules import SchedulesStorage
from mastra_core.errors import MastraError, StorageConflictError
from mastra_core.notifications.settings import NotificationSettings
from mastra_core.wire.schedules import Schedule, ScheduleTrigger

__all__ = (
    "NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID",
    "NOTIFICATION_DISPATCH_WORKFLOW_ID",
    "DispatchSchedule",
    "build_notification_dispatch_schedule",
    "dispatch_run_id",
    "is_dispatch_schedule",
)

logger = logging.getLogger(__name__)

NOTIFICATION_DISPATCH_WORKFLOW_ID: Final = "__mastra_notification_dispatcher"
NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID: Final = "__mastra_notification_dispatch"


def build_notification_dispatch_schedule(
    settings: NotificationSettings, *, now_ms: int
) -> Schedule:
    """The row as every process writes it."""
    return Schedule(
        id=NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID,
        target=_target(settings),
        cron=settings.cron,
        status="active",
        next_fire_at=next_fire_ms(settings.cron, now_ms),
        created_at=now_ms,
        updated_at=now_ms,
        metadata={"internal": True, "feature": "notifications"},
    )


def _target(settings: NotificationSettings) -> dict[str, Any]:
    # The order of keys is what Node writes, and it compares texts.
    return {
        "type": "workflow",
        "workflowId": NOTIFICATION_DISPATCH_WORKFLOW_ID,
        "inputData": {"limit": settings.batch_size},
    }


def is_dispatch_schedule(schedule: Schedule) -> bool:
    """Is this our row, with the target that we know?"""
    return (
        schedule.id == NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID
        and schedule.target.get("type") == "workflow"
        and schedule.target.get("workflowId") == NOTIFICATION_DISPATCH_WORKFLOW_ID
    )


def dispatch_run_id(scheduled_ms: int) -> str:
    """The run id of one tick, the same in every process."""
    return f"sched_{NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID}_{scheduled_ms}"


class DispatchSchedule:
    """
    Keeps the row as the settings say, and takes its ticks if asked to.

    It reads and writes this one row only: no other schedule is ever claimed, patched or
    deleted here (notifications.md S18).
    """

    def __init__(
        self,
        storage: SchedulesStorage,
        *,
        clock: Clock,
        ids: Ids,
        settings: NotificationSettings,
        announce: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._announce = announce

    async def ensure(self) -> None:
        """
        Create the row, or bring cron and target up to date; a paused row stays paused.

        Asked at every deferral, so a row that somebody deleted comes back. A failure is
        logged and made good at the next deferral; our own loop dispatches anyway.
        """
        if not self._settings.enabled:
            return
        try:
            if await self._ensure() and self._announce is not None:
                await self._announce()
        except Exception:
            logger.warning("notification dispatch schedule not ensured", exc_info=True)

    async def _ensure(self) -> bool:
        """True if something was written."""
        row_id = NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID
        wanted = build_notification_dispatch_schedule(self._settings, now_ms=self._clock.now_ms())
        found = await self._storage.get_schedule(row_id)
        if found is None:
            try:
                await self._storage.create_schedule(wanted)
            except StorageConflictError:
                # Somebody else was faster; only a row that is still missing is an error.
                found = await self._storage.get_schedule(row_id)
                if found is None:
                    raise
            else:
                return True
        patch: dict[str, Any] = {}
        if found.cron != wanted.cron:
            patch |= {"cron": wanted.cron, "next_fire_at": wanted.next_fire_at}
        # Compared as values: a store may have brought the keys into another order.
        if found.target != wanted.target:
            patch["target"] = wanted.target
        if patch:
            await self._storage.update_schedule(row_id, patch)
        return bool(patch)

    async def claim_tick(self) -> Mapping[str, Any] | None:
        """
        Take the tick that is due; the input of the dispatch for the one process that gets it.

        None if nothing is due, the row is paused or missing, its target is one that we don't
        know, or somebody else was faster. Missed ticks are not caught up.
        """
        now_ms = self._clock.now_ms()
        row = await self._storage.get_schedule(NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID)
        if row is None or row.status != "active" or row.next_fire_at > now_ms:
            return None
        if not is_dispatch_schedule(row):
            return None
        run_id = dispatch_run_id(row.next_fire_at)
        won = await self._storage.update_schedule_next_fire(
            row.id,
            expected_next_fire_at=row.next_fire_at,
            new_next_fire_at=next_fire_ms(row.cron, now_ms, timezone=row.timezone),
            last_fire_at=now_ms,
            last_run_id=run_id,
        )
        if not won:
            return None
        await self._record(row, run_id, now_ms)
        given = row.target.get("inputData")
        return given if isinstance(given, Mapping) else {}

    async def _record(self, row: Schedule, run_id: str, now_ms: int) -> None:
        try:
            await self._storage.record_trigger(
                ScheduleTrigger(
                    id=self._ids.new("trigger"),
                    schedule_id=row.id,
                    run_id=run_id,
                    scheduled_fire_at=row.next_fire_at,
                    actual_fire_at=now_ms,
                    outcome="published",
                    trigger_kind="schedule-fire",
                )
            )
        except MastraError:
            # The history is for people; the tick is ours either way.
            logger.warning("notification dispatch tick not recorded", exc_info=True)
