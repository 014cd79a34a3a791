"""Timers and their history on SQL (workflows.md 12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastra_core.errors import ScheduleNotFoundError, StorageConflictError
from mastra_core.rules import schedules as rules
from mastra_core.rules.arguments import check_limit
from mastra_core.wire.schedules import Schedule, ScheduleTrigger
from mastra_sql.executor import Program, Step
from mastra_sql.rows.codec import RowCodec
from mastra_sql.statements.schedules import ScheduleStatements
from mastra_sql.storage.host import SqlHost

__all__ = ("SqlSchedules",)


class SqlSchedules:
    """Domain ``schedules`` of a SQL store."""

    def __init__(self, host: SqlHost) -> None:
        self._host = host
        self._run = host.run
        self._sql = ScheduleStatements(host.dialect, host.tables)
        self._codec = RowCodec(Schedule, host.tables.schedules, host.dialect)
        self._triggers = RowCodec(ScheduleTrigger, host.tables.schedule_triggers, host.dialect)

    async def create_schedule(self, schedule: Schedule) -> Schedule:
        rules.check_schedule(schedule)
        step = Step.of(self._sql.insert(), self._codec.values(schedule))
        if not await self._run.write("create_schedule", step):
            raise StorageConflictError(
                f"Schedule {schedule.id!r} exists already; nothing was written.",
                what="schedule",
                found=schedule.id,
            )
        return schedule

    async def get_schedule(self, schedule_id: str) -> Schedule | None:
        step = Step.of(self._sql.get(), {"id": schedule_id})
        [rows] = await self._run.read("get_schedule", step)
        return self._codec.model(rows[0]) if rows else None

    async def list_schedules(
        self,
        *,
        status: str | None = None,
        owner_type: str | None = None,
        owner_id: str | None = None,
        workflow_id: str | None = None,
    ) -> list[Schedule]:
        given = {
            "status": status,
            "owner_type": owner_type,
            "owner_id": owner_id,
            "workflow_id": workflow_id,
        }
        values = {name: value for name, value in given.items() if value}
        step = Step.of(self._sql.listed(values.keys()), values)
        [rows] = await self._run.read("list_schedules", step)
        return self._codec.models(rows)

    async def list_due_schedules(self, now_ms: int, *, limit: int = 100) -> list[Schedule]:
        check_limit(limit)
        step = Step.of(self._sql.due(), {"now": now_ms, "limit": limit})
        [rows] = await self._run.read("list_due_schedules", step)
        return self._codec.models(rows)

    async def update_schedule(self, schedule_id: str, patch: Mapping[str, Any]) -> Schedule:
        rules.check_patch(patch)
        now_ms = self._host.clock.now_ms()
        template = Schedule(
            id=schedule_id, target={}, cron="-", next_fire_at=0, created_at=0, updated_at=now_ms
        )
        patched = rules.apply_patch(template, patch, now_ms=now_ms)
        fields = {name: getattr(patched, name) for name in (*patch, "updated_at")}
        values = self._codec.given(fields)
        statement = self._sql.update(values.keys())
        step = Step.of(statement, {**values, "key_id": schedule_id})
        rows = await self._run.write("update_schedule", step)
        if not rows:
            raise ScheduleNotFoundError(schedule_id=schedule_id)
        return self._codec.model(rows[0])

    async def update_schedule_next_fire(
        self,
        schedule_id: str,
        *,
        expected_next_fire_at: int,
        new_next_fire_at: int,
        last_fire_at: int,
        last_run_id: str | None = None,
    ) -> bool:
        values = {
            "key_id": schedule_id,
            "expected_next_fire_at": expected_next_fire_at,
            "next_fire_at": new_next_fire_at,
            "last_fire_at": last_fire_at,
            "last_run_id": last_run_id,
            "updated_at": self._host.clock.now_ms(),
        }
        step = Step.of(self._sql.move_next_fire(), values)
        return bool(await self._run.write("update_schedule_next_fire", step))

    async def delete_schedule(self, schedule_id: str) -> bool:
        steps = [Step.of(statement, {"id": schedule_id}) for statement in self._sql.delete()]

        def program() -> Program[bool]:
            _, deleted = yield steps
            return bool(deleted)

        return await self._run.transact("delete_schedule", program)

    async def record_trigger(self, trigger: ScheduleTrigger) -> None:
        rules.check_trigger(trigger)
        step = Step.of(self._sql.insert_trigger(), self._triggers.values(trigger))
        await self._run.write("record_trigger", step)

    async def list_triggers(
        self,
        schedule_id: str,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int | None = None,
    ) -> list[ScheduleTrigger]:
        check_limit(limit)
        given = {"from_ms": from_ms, "to_ms": to_ms}
        bounds = {name: value for name, value in given.items() if value is not None}
        values: dict[str, Any] = {"schedule_id": schedule_id, **bounds}
        if limit is not None:
            values["limit"] = limit
        step = Step.of(self._sql.history(bounds.keys(), limited=limit is not None), values)
        [rows] = await self._run.read("list_triggers", step)
        return self._triggers.models(rows)

    async def dangerously_clear_all(self) -> None:
        tables = self._host.tables
        statements = self._sql.clear(tables.schedule_triggers, tables.schedules)

        def program() -> Program[None]:
            yield [Step(statement) for statement in statements]

        await self._run.transact("dangerously_clear_all", program)
