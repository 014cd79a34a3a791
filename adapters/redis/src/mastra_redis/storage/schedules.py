"""Timers and their history in Redis (workflows.md 12, notifications.md 14.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mastra_core.errors import ScheduleNotFoundError, StorageConflictError
from mastra_core.rules import schedules as rules
from mastra_core.rules.arguments import check_limit
from mastra_core.wire.schedules import Schedule, ScheduleTrigger
from mastra_redis.keys import raw
from mastra_redis.records import encoded, model_of
from mastra_redis.storage.host import Command, Host, Outcome, Values

__all__ = ("RedisSchedules",)

#: How many firings one deletion takes at once.
_PORTION: Final = 1_000


class RedisSchedules:
    """Domain ``schedules``; see ``contracts.storage.schedules``."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._keys = host.keys
        self._all = host.keys.schedule_index + b"all"
        self._due = host.keys.schedule_index + b"due"

    async def create_schedule(self, schedule: Schedule) -> Schedule:
        """Insert."""
        rules.check_schedule(schedule)
        key = self._keys.schedule(schedule.id)
        written = encoded(schedule)
        stored = _schedule(written)
        commands: list[Command] = [("SET", key, written), *self._moves(None, stored)]
        if await self._host.commit("create_schedule", [key], [None], commands) is not None:
            raise StorageConflictError(
                f"Schedule {schedule.id!r} exists already; nothing was written.",
                what="schedule",
                found=schedule.id,
            )
        self._host.recent.see(key, written)
        return stored

    async def get_schedule(self, schedule_id: str) -> Schedule | None:
        """The schedule, or None."""
        found = await self._host.read("get_schedule", "GET", self._keys.schedule(schedule_id))
        return None if found is None else _schedule(found)

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
            for schedule in await self._of("list_schedules", self._all, "+inf", -1)
            if rules.matches(
                schedule,
                status=status,
                owner_type=owner_type,
                owner_id=owner_id,
                workflow_id=workflow_id,
            )
        ]
        found.sort(key=lambda schedule: (schedule.created_at, schedule.id))
        return found

    async def list_due_schedules(self, now_ms: int, *, limit: int = 100) -> list[Schedule]:
        """Active schedules that are due, earliest first."""
        check_limit(limit)
        return await self._of("list_due_schedules", self._due, now_ms, limit)

    async def _of(
        self, operation: str, order: bytes, highest: int | str, limit: int
    ) -> list[Schedule]:
        _, texts = await self._host.script(
            operation,
            "tasks_page",
            [order],
            [self._keys.schedules, "-inf", highest, 0, limit, 0],
            repeatable=True,
        )
        return [_schedule(text) for text in texts if text is not None]

    async def update_schedule(self, schedule_id: str, patch: Mapping[str, Any]) -> Schedule:
        """Write the named columns."""
        rules.check_patch(patch)
        now_ms = self._host.clock.now_ms()

        def compute(seen: Values) -> Outcome[Schedule | None]:
            if seen[0] is None:
                return Outcome(None)
            before = _schedule(seen[0])
            return self._put(before, rules.apply_patch(before, patch, now_ms=now_ms))

        key = self._keys.schedule(schedule_id)
        changed = await self._host.change("update_schedule", [key], compute)
        if changed is None:
            raise ScheduleNotFoundError(schedule_id=schedule_id)
        return changed

    async def update_schedule_next_fire(
        self,
        schedule_id: str,
        *,
        expected_next_fire_at: int,
        new_next_fire_at: int,
        last_fire_at: int,
        last_run_id: str | None = None,
    ) -> bool:
        """Move the next fire time on, in one step of the server; True for the winner."""
        now_ms = self._host.clock.now_ms()

        def compute(seen: Values) -> Outcome[Schedule | None]:
            before = None if seen[0] is None else _schedule(seen[0])
            if (
                before is None
                or before.status != "active"
                or before.next_fire_at != expected_next_fire_at
            ):
                return Outcome(None)
            moved = before.replace(
                next_fire_at=new_next_fire_at,
                last_fire_at=last_fire_at,
                last_run_id=last_run_id,
                updated_at=now_ms,
            )
            return self._put(before, moved)

        key = self._keys.schedule(schedule_id)
        return await self._host.change("update_schedule_next_fire", [key], compute) is not None

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Delete it with its history; True if there was one."""
        key, history = self._keys.schedule(schedule_id), self._history(schedule_id)
        trigger_ids: list[bytes] = await self._host.read(
            "delete_schedule", "ZRANGE", history, 0, -1
        )

        def compute(seen: Values) -> Outcome[bool]:
            commands: list[Command] = []
            for first in range(0, len(trigger_ids), _PORTION):
                batch = trigger_ids[first : first + _PORTION]
                commands.append(("DEL", *(self._keys.triggers + name for name in batch)))
            if trigger_ids:
                commands.append(("DEL", history))
            if seen[0] is None:
                return Outcome(False, commands, [None])
            commands += [("DEL", key), *self._moves(_schedule(seen[0]), None)]
            return Outcome(True, commands, [None])

        return await self._host.change("delete_schedule", [key], compute)

    async def record_trigger(self, trigger: ScheduleTrigger) -> None:
        """Append to the history; the same id again changes nothing."""
        rules.check_trigger(trigger)
        key = self._keys.trigger(trigger.id)
        history = self._history(trigger.schedule_id)
        await self._host.commit(
            "record_trigger",
            [key],
            [None],
            [
                ("SET", key, encoded(trigger)),
                ("ZADD", history, -trigger.actual_fire_at, raw(trigger.id)),
            ],
        )

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
        _, texts = await self._host.script(
            "list_triggers",
            "tasks_page",
            [self._history(schedule_id)],
            [
                self._keys.triggers,
                "-inf" if to_ms is None else -to_ms,
                "+inf" if from_ms is None else -from_ms,
                0,
                -1 if limit is None else limit,
                0,
            ],
            repeatable=True,
        )
        return [
            model_of(ScheduleTrigger, text, what="a firing") for text in texts if text is not None
        ]

    async def dangerously_clear_all(self) -> None:
        """Delete every schedule and trigger."""
        await self._host.clear(
            "dangerously_clear_all",
            (self._keys.schedules, self._keys.triggers, self._keys.schedule_index),
        )

    def _history(self, schedule_id: str) -> bytes:
        return self._keys.schedule_index + b"history:" + raw(schedule_id)

    def _put(self, before: Schedule, after: Schedule) -> Outcome[Schedule | None]:
        written = encoded(after)
        stored = _schedule(written)
        commands: list[Command] = [
            ("SET", self._keys.schedule(after.id), written),
            *self._moves(before, stored),
        ]
        return Outcome(stored, commands, [written])

    def _moves(self, old: Schedule | None, new: Schedule | None) -> list[Command]:
        before, after = self._places(old), self._places(new)
        commands: list[Command] = []
        if old is not None:
            commands += [("ZREM", p, raw(old.id)) for p in before if p not in after]
        if new is not None:
            commands += [
                ("ZADD", place, score, raw(new.id))
                for place, score in after.items()
                if before.get(place) != score
            ]
        return commands

    def _places(self, schedule: Schedule | None) -> dict[bytes, int]:
        if schedule is None:
            return {}
        places = {self._all: schedule.created_at}
        if schedule.status == "active":
            places[self._due] = schedule.next_fire_at
        return places


def _schedule(text: bytes) -> Schedule:
    return model_of(Schedule, text, what="a schedule")
