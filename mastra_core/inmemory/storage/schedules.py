"""Timers of the in-memory store (workflows.md 12)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from mastra_core.base.clock import Clock
from mastra_core.errors import ScheduleNotFoundError, StorageConflictError
from mastra_core.inmemory.storage.copies import copied
from mastra_core.inmemory.storage.domain import Domain, Tables
from mastra_core.inmemory.storage.sorted_keys import SortedKeys
from mastra_core.rules import schedules as rules
from mastra_core.rules.arguments import check_limit
from mastra_core.wire.schedules import Schedule, ScheduleTrigger

__all__ = ("InMemorySchedules", "ScheduleTables")

_JSON = ("target", "metadata")
_TRIGGER_JSON = ("metadata",)


class ScheduleTables(Tables):
    """Timers and their history."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.schedules: dict[str, Schedule] = {}
        #: Active ones: (next fire, id).
        self.due: SortedKeys[tuple[int, str]] = SortedKeys()
        self.triggers: dict[str, ScheduleTrigger] = {}
        #: Schedule to its history, newest first: (-actual fire, id).
        self.history: dict[str, SortedKeys[tuple[int, str]]] = {}

    def put(self, schedule: Schedule) -> None:
        """Write a timer."""
        self._unlink(self.schedules.get(schedule.id))
        self.schedules[schedule.id] = schedule
        if schedule.status == "active":
            self.due.add((schedule.next_fire_at, schedule.id))

    def drop(self, schedule_id: str) -> bool:
        """Delete a timer with its history; True if there was one."""
        schedule = self.schedules.pop(schedule_id, None)
        self._unlink(schedule)
        for _, trigger_id in self.history.pop(schedule_id, SortedKeys()):
            del self.triggers[trigger_id]
        return schedule is not None

    def _unlink(self, schedule: Schedule | None) -> None:
        if schedule is not None:
            self.due.discard((schedule.next_fire_at, schedule.id))


class InMemorySchedules(Domain[ScheduleTables]):
    """Domain ``schedules``; see ``contracts.storage.schedules``."""

    def __init__(self, clock: Clock) -> None:
        self.attach(None)
        self._clock = clock

    async def create_schedule(self, schedule: Schedule) -> Schedule:
        """Insert."""
        rules.check_schedule(schedule)
        own = copied(schedule, _JSON)
        if own.id in self._tables.schedules:
            raise StorageConflictError(
                f"Schedule {own.id!r} exists already; nothing was written.",
                what="schedule",
                found=own.id,
            )
        self._tables.put(own)
        return copied(own, _JSON)

    async def get_schedule(self, schedule_id: str) -> Schedule | None:
        """The schedule, or None."""
        schedule = self._tables.schedules.get(schedule_id)
        return None if schedule is None else copied(schedule, _JSON)

    async def list_schedules(
        self,
        *,
        status: str | None = None,
        owner_type: str | None = None,
        owner_id: str | None = None,
        workflow_id: str | None = None,
    ) -> list[Schedule]:
        """Schedules by (created_at, id)."""
        found = [
            schedule
            for schedule in self._tables.schedules.values()
            if rules.matches(
                schedule,
                status=status,
                owner_type=owner_type,
                owner_id=owner_id,
                workflow_id=workflow_id,
            )
        ]
        found.sort(key=lambda schedule: (schedule.created_at, schedule.id))
        return [copied(schedule, _JSON) for schedule in found]

    async def list_due_schedules(self, now_ms: int, *, limit: int = 100) -> list[Schedule]:
        """Active schedules that are due, earliest first."""
        check_limit(limit)
        due = self._tables.due
        keys = islice(due.ascending(0, due.rank((now_ms + 1,))), limit)
        return [copied(self._tables.schedules[key[1]], _JSON) for key in keys]

    async def update_schedule(self, schedule_id: str, patch: Mapping[str, Any]) -> Schedule:
        """Write the named columns."""
        rules.check_patch(patch)
        schedule = self._tables.schedules.get(schedule_id)
        if schedule is None:
            raise ScheduleNotFoundError(schedule_id=schedule_id)
        changed = rules.apply_patch(schedule, patch, now_ms=self._clock.now_ms())
        own = copied(changed, _JSON)
        self._tables.put(own)
        return copied(own, _JSON)

    async def update_schedule_next_fire(
        self,
        schedule_id: str,
        *,
        expected_next_fire_at: int,
        new_next_fire_at: int,
        last_fire_at: int,
        last_run_id: str | None = None,
    ) -> bool:
        """Move the next fire time on, in one step without an await; True for the winner."""
        schedule = self._tables.schedules.get(schedule_id)
        if (
            schedule is None
            or schedule.status != "active"
            or schedule.next_fire_at != expected_next_fire_at
        ):
            return False
        moved = schedule.replace(
            next_fire_at=new_next_fire_at,
            last_fire_at=last_fire_at,
            last_run_id=last_run_id,
            updated_at=self._clock.now_ms(),
        )
        self._tables.put(moved)
        return True

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Delete it with its history; True if there was one."""
        return self._tables.drop(schedule_id)

    async def record_trigger(self, trigger: ScheduleTrigger) -> None:
        """Append to the history; the same id again changes nothing."""
        rules.check_trigger(trigger)
        own = copied(trigger, _TRIGGER_JSON)
        if own.id in self._tables.triggers:
            return
        self._tables.triggers[own.id] = own
        history = self._tables.history.setdefault(own.schedule_id, SortedKeys())
        history.add((-own.actual_fire_at, own.id))

    async def list_triggers(
        self,
        schedule_id: str,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int | None = None,
    ) -> list[ScheduleTrigger]:
        """History, newest first; bounds are inclusive."""
        check_limit(limit)
        history: SortedKeys[tuple[int, str]] = self._tables.history.get(schedule_id, SortedKeys())
        start = 0 if to_ms is None else history.rank((-to_ms,))
        stop = len(history) if from_ms is None else history.rank((-from_ms + 1,))
        keys = islice(history.ascending(start, max(start, stop)), limit)
        return [copied(self._tables.triggers[key[1]], _TRIGGER_JSON) for key in keys]

    async def dangerously_clear_all(self) -> None:
        """Delete every schedule and trigger."""
        self._tables.clear()
