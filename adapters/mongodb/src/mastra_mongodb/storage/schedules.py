"""Timers and their history (workflows.md 12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from mastra_core.errors import ScheduleNotFoundError, StorageConflictError
from mastra_core.rules import schedules as rules
from mastra_core.rules.arguments import check_limit
from mastra_core.wire.schedules import Schedule, ScheduleTrigger
from mastra_core.wire.tables import SCHEDULE_TRIGGERS, SCHEDULES
from mastra_mongodb.documents import DocumentCodec
from mastra_mongodb.pool import Collection, Session
from mastra_mongodb.storage.host import Host

__all__ = ("MongoSchedules",)

_SCHEDULES: Final = DocumentCodec(Schedule, SCHEDULES, json=("target", "metadata"))
_TRIGGERS: Final = DocumentCodec(ScheduleTrigger, SCHEDULE_TRIGGERS, json=("metadata",))


class MongoSchedules:
    """Domain ``schedules``; see ``contracts.storage.schedules``."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def _rows(self) -> Collection:
        return self._host.collection(SCHEDULES)

    @property
    def _triggers(self) -> Collection:
        return self._host.collection(SCHEDULE_TRIGGERS)

    async def create_schedule(self, schedule: Schedule) -> Schedule:
        """Insert."""
        rules.check_schedule(schedule)
        document = _SCHEDULES.document(schedule)
        with self._host.errors("create_schedule"):
            try:
                await self._rows.insert_one(document)
            except DuplicateKeyError as exc:
                raise StorageConflictError(
                    f"Schedule {schedule.id!r} exists already; nothing was written.",
                    what="schedule",
                    found=schedule.id,
                ) from exc
            return _SCHEDULES.model(document)

    async def get_schedule(self, schedule_id: str) -> Schedule | None:
        """The schedule, or None."""
        with self._host.errors("get_schedule"):
            document = await self._rows.find_one({"id": schedule_id})
            return None if document is None else _SCHEDULES.model(document)

    async def list_schedules(
        self,
        *,
        status: str | None = None,
        owner_type: str | None = None,
        owner_id: str | None = None,
        workflow_id: str | None = None,
    ) -> list[Schedule]:
        """Schedules by (created_at, id)."""
        given = {
            "status": status,
            "owner_type": owner_type,
            "owner_id": owner_id,
            "target.workflowId": workflow_id,
        }
        wanted = {name: value for name, value in given.items() if value}
        with self._host.errors("list_schedules"):
            cursor = self._rows.find(wanted).sort({"created_at": 1, "id": 1})
            return _SCHEDULES.models(await cursor.to_list())

    async def list_due_schedules(self, now_ms: int, *, limit: int = 100) -> list[Schedule]:
        """Active schedules that are due, earliest first."""
        check_limit(limit)
        wanted = {"status": "active", "next_fire_at": {"$lte": now_ms}}
        with self._host.errors("list_due_schedules"):
            cursor = self._rows.find(wanted).sort({"next_fire_at": 1, "id": 1}).limit(limit)
            return _SCHEDULES.models(await cursor.to_list())

    async def update_schedule(self, schedule_id: str, patch: Mapping[str, Any]) -> Schedule:
        """Write the named columns."""
        rules.check_patch(patch)
        now_ms = self._host.clock.now_ms()
        template = Schedule(
            id=schedule_id, target={}, cron="-", next_fire_at=0, created_at=0, updated_at=now_ms
        )
        patched = rules.apply_patch(template, patch, now_ms=now_ms)
        members = _SCHEDULES.given(
            {name: getattr(patched, name) for name in (*patch, "updated_at")}
        )
        with self._host.errors("update_schedule"):
            document = await self._rows.find_one_and_update(
                {"id": schedule_id}, {"$set": members}, return_document=ReturnDocument.AFTER
            )
            if document is None:
                raise ScheduleNotFoundError(schedule_id=schedule_id)
            return _SCHEDULES.model(document)

    async def update_schedule_next_fire(
        self,
        schedule_id: str,
        *,
        expected_next_fire_at: int,
        new_next_fire_at: int,
        last_fire_at: int,
        last_run_id: str | None = None,
    ) -> bool:
        """Move the next fire time on; True for the winner."""
        wanted = {"id": schedule_id, "next_fire_at": expected_next_fire_at, "status": "active"}
        members = {
            "next_fire_at": new_next_fire_at,
            "last_fire_at": last_fire_at,
            "last_run_id": last_run_id,
            "updated_at": self._host.clock.now_ms(),
        }
        with self._host.errors("update_schedule_next_fire"):
            result = await self._rows.update_one(wanted, {"$set": members})
            return bool(result.matched_count)

    async def delete_schedule(self, schedule_id: str) -> bool:
        """Delete it with its history; True if there was one."""

        async def body(session: Session | None) -> bool:
            # The history first: a schedule without it can be deleted again.
            await self._triggers.delete_many({"schedule_id": schedule_id}, session=session)
            result = await self._rows.delete_one({"id": schedule_id}, session=session)
            return bool(result.deleted_count)

        with self._host.errors("delete_schedule"):
            return await self._host.together("delete_schedule", body)

    async def record_trigger(self, trigger: ScheduleTrigger) -> None:
        """Append to the history; the same id again changes nothing."""
        rules.check_trigger(trigger)
        document = _TRIGGERS.document(trigger)
        with self._host.errors("record_trigger"):
            await self._triggers.update_one(
                {"id": trigger.id}, {"$setOnInsert": _without_id(document)}, upsert=True
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
        bounds = {
            word: bound for word, bound in (("$gte", from_ms), ("$lte", to_ms)) if bound is not None
        }
        wanted: dict[str, Any] = {"schedule_id": schedule_id}
        if bounds:
            wanted["actual_fire_at"] = bounds
        with self._host.errors("list_triggers"):
            cursor = self._triggers.find(wanted).sort({"actual_fire_at": -1, "id": 1})
            if limit is not None:
                cursor = cursor.limit(limit)
            return _TRIGGERS.models(await cursor.to_list())

    async def dangerously_clear_all(self) -> None:
        """Delete every schedule and trigger."""
        with self._host.errors("dangerously_clear_all"):
            await self._triggers.delete_many({})
            await self._rows.delete_many({})


def _without_id(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "id"}
