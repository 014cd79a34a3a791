"""Timers and their history (workflows.md 12, notifications.md 11, 14.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mastra_core.wire.schedules import Schedule, ScheduleTrigger

__all__ = ("SchedulesStorage",)


class SchedulesStorage(Protocol):
    """Domain ``schedules``; times are epoch milliseconds."""

    async def create_schedule(self, schedule: Schedule) -> Schedule:
        """
        Insert.

        Raises:
            StorageConflictError: The id exists; nothing was changed.
        """
        ...

    async def get_schedule(self, schedule_id: str) -> Schedule | None:
        """The schedule, or None."""
        ...

    async def list_schedules(
        self,
        *,
        status: str | None = None,
        owner_type: str | None = None,
        owner_id: str | None = None,
        workflow_id: str | None = None,
    ) -> list[Schedule]:
        """Schedules by (created_at, id); ``workflow_id`` compares ``target.workflowId``."""
        ...

    async def list_due_schedules(self, now_ms: int, *, limit: int = 100) -> list[Schedule]:
        """Active schedules with ``next_fire_at <= now_ms``, earliest first, then id."""
        ...

    async def update_schedule(self, schedule_id: str, patch: Mapping[str, Any]) -> Schedule:
        """
        Write the named columns and ``updated_at``.

        Raises:
            ScheduleNotFoundError: There is no such schedule.
        """
        ...

    async def update_schedule_next_fire(
        self,
        schedule_id: str,
        *,
        expected_next_fire_at: int,
        new_next_fire_at: int,
        last_fire_at: int,
        last_run_id: str | None = None,
    ) -> bool:
        """
        Move the next fire time on, if the row is active and nobody else did; True for the
        winner (capability ``schedules.claim_fire``).
        """
        ...

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Delete it with its history, in one transaction; True if there was one."""
        ...

    async def record_trigger(self, trigger: ScheduleTrigger) -> None:
        """Append to the history; the same id twice is one row."""
        ...

    async def list_triggers(
        self,
        schedule_id: str,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int | None = None,
    ) -> list[ScheduleTrigger]:
        """History, newest ``actual_fire_at`` first, then id; bounds are inclusive."""
        ...

    async def dangerously_clear_all(self) -> None:
        """Delete every schedule and trigger."""
        ...
