"""Background task records (streaming.md 8.1, 8.10)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mastra_conformance.clock import ShiftedClock
from mastra_conformance.fixtures import OpenStore
from mastra_conformance.suite import Suite, requires, tier
from mastra_conformance.suites.storage.crowds import at_once
from mastra_conformance.suites.storage.things import T0, at, background_task
from mastra_conformance.suites.storage.values import kept_values, refused_values
from mastra_core.contracts.storage import PrunePolicy, Storage, TaskFilter
from mastra_core.errors import StorageArgumentError, StorageConflictError, WireEncodeError

__all__ = (
    "BackgroundTaskSuite",
    "listed",
)


async def listed(store: Storage, **members: Any) -> list[str]:
    """Ids of the tasks that a filter finds, in their order."""
    page = await store.background_tasks.list_tasks(TaskFilter(**members))
    return [task.id for task in page.tasks]


class BackgroundTaskSuite(Suite):
    """What a store does with background tasks."""

    capabilities = ("background_tasks",)

    async def test_a_created_task_reads_back_equal(self, store: Storage) -> None:
        """Every member, also those that come later in its life."""
        given = background_task(
            status="suspended",
            result={"r": [1, None]},
            error={"message": "boom", "stack": "s"},
            suspend_payload={"ask": 1},
            retry_count=1,
            max_retries=3,
            timeout_ms=5_000,
            started_at=at(1),
            suspended_at=at(2),
            completed_at=at(3),
        )

        returned = await store.background_tasks.create_task(given)

        found = await store.background_tasks.get_task("task1")
        assert found is not None
        assert given.to_wire() == returned.to_wire() == found.to_wire()

    async def test_defaults_are_read_back(self, store: Storage) -> None:
        """A task with the required members only."""
        await store.background_tasks.create_task(background_task(thread_id=None, resource_id=None))

        found = await store.background_tasks.get_task("task1")

        assert found is not None
        assert (0, 0, 300_000, None, None, None) == (
            found.retry_count,
            found.max_retries,
            found.timeout_ms,
            found.thread_id,
            found.result,
            found.error,
        )

    async def test_an_existing_id_is_never_overwritten(self, store: Storage) -> None:
        """Creating again is a conflict."""
        await store.background_tasks.create_task(background_task())

        with pytest.raises(StorageConflictError):
            await store.background_tasks.create_task(background_task(tool_name="other"))

        found = await store.background_tasks.get_task("task1")
        assert found is not None
        assert found.tool_name == "crawl"

    async def test_unknown_ids_are_answers(self, store: Storage) -> None:
        """None or False, never an error."""
        assert await store.background_tasks.get_task("nowhere") is None
        assert not await store.background_tasks.update_task("nowhere", {"status": "running"})
        assert not await store.background_tasks.delete_task("nowhere")

    @pytest.mark.parametrize(
        "members", [{"status": "waiting"}, {"tool_name": ""}, {"agent_id": ""}, {"future": 1}]
    )
    async def test_a_bad_task_is_refused(self, store: Storage, members: dict[str, Any]) -> None:
        """An unknown status, an empty name, a member that nobody stores."""
        with pytest.raises(StorageArgumentError):
            await store.background_tasks.create_task(background_task(**members))

        assert [] == await listed(store)

    async def test_updating_writes_the_named_members_only(self, store: Storage) -> None:
        """None clears, absent leaves."""
        await store.background_tasks.create_task(background_task(result={"old": 1}))

        changed = await store.background_tasks.update_task(
            "task1",
            {"status": "running", "started_at": at(5), "retry_count": 2, "result": None},
        )

        found = await store.background_tasks.get_task("task1")
        assert changed
        assert found is not None
        assert ("running", at(5), 2, None) == (
            found.status,
            found.started_at,
            found.retry_count,
            found.result,
        )
        assert ({"url": "https://example.com"}, T0) == (found.args, found.created_at)

    async def test_a_change_is_made_from_the_expected_status_only(self, store: Storage) -> None:
        """One status, or one of several; otherwise nothing is written."""
        await store.background_tasks.create_task(background_task())

        async def change(expected: Any, status: str) -> bool:
            return await store.background_tasks.update_task(
                "task1", {"status": status}, expected_status=expected
            )

        assert not await change("running", "completed")
        assert not await change([], "completed")
        assert await change(["pending", "suspended"], "running")
        assert await change("running", "completed")
        found = await store.background_tasks.get_task("task1")
        assert found is not None
        assert found.status == "completed"

    @pytest.mark.parametrize(
        "patch", [{"id": "x"}, {"created_at": T0}, {"nonsense": 1}, {"status": "waiting"}]
    )
    async def test_a_bad_patch_is_refused(self, store: Storage, patch: dict[str, Any]) -> None:
        """Fixed members, unknown members, unknown statuses."""
        await store.background_tasks.create_task(background_task())

        with pytest.raises(StorageArgumentError):
            await store.background_tasks.update_task("task1", {"retry_count": 9, **patch})

        found = await store.background_tasks.get_task("task1")
        assert found is not None
        assert found.retry_count == 0

    async def test_what_callers_change_afterwards_changes_nothing_stored(
        self, store: Storage
    ) -> None:
        """Nothing is shared with the store."""
        args = {"list": [1]}
        returned = await store.background_tasks.create_task(background_task(args=args))
        result = {"list": [1]}
        await store.background_tasks.update_task("task1", {"result": result})
        args["list"].append(2)
        returned.args["list"].append(3)
        result["list"].append(4)

        found = await store.background_tasks.get_task("task1")

        assert found is not None
        assert ({"list": [1]}, {"list": [1]}) == (found.args, found.result)

    @kept_values()
    async def test_values_are_kept(self, store: Storage, value: object) -> None:
        """Arguments, results and payloads come back equal."""
        await store.background_tasks.create_task(background_task(args={"v": value}))
        await store.background_tasks.update_task(
            "task1", {"result": value, "suspend_payload": [value]}
        )

        found = await store.background_tasks.get_task("task1")

        assert found is not None
        assert ({"v": value}, value, [value]) == (found.args, found.result, found.suspend_payload)

    @refused_values()
    async def test_values_without_json_form_are_refused(
        self, store: Storage, make: Callable[[], Any]
    ) -> None:
        """Neither a new task nor a change writes a half."""
        await store.background_tasks.create_task(background_task())

        with pytest.raises(WireEncodeError):
            await store.background_tasks.create_task(background_task("bad", args=[make()]))
        with pytest.raises(WireEncodeError):
            await store.background_tasks.update_task(
                "task1", {"status": "completed", "result": {"bad": make()}}
            )

        assert ["task1"] == await listed(store, status="pending")
        assert ["task1"] == await listed(store)

    # -- lists ----------------------------------------------------------------------------------

    async def test_filters_are_an_intersection(self, store: Storage) -> None:
        """Status list, agent, thread, resource, tool, call and run."""
        rows: list[dict[str, Any]] = [
            {},
            {"status": "running"},
            {"agent_id": "agent-b"},
            {"thread_id": "t2"},
            {"resource_id": "r2"},
            {"tool_name": "other"},
            {"run_id": "run2"},
            {"status": "failed"},
        ]
        for number, members in enumerate(rows):
            task = background_task(f"task{number}", created_at=at(number), **members)
            await store.background_tasks.create_task(task)

        found = await listed(
            store,
            status=["pending", "running"],
            agent_id="agent-a",
            thread_id="t1",
            resource_id="r1",
            tool_name="crawl",
            run_id="run1",
        )

        assert ["task0", "task1"] == found
        assert ["task3"] == await listed(store, tool_call_id="call-task3")
        assert ["task7"] == await listed(store, status="failed")
        assert [] == await listed(store, status=[])

    async def test_date_bounds_include_the_start_and_exclude_the_end(self, store: Storage) -> None:
        """On the chosen time; a task without it is outside of any bounds."""
        for number in range(3):
            task = background_task(f"task{number}", created_at=at(number))
            await store.background_tasks.create_task(task)
        await store.background_tasks.update_task("task1", {"completed_at": at(50)})

        assert ["task1"] == await listed(store, from_date=at(1), to_date=at(2))
        assert ["task1"] == await listed(
            store, date_filter_by="completedAt", from_date=at(50), to_date=at(51)
        )
        assert [] == await listed(store, date_filter_by="startedAt", from_date=at(0))

    async def test_tasks_are_ordered_by_the_chosen_time_and_id(self, store: Storage) -> None:
        """Ascending by default; ties by id, in the same direction."""
        for name, created, completed in (("b", 1, 9), ("a", 1, 7), ("c", 0, 8)):
            await store.background_tasks.create_task(
                background_task(name, created_at=at(created), completed_at=at(completed))
            )

        assert ["c", "a", "b"] == await listed(store)
        assert ["b", "a", "c"] == await listed(store, order_direction="desc")
        assert ["a", "c", "b"] == await listed(store, order_by="completedAt")

    async def test_pages_need_both_numbers(self, store: Storage) -> None:
        """The total is the count before paging."""
        for number in range(5):
            await store.background_tasks.create_task(background_task(f"task{number}"))

        pages = [
            await store.background_tasks.list_tasks(TaskFilter(page=number, per_page=2))
            for number in range(4)
        ]
        everything = await store.background_tasks.list_tasks(TaskFilter(per_page=2))

        assert [["task0", "task1"], ["task2", "task3"], ["task4"], []] == [
            [task.id for task in page.tasks] for page in pages
        ]
        assert {5} == {page.total for page in (*pages, everything)}
        assert len(everything.tasks) == 5

    @pytest.mark.parametrize(
        "members",
        [
            {"page": -1, "per_page": 1},
            {"page": 0, "per_page": -1},
            {"page": 0, "per_page": 1.5},
            {"order_by": "status"},
            {"order_direction": "up"},
            {"date_filter_by": "args"},
            {"from_date": T0.replace(tzinfo=None)},
        ],
    )
    async def test_a_bad_filter_is_refused(self, store: Storage, members: dict[str, Any]) -> None:
        """Bad pages, orders outside the allow list, times without a zone."""
        with pytest.raises(StorageArgumentError):
            await listed(store, **members)

    async def test_running_tasks_are_counted(self, store: Storage) -> None:
        """All of them, or those of one agent."""
        for number, (status, agent) in enumerate(
            (("running", "a"), ("running", "b"), ("pending", "a"), ("completed", "a"))
        ):
            await store.background_tasks.create_task(
                background_task(f"task{number}", status=status, agent_id=agent)
            )

        async def counts() -> tuple[int, ...]:
            return (
                await store.background_tasks.get_running_count(),
                await store.background_tasks.get_running_count_by_agent("a"),
                await store.background_tasks.get_running_count_by_agent("nobody"),
            )

        assert (2, 1, 0) == await counts()
        await store.background_tasks.update_task("task0", {"status": "completed"})
        assert (1, 0, 0) == await counts()

    # -- deleting -------------------------------------------------------------------------------

    async def test_deleting_takes_what_matches(self, store: Storage) -> None:
        """One by id, several by filter; an empty filter does nothing."""
        for number in range(4):
            await store.background_tasks.create_task(
                background_task(f"task{number}", thread_id="t1" if number < 3 else "t2")
            )

        assert await store.background_tasks.delete_task("task0")
        assert await store.background_tasks.delete_tasks(TaskFilter()) == 0
        assert await store.background_tasks.delete_tasks(TaskFilter(thread_id="t1")) == 2
        assert ["task3"] == await listed(store)

    @requires("storage.retention")
    async def test_pruning_takes_old_terminal_tasks(
        self, store: Storage, clock: ShiftedClock
    ) -> None:
        """By completion, strictly older; whatever still runs stays."""
        fresh = clock.now() - timedelta(minutes=5)
        rows: list[tuple[str, str, Any]] = [
            ("old", "completed", at(1)),
            ("cancelled", "cancelled", at(1)),
            ("fresh", "completed", fresh),
            ("running", "running", None),
            ("suspended", "suspended", at(1)),
        ]
        for name, status, completed in rows:
            await store.background_tasks.create_task(
                background_task(name, status=status, completed_at=completed)
            )

        results = await store.background_tasks.prune(
            [PrunePolicy(table="backgroundTasks", max_age_ms=3_600_000)]
        )

        assert [(2, True)] == [(result.deleted, result.done) for result in results]
        assert ["fresh", "running", "suspended"] == await listed(store)

    # -- races ----------------------------------------------------------------------------------

    @tier(2)
    async def test_of_many_starters_one_wins(self, store: Storage, open_store: OpenStore) -> None:
        """A compare-and-set in one statement (field report R125)."""
        await store.background_tasks.create_task(background_task())

        async with open_store() as other:
            results = await at_once(
                [
                    handle.background_tasks.update_task(
                        "task1", {"status": "running"}, expected_status="pending"
                    )
                    for _ in range(10)
                    for handle in (store, other)
                ]
            )

        assert [True] + [False] * 19 == sorted(results, reverse=True)
