"""Timers and their history (workflows.md 12, notifications.md 14.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance.fixtures import OpenStore
from mastra_conformance.suite import Suite, requires, tier
from mastra_conformance.suites.storage.crowds import at_once
from mastra_conformance.suites.storage.things import schedule, trigger
from mastra_conformance.suites.storage.values import kept_values, refused_values
from mastra_core.contracts.storage import Storage
from mastra_core.errors import (
    ScheduleNotFoundError,
    StorageArgumentError,
    StorageConflictError,
    WireEncodeError,
)

__all__ = (
    "ScheduleSuite",
    "history",
)


async def history(store: Storage, schedule_id: str = "s1", **bounds: Any) -> list[str]:
    """Ids of a timer's history, in its order."""
    return [row.id for row in await store.schedules.list_triggers(schedule_id, **bounds)]


class ScheduleSuite(Suite):
    """What a store does with timers."""

    capabilities = ("schedules",)

    async def test_a_created_timer_reads_back_equal(self, store: Storage) -> None:
        """Every column, with the order of the target's members; absent is None."""
        given = schedule(
            timezone="Europe/Berlin",
            last_fire_at=1,
            last_run_id="r",
            metadata={"internal": True},
            owner_type="agent",
            owner_id="a1",
        )

        returned = await store.schedules.create_schedule(given)

        found = await store.schedules.get_schedule("s1")
        assert found is not None
        assert given.model_dump() == returned.model_dump() == found.model_dump()
        assert await store.schedules.get_schedule("nowhere") is None

    async def test_an_existing_id_is_never_overwritten(self, store: Storage) -> None:
        """The loser of a creation race gets a conflict and reads the winner's row."""
        await store.schedules.create_schedule(schedule(cron="1 * * * *"))

        with pytest.raises(StorageConflictError):
            await store.schedules.create_schedule(schedule(cron="2 * * * *"))

        found = await store.schedules.get_schedule("s1")
        assert found is not None
        assert found.cron == "1 * * * *"

    @pytest.mark.parametrize("members", [{"id": ""}, {"cron": ""}, {"status": ""}, {"extra": 1}])
    async def test_a_bad_timer_is_refused(self, store: Storage, members: dict[str, Any]) -> None:
        """An empty id, cron or status, a column that nobody stores."""
        given = schedule().model_copy(update=members) if "id" in members else schedule(**members)

        with pytest.raises(StorageArgumentError):
            await store.schedules.create_schedule(given)

        assert await store.schedules.list_schedules() == []

    async def test_timers_are_listed_by_creation_and_filtered(self, store: Storage) -> None:
        """By status, owner and the workflow of the target."""
        rows: list[dict[str, Any]] = [
            {"created_at": 2},
            {"created_at": 1, "status": "paused"},
            {"created_at": 1, "owner_type": "agent", "owner_id": "a1"},
            {"created_at": 3, "target": {"type": "workflow", "workflowId": "w2"}},
        ]
        for number, members in enumerate(rows):
            await store.schedules.create_schedule(schedule(f"s{number}", **members))

        async def listed(**filters: Any) -> list[str]:
            return [row.id for row in await store.schedules.list_schedules(**filters)]

        assert ["s1", "s2", "s0", "s3"] == await listed()
        assert ["s1"] == await listed(status="paused")
        assert ["s2"] == await listed(owner_type="agent", owner_id="a1")
        assert ["s3"] == await listed(workflow_id="w2")
        assert ["s2", "s0"] == await listed(status="active", workflow_id="w1")

    async def test_active_timers_are_due_from_their_time_on(self, store: Storage) -> None:
        """Earliest first, then id, at most so many; paused ones never."""
        for name, at_ms in (("b", 5), ("a", 5), ("c", 3), ("late", 11), ("paused", 1)):
            status = "paused" if name == "paused" else "active"
            await store.schedules.create_schedule(schedule(name, next_fire_at=at_ms, status=status))

        async def due(now_ms: int, **options: Any) -> list[str]:
            return [row.id for row in await store.schedules.list_due_schedules(now_ms, **options)]

        assert ["c", "a", "b"] == await due(10)
        assert ["c", "a"] == await due(10, limit=2)
        assert (["c"], []) == (await due(3), await due(2))

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_limit_below_one_is_refused(self, store: Storage, limit: int) -> None:
        """For what is due and for the history."""
        with pytest.raises(StorageArgumentError):
            await store.schedules.list_due_schedules(1, limit=limit)
        with pytest.raises(StorageArgumentError):
            await store.schedules.list_triggers("s1", limit=limit)

    async def test_updating_writes_the_named_columns(self, store: Storage) -> None:
        """And the update time; the rest stays; None clears."""
        await store.schedules.create_schedule(schedule(timezone="UTC", metadata={"a": 1}))

        returned = await store.schedules.update_schedule(
            "s1", {"cron": "5 * * * *", "next_fire_at": 77, "status": "paused", "timezone": None}
        )

        found = await store.schedules.get_schedule("s1")
        assert found is not None
        assert returned.model_dump() == found.model_dump()
        assert ("5 * * * *", 77, "paused", None, {"a": 1}, 10) == (
            found.cron,
            found.next_fire_at,
            found.status,
            found.timezone,
            found.metadata,
            found.created_at,
        )
        assert found.updated_at > 10
        assert await store.schedules.list_due_schedules(10_000) == []

    async def test_updating_an_unknown_timer_raises(self, store: Storage) -> None:
        """An update never creates one."""
        with pytest.raises(ScheduleNotFoundError):
            await store.schedules.update_schedule("nowhere", {"cron": "5 * * * *"})

        assert await store.schedules.list_schedules() == []

    @pytest.mark.parametrize("patch", [{"id": "x"}, {"created_at": 1}, {"nonsense": 1}])
    async def test_a_bad_patch_is_refused(self, store: Storage, patch: dict[str, Any]) -> None:
        """Fixed and unknown columns."""
        await store.schedules.create_schedule(schedule())

        with pytest.raises(StorageArgumentError):
            await store.schedules.update_schedule("s1", {"cron": "9 * * * *", **patch})

        found = await store.schedules.get_schedule("s1")
        assert found is not None
        assert found.cron == "*/1 * * * *"

    @kept_values()
    async def test_values_are_kept(self, store: Storage, value: object) -> None:
        """Targets and metadata come back equal."""
        await store.schedules.create_schedule(schedule(target={"v": value}, metadata={"v": value}))

        found = await store.schedules.get_schedule("s1")

        assert found is not None
        assert ({"v": value}, {"v": value}) == (found.target, found.metadata)

    @refused_values()
    async def test_values_without_json_form_are_refused(
        self, store: Storage, make: Callable[[], Any]
    ) -> None:
        """Neither a new timer nor a change nor a history row writes a half."""
        await store.schedules.create_schedule(schedule())

        with pytest.raises(WireEncodeError):
            await store.schedules.create_schedule(schedule("bad", target={"bad": make()}))
        with pytest.raises(WireEncodeError):
            await store.schedules.update_schedule(
                "s1", {"cron": "9 * * * *", "metadata": {"bad": make()}}
            )
        with pytest.raises(WireEncodeError):
            await store.schedules.record_trigger(trigger(metadata={"bad": make()}))

        assert ["*/1 * * * *"] == [row.cron for row in await store.schedules.list_schedules()]
        assert [] == await history(store)

    # -- claiming a fire ------------------------------------------------------------------------

    @requires("schedules.claim_fire")
    async def test_a_fire_is_claimed_once(self, store: Storage) -> None:
        """Only from the expected time, only while active; the run is noted."""
        await store.schedules.create_schedule(schedule(next_fire_at=1_000))

        async def move(expected: int, new: int) -> bool:
            return await store.schedules.update_schedule_next_fire(
                "s1",
                expected_next_fire_at=expected,
                new_next_fire_at=new,
                last_fire_at=expected,
                last_run_id=f"sched_s1_{expected}",
            )

        first, again, next_one = await move(1_000, 2_000), await move(1_000, 2_000), False
        found = await store.schedules.get_schedule("s1")
        await store.schedules.update_schedule("s1", {"status": "paused"})
        next_one = await move(2_000, 3_000)

        assert (True, False, False) == (first, again, next_one)
        assert found is not None
        assert (2_000, 1_000, "sched_s1_1000") == (
            found.next_fire_at,
            found.last_fire_at,
            found.last_run_id,
        )
        assert found.updated_at > 10

    @requires("schedules.claim_fire")
    async def test_a_fire_of_an_unknown_timer_is_lost(self, store: Storage) -> None:
        """An answer, not an error."""
        moved = await store.schedules.update_schedule_next_fire(
            "nowhere", expected_next_fire_at=1, new_next_fire_at=2, last_fire_at=1
        )

        assert not moved

    @tier(2)
    @requires("schedules.claim_fire")
    async def test_of_many_schedulers_one_claims_the_fire(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Compare-and-set of the next fire time, also between handles."""
        await store.schedules.create_schedule(schedule(next_fire_at=1_000))

        async with open_store() as other:
            results = await at_once(
                [
                    handle.schedules.update_schedule_next_fire(
                        "s1",
                        expected_next_fire_at=1_000,
                        new_next_fire_at=2_000,
                        last_fire_at=1_000,
                        last_run_id=f"{name}{number}",
                    )
                    for number in range(10)
                    for name, handle in (("a", store), ("b", other))
                ]
            )

        assert [True] + [False] * 19 == sorted(results, reverse=True)

    # -- history --------------------------------------------------------------------------------

    async def test_history_comes_newest_first_within_inclusive_bounds(self, store: Storage) -> None:
        """By actual fire time, then id; of one timer only."""
        for name, at_ms in (("f1", 10), ("f3", 20), ("f2", 20), ("f4", 30)):
            await store.schedules.record_trigger(trigger(name, actual_fire_at=at_ms))
        await store.schedules.record_trigger(trigger("other", schedule_id="s2"))

        assert ["f4", "f2", "f3", "f1"] == await history(store)
        assert ["f2", "f3"] == await history(store, from_ms=20, to_ms=20)
        assert ["f4", "f2"] == await history(store, limit=2)
        assert ["f1"] == await history(store, to_ms=19)

    async def test_a_history_row_is_stored_whole_and_once(self, store: Storage) -> None:
        """The same id again changes nothing."""
        given = trigger(
            outcome="failed",
            error="boom",
            trigger_kind="manual",
            parent_trigger_id="f0",
            metadata={"a": [1]},
        )

        await store.schedules.record_trigger(given)
        await store.schedules.record_trigger(given)

        rows = await store.schedules.list_triggers("s1")
        assert [given.model_dump()] == [row.model_dump() for row in rows]

    async def test_deleting_a_timer_deletes_its_history(self, store: Storage) -> None:
        """Both go together; deleting again says that there was none."""
        for name in ("s1", "s2"):
            await store.schedules.create_schedule(schedule(name))
            await store.schedules.record_trigger(trigger(f"f-{name}", schedule_id=name))

        first = await store.schedules.delete_schedule("s1")
        again = await store.schedules.delete_schedule("s1")

        assert (True, False) == (first, again)
        assert ([], ["f-s2"]) == (await history(store, "s1"), await history(store, "s2"))
        assert ["s2"] == [row.id for row in await store.schedules.list_schedules()]

    async def test_what_callers_change_afterwards_changes_nothing_stored(
        self, store: Storage
    ) -> None:
        """Nothing is shared with the store."""
        target: dict[str, Any] = {"type": "workflow", "workflowId": "w1", "list": [1]}
        returned = await store.schedules.create_schedule(schedule(target=target))
        target["list"].append(2)
        returned.target["list"].append(3)

        found = await store.schedules.get_schedule("s1")

        assert found is not None
        assert found.target["list"] == [1]
