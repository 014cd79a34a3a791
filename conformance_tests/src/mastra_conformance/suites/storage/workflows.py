"""Snapshots of runs: whole documents, partial updates, lists (snapshots.md 2-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.fixtures import OpenStore
from mastra_conformance.opening import Opener
from mastra_conformance.processes import Processes
from mastra_conformance.subject import Subject
from mastra_conformance.suite import Suite, requires
from mastra_conformance.suites.storage.crowds import at_once, in_crowd
from mastra_conformance.suites.storage.things import (
    T0,
    approval_run,
    at,
    durable_run,
    resume_claim,
    snapshot,
)
from mastra_conformance.suites.storage.values import ODD_TEXTS, kept_values, refused_values
from mastra_core.contracts.storage import PruneOptions, PrunePolicy, Storage
from mastra_core.errors import (
    FencedOutError,
    StorageArgumentError,
    StorageConflictError,
    WireEncodeError,
)

__all__ = (
    "PENDING_MARKER",
    "SnapshotCrowdSuite",
    "SnapshotSuite",
    "W",
    "as_javascript_sees",
    "listed",
    "load",
    "persist",
    "set_state",
    "times",
    "update",
    "update_steps",
)

W = "my-workflow"
PENDING_MARKER = {"__mastra_pending__": True}


async def persist(
    store: Storage,
    run_id: str = "run1",
    document: Mapping[str, Any] | None = None,
    *,
    workflow_name: str = W,
    **options: Any,
) -> None:
    """Store a document; a plain one unless one is given."""
    await store.workflows.persist_workflow_snapshot(
        workflow_name=workflow_name,
        run_id=run_id,
        snapshot=snapshot(run_id) if document is None else document,
        **options,
    )


async def load(store: Storage, run_id: str = "run1", workflow_name: str = W) -> dict[str, Any]:
    """The document as it is read now."""
    found = await store.workflows.load_workflow_snapshot(workflow_name=workflow_name, run_id=run_id)
    assert found is not None
    return found


async def update(store: Storage, step_id: str, result: Mapping[str, Any], **options: Any) -> Any:
    """Merge one step result into ``run1``."""
    return await store.workflows.update_workflow_results(
        workflow_name=W, run_id="run1", step_id=step_id, result=result, **options
    )


async def set_state(store: Storage, status: str, **options: Any) -> Any:
    """Change the status of ``run1``."""
    opts = {"status": status, **options.pop("opts", {})}
    return await store.workflows.update_workflow_state(
        workflow_name=W, run_id="run1", opts=opts, **options
    )


async def times(store: Storage, run_id: str = "run1") -> tuple[datetime, datetime]:
    """When the row was created and last written."""
    row = await store.workflows.load_workflow_run(workflow_name=W, run_id=run_id)
    assert row is not None
    return row.created_at, row.updated_at


async def listed(store: Storage, **filters: Any) -> list[str]:
    """Run ids of a list, in its order."""
    page = await store.workflows.list_workflow_runs(**filters)
    return [row.run_id for row in page.runs]


class SnapshotSuite(Suite):
    """What a store does with snapshots."""

    capabilities = ("workflows",)

    # -- whole documents ------------------------------------------------------------------------

    @case("snapshots", 1)
    async def test_an_empty_store_lists_nothing(self, store: Storage) -> None:
        """No runs, no total."""
        page = await store.workflows.list_workflow_runs()

        assert ([], 0) == (page.runs, page.total)

    @case("snapshots", 2)
    async def test_a_document_reads_back_equal(self, store: Storage) -> None:
        """Including unknown members, odd statuses and nested nulls; storage validates nothing."""
        document = snapshot(
            status="completed",
            activePaths=[{"odd": True}],
            futureMember={"a": [None, {"b": None}], "n": 0.25},
            result=None,
        )

        await persist(store, document=document)

        assert document == await load(store)
        row = await store.workflows.load_workflow_run(workflow_name=W, run_id="run1")
        assert row is not None
        assert document == row.snapshot

    @case("snapshots", 3)
    async def test_an_absent_row_is_none(self, store: Storage) -> None:
        """Loading and getting give None, deleting is no error."""
        assert await store.workflows.load_workflow_snapshot(workflow_name=W, run_id="x") is None
        assert await store.workflows.load_workflow_run(workflow_name=W, run_id="x") is None
        assert await store.workflows.get_workflow_run_by_id(run_id="x") is None
        await store.workflows.delete_workflow_run_by_id(run_id="x", workflow_name=W)

    @case("snapshots", 4)
    async def test_persisting_again_keeps_the_creation_time(self, store: Storage) -> None:
        """``created_at`` is unchanged, whatever is passed; ``updated_at`` is larger."""
        await persist(store, created_at=at(1), updated_at=at(1))
        first = await times(store)

        await persist(store, document=snapshot(n=1))
        second = await times(store)
        await persist(store, document=snapshot(n=2), created_at=at(500))
        third = await times(store)

        assert (at(1), at(1)) == first
        assert {at(1)} == {first[0], second[0], third[0]}
        assert first[1] < second[1] < third[1]

    async def test_the_update_time_never_goes_back(self, store: Storage) -> None:
        """A writer with an older clock still moves it on (G14)."""
        future = datetime.now(UTC) + timedelta(days=1)
        await persist(store, updated_at=future)

        await persist(store)
        await update(store, "step", {"status": "success"})

        assert (await times(store))[1] > future

    @case("snapshots", 5)
    async def test_a_resource_survives_a_persist_without_one(self, store: Storage) -> None:
        """Once set it stays until another one is given."""
        await persist(store, resource_id="r1")
        await persist(store, document=snapshot(n=1))
        row = await store.workflows.load_workflow_run(workflow_name=W, run_id="run1")
        assert row is not None
        assert row.resource_id == "r1"

        await persist(store, resource_id="r2")

        row = await store.workflows.load_workflow_run(workflow_name=W, run_id="run1")
        assert row is not None
        assert row.resource_id == "r2"

    @case("snapshots", 6)
    async def test_a_row_with_a_resource_is_one_row_for_every_call(self, store: Storage) -> None:
        """Load, update and delete by (name, run) hit it; afterwards the list is empty."""
        await persist(store, resource_id="r1", created_at=at(1))

        await update(store, "step", {"status": "success", "output": 1})
        await persist(store, document={**await load(store), "n": 1}, resource_id="r1")

        assert (await load(store))["context"]["step"]["output"] == 1
        assert ["run1"] == await listed(store)
        assert (await times(store))[0] == at(1)
        await store.workflows.delete_workflow_run_by_id(run_id="run1", workflow_name=W)
        assert [] == await listed(store)
        assert [] == await listed(store, resource_id="r1")

    @pytest.mark.parametrize("key", [("", "run1"), (W, "")])
    async def test_an_empty_key_is_refused(self, store: Storage, key: tuple[str, str]) -> None:
        """A row needs a name and a run."""
        with pytest.raises(StorageArgumentError):
            await persist(store, key[1], workflow_name=key[0])

    @case("snapshots", 36)
    async def test_what_callers_change_afterwards_changes_nothing_stored(
        self, store: Storage
    ) -> None:
        """Neither a document that was persisted nor one that was read is shared."""
        document = snapshot()
        await persist(store, document=document)
        document["context"]["smuggled"] = 1
        (await load(store))["context"]["smuggled"] = 2
        result: dict[str, Any] = {"status": "success", "output": {"l": [1]}}
        context = await update(store, "step", result)
        result["output"]["l"].append(2)
        context["step"]["output"]["l"].append(3)
        opts = {"result": {"l": [1]}}
        after = await set_state(store, "success", opts=opts)
        opts["result"]["l"].append(2)
        after["result"]["l"].append(3)

        found = await load(store)

        assert "smuggled" not in found["context"]
        assert found["context"]["step"]["output"] == {"l": [1]}
        assert found["result"] == {"l": [1]}

    async def test_several_documents_are_persisted_together(self, store: Storage) -> None:
        """All of them or none: the outer and the inner row of one run."""
        pair: list[dict[str, Any]] = [
            {"workflow_name": "outer", "run_id": "r", "snapshot": snapshot("r"),
             "resource_id": "r1"},
            {"workflow_name": "inner", "run_id": "r", "snapshot": snapshot("r", n=1)},
        ]  # fmt: skip

        await store.workflows.persist_workflow_snapshots(pair)

        assert (await load(store, "r", "inner"))["n"] == 1
        assert ["r"] == await listed(store, resource_id="r1")

    async def test_several_documents_are_persisted_all_or_none(self, store: Storage) -> None:
        """A second document that can't be stored keeps the first one out."""
        pair: list[dict[str, Any]] = [
            {"workflow_name": "outer", "run_id": "r", "snapshot": snapshot("r")},
            {"workflow_name": "inner", "run_id": "r", "snapshot": snapshot(bad=float("nan"))},
        ]

        with pytest.raises(WireEncodeError):
            await store.workflows.persist_workflow_snapshots(pair)

        assert [] == await listed(store)

    async def test_the_rows_of_one_run_are_deleted_together(self, store: Storage) -> None:
        """Exactly the named ones; absent ones are no error."""
        for name in ("outer", "inner", "other"):
            await persist(store, workflow_name=name)

        await store.workflows.delete_workflow_runs(
            run_id="run1", workflow_names=["outer", "inner", "absent"]
        )

        row = await store.workflows.get_workflow_run_by_id(run_id="run1")
        assert row is not None
        assert row.workflow_name == "other"

    @case("snapshots", 89)
    async def test_a_write_with_a_stale_version_changes_nothing(self, store: Storage) -> None:
        """An optimistic write needs the state that it is based on (G8)."""
        await persist(store)
        row = await store.workflows.load_workflow_run(
            workflow_name=W, run_id="run1", with_version=True
        )
        assert row is not None
        assert row.version
        await update(store, "step", {"status": "success"})
        before = (await load(store), await times(store))

        with pytest.raises(StorageConflictError) as caught:
            await persist(store, document=snapshot(n=1), expected_version=row.version)

        assert caught.value.id == "STORAGE_VERSION_CONFLICT"
        assert before == (await load(store), await times(store))
        fresh = await store.workflows.load_workflow_run(
            workflow_name=W, run_id="run1", with_version=True
        )
        assert fresh is not None
        await persist(store, document=snapshot(n=2), expected_version=fresh.version)
        assert (await load(store))["n"] == 2

    async def test_an_expected_version_of_a_missing_row_is_a_conflict(self, store: Storage) -> None:
        """What was read is gone."""
        with pytest.raises(StorageConflictError):
            await persist(store, expected_version="1")

        assert [] == await listed(store)

    # -- partial updates ------------------------------------------------------------------------

    @case("snapshots", 20)
    async def test_a_step_result_of_a_missing_row_creates_it(self, store: Storage) -> None:
        """A pending row with that step; the context is returned."""
        context = await update(
            store, "a", {"status": "success", "output": 1}, request_context={"k": "v"}
        )

        document = await load(store)
        assert context == document["context"] == {"a": {"status": "success", "output": 1}}
        assert ("pending", "run1", {"k": "v"}) == (
            document["status"],
            document["runId"],
            document["requestContext"],
        )
        empties = ("activePaths", "activeStepsPath", "suspendedPaths", "resumeLabels",
                   "serializedStepGraph", "value", "waitingPaths")  # fmt: skip
        assert [[], {}, {}, {}, [], {}, {}] == [document[name] for name in empties]
        assert isinstance(document["timestamp"], int)

    @case("snapshots", 23)
    async def test_outputs_of_iterations_are_composed(self, store: Storage) -> None:
        """Each index that an update brings is filled, the others stay."""
        await update(store, "each", {"status": "running", "output": [1, None, None]})

        await update(store, "each", {"status": "running", "output": [None, 2, None]})
        await update(store, "each", {"status": "running", "output": [None, None, 3]})

        assert (await load(store))["context"]["each"]["output"] == [1, 2, 3]

    @case("snapshots", 24)
    async def test_a_pending_marker_clears_a_suspended_iteration(self, store: Storage) -> None:
        """Only that one; members of the step stay as they were."""
        parked = {"status": "suspended", "suspendPayload": {"q": 1}, "suspendedAt": 5}
        await update(store, "each", {"status": "suspended", "output": [10, parked, 30], "n": 1})

        await update(
            store, "each", {"status": "running", "output": [None, PENDING_MARKER, 99], "n": 2}
        )

        step = (await load(store))["context"]["each"]
        assert ([10, None, 30], "suspended", 1) == (step["output"], step["status"], step["n"])

    @case("snapshots", 25)
    async def test_a_pending_marker_keeps_a_finished_iteration(self, store: Storage) -> None:
        """A value that is there is never forgotten."""
        await update(store, "each", {"status": "running", "output": [10, 20]})

        await update(store, "each", {"status": "running", "output": [PENDING_MARKER]})

        assert (await load(store))["context"]["each"]["output"] == [10, 20]

    async def test_a_shorter_list_never_shrinks_a_longer_one(self, store: Storage) -> None:
        """And a longer one grows it, its markers as nulls."""
        await update(store, "each", {"output": [1, 2, 3], "status": "running"})
        await update(store, "each", {"output": [9], "status": "running"})
        assert (await load(store))["context"]["each"]["output"] == [9, 2, 3]

        await update(store, "each", {"output": [None, None, None, PENDING_MARKER, 5]})

        assert (await load(store))["context"]["each"]["output"] == [9, 2, 3, None, None]

    @case("snapshots", 26)
    async def test_any_other_result_replaces_the_old_one(self, store: Storage) -> None:
        """No member of the old result is left."""
        await update(store, "a", {"status": "suspended", "suspendPayload": {"q": 1}})

        await update(store, "a", {"status": "success", "output": {"x": 1}})

        assert (await load(store))["context"]["a"] == {"status": "success", "output": {"x": 1}}

    @case("snapshots", 27)
    async def test_request_contexts_merge_per_key(self, store: Storage) -> None:
        """The newer value wins, the others stay."""
        await persist(store, document=snapshot(requestContext={"a": 1, "b": 1}))

        await update(store, "s", {"status": "success"}, request_context={"b": 2, "c": 3})
        await update(store, "s", {"status": "success"})

        assert (await load(store))["requestContext"] == {"a": 1, "b": 2, "c": 3}

    async def test_members_of_a_request_context_that_cannot_be_stored_are_left_out(
        self, store: Storage
    ) -> None:
        """They never keep a run from being stored (G13)."""
        loop: list[Any] = []
        loop.append(loop)
        context = {"keep": 1, "call": len, "loop": loop}

        await persist(store, document=snapshot(requestContext=context))
        await update(store, "s", {"status": "success"}, request_context={"f": object(), "b": 2})

        assert (await load(store))["requestContext"] == {"keep": 1, "b": 2}

    async def test_a_step_result_moves_the_update_time(self, store: Storage) -> None:
        """And leaves everything else of the row alone."""
        await persist(store, resource_id="r1", created_at=T0, updated_at=T0)

        await update(store, "a", {"status": "success"})

        created, updated = await times(store)
        assert created == T0
        assert updated > T0
        assert ["run1"] == await listed(store, resource_id="r1")

    @case("snapshots", 29)
    async def test_a_failed_guard_changes_nothing(self, store: Storage) -> None:
        """Not even the update time; the guard itself is never stored."""
        await persist(store, document=snapshot(status="running"))
        before = (await load(store), await times(store))

        refused = await set_state(store, "success", expected_status="suspended")
        assert refused is None
        assert before == (await load(store), await times(store))

        applied = await set_state(
            store,
            "success",
            expected_status="running",
            opts={"expectedStatus": "running", "expected_status": "running"},
        )
        assert applied is not None
        for document in (applied, await load(store)):
            assert document["status"] == "success"
            assert {"expectedStatus", "expected_status"}.isdisjoint(document)

    @case("snapshots", 30)
    async def test_a_guard_may_be_a_list(self, store: Storage) -> None:
        """Any of its statuses will do; none of an empty one."""
        await persist(store, document=snapshot(status="paused"))

        refused = await set_state(store, "canceled", expected_status=[])
        applied = await set_state(store, "canceled", expected_status=["suspended", "paused"])

        assert refused is None
        assert applied is not None
        assert applied["status"] == "canceled"

    @case("snapshots", 31)
    async def test_a_state_of_a_missing_row_is_none(self, store: Storage) -> None:
        """And creates no row."""
        assert await set_state(store, "running") is None
        assert [] == await listed(store)

    @case("snapshots", 32)
    async def test_a_state_update_merges_the_top_level_and_moves_the_time(
        self, store: Storage
    ) -> None:
        """Members that aren't named stay."""
        await persist(store, document=snapshot(result={"old": 1}, keep=1), updated_at=T0)

        document = await set_state(
            store, "failed", opts={"result": {"new": 2}, "error": {"message": "boom", "name": "E"}}
        )

        assert document == await load(store)
        assert ("failed", {"new": 2}, 1) == (
            document["status"],
            document["result"],
            document["keep"],
        )
        assert document["context"] == {"input": {"n": 1}}
        assert (await times(store))[1] > T0

    async def test_a_state_without_status_is_refused(self, store: Storage) -> None:
        """The status is what such an update is about."""
        await persist(store)

        with pytest.raises(StorageArgumentError):
            await store.workflows.update_workflow_state(
                workflow_name=W, run_id="run1", opts={"result": 1}
            )

    @case("snapshots", 33)
    @pytest.mark.parametrize(
        "step_id",
        ["a.b.c", "$step", "it's", 'say "hi"', "a]b[0]", "back\\slash", "ä" * 300, "__proto__",
         "a b\tc", "0", "*"],
    )  # fmt: skip
    async def test_odd_step_ids_round_trip(self, store: Storage, step_id: str) -> None:
        """A step id is a name, never a path or an operator."""
        await persist(store)
        await update(store, "other", {"status": "success"})

        for number in (1, 2):
            context = await update(store, step_id, {"status": "success", "output": {"n": number}})
            assert context[step_id]["output"] == {"n": number}

        found = (await load(store))["context"]
        assert {"input", "other", step_id} == set(found)
        assert found[step_id] == {"status": "success", "output": {"n": 2}}

    @case("snapshots", 34)
    async def test_values_that_look_like_operators_are_values(self, store: Storage) -> None:
        """Nothing that a caller passes is evaluated by the database."""
        value = {"text": "$amount", "op": {"$gt": 1}, "root": "$$ROOT", "list": ["$a", {"$add": 1}]}
        await persist(store)

        await update(
            store, "s", {"status": "success", "output": value}, request_context={"v": value}
        )
        await set_state(store, "success", opts={"result": value, "error": {"message": "$x"}})

        document = await load(store)
        assert document["context"]["s"]["output"] == value
        assert document["requestContext"] == {"v": value}
        assert (value, {"message": "$x"}) == (document["result"], document["error"])

    # -- lists ----------------------------------------------------------------------------------

    @case("snapshots", 7)
    async def test_runs_are_filtered_by_workflow(self, store: Storage) -> None:
        """Only that name is returned, and only it is counted."""
        for number, name in enumerate(("one", "two", "one")):
            await persist(store, f"run{number}", workflow_name=name)

        page = await store.workflows.list_workflow_runs(workflow_name="one")

        assert {"one"} == {row.workflow_name for row in page.runs}
        assert page.total == 2

    @case("snapshots", 8)
    async def test_runs_are_listed_newest_created_first(self, store: Storage) -> None:
        """Whatever the order of writing and updating."""
        for seconds in (2, 1, 3):
            await persist(store, f"t{seconds}", created_at=at(seconds))
        await persist(store, "t1", snapshot("t1", n=1))

        assert ["t3", "t2", "t1"] == await listed(store)

    @case("snapshots", 9)
    async def test_paging_over_equal_times_shows_each_run_once(self, store: Storage) -> None:
        """Ties are broken by run id, descending."""
        for number in range(5):
            await persist(store, f"run{number}", created_at=T0)

        pages = [await listed(store, page=number, per_page=1) for number in range(6)]

        assert [["run4"], ["run3"], ["run2"], ["run1"], ["run0"], []] == pages

    @case("snapshots", 10)
    async def test_date_bounds_are_inclusive_and_speak_of_creation(self, store: Storage) -> None:
        """Both ends count; later updates don't."""
        for seconds in (1, 2, 3):
            await persist(store, f"t{seconds}", created_at=at(seconds))

        assert ["t2"] == await listed(store, from_date=at(2), to_date=at(2))
        assert ["t3", "t2"] == await listed(store, from_date=at(2))
        assert ["t2", "t1"] == await listed(store, to_date=at(2))
        assert [] == await listed(store, from_date=at(3), to_date=at(1))
        assert ["t3"] == await listed(store, from_date=at(2) + timedelta(microseconds=500))

    async def test_a_bound_without_a_zone_is_refused(self, store: Storage) -> None:
        """Nobody knows which instant it is."""
        with pytest.raises((StorageArgumentError, WireEncodeError)):
            await listed(store, from_date=T0.replace(tzinfo=None))

    @case("snapshots", 11, 12, 13, 14)
    @pytest.mark.parametrize(
        ("page", "per_page", "expected"),
        [
            (0, 2, ["run2", "run1"]),
            (1, 2, ["run0"]),
            (1, None, ["run2", "run1", "run0"]),
            (None, 1, ["run2", "run1", "run0"]),
            (0, 0, []),
            (9, 2, []),
            (0, False, ["run2", "run1", "run0"]),
            (7, False, ["run2", "run1", "run0"]),
            (None, False, ["run2", "run1", "run0"]),
        ],
    )
    async def test_a_page_needs_both_numbers(
        self, store: Storage, page: Any, per_page: Any, expected: list[str]
    ) -> None:
        """With one of them everything is returned; the total is always that before paging."""
        for number in range(3):
            await persist(store, f"run{number}", created_at=at(number))

        found = await store.workflows.list_workflow_runs(page=page, per_page=per_page)

        assert expected == [row.run_id for row in found.runs]
        assert found.total == 3

    @case("snapshots", 15)
    @pytest.mark.parametrize(
        ("page", "per_page"),
        [(-1, 10), (-1, None), (0, -1), (None, -1), (0, 1.5), (0.5, 1), (True, 1), (0, True),
         (0, "10")],
    )  # fmt: skip
    async def test_a_bad_page_is_refused(self, store: Storage, page: Any, per_page: Any) -> None:
        """A fault of the caller, never data."""
        await persist(store)

        with pytest.raises(StorageArgumentError) as caught:
            await store.workflows.list_workflow_runs(page=page, per_page=per_page)

        assert caught.value.category == "USER"
        assert caught.value.id.endswith("_LIST_WORKFLOW_RUNS_INVALID_PAGE")

    @case("snapshots", 16)
    async def test_runs_are_filtered_by_status(self, store: Storage) -> None:
        """By the top-level status of the document as it is now."""
        for number, status in enumerate(("suspended", "success", "suspended")):
            document = snapshot(f"run{number}", status=status, value={"status": "suspended"})
            await persist(store, f"run{number}", document, created_at=at(number))
        await store.workflows.update_workflow_state(
            workflow_name=W, run_id="run2", opts={"status": "running"}
        )

        page = await store.workflows.list_workflow_runs(status="suspended", workflow_name=W)

        assert (["run0"], 1) == ([row.run_id for row in page.runs], page.total)
        assert ["run1"] == await listed(store, status="success")
        assert [] == await listed(store, status="x' OR '1'='1")

    @case("snapshots", 17)
    async def test_runs_are_filtered_by_resource(self, store: Storage) -> None:
        """By the column; rows without one never match."""
        for name, owner in (("run1", "A"), ("run2", "B"), ("run3", None)):
            await persist(store, name, resource_id=owner)

        assert ["run1"] == await listed(store, resource_id="A")
        assert [] == await listed(store, resource_id="C")

    @case("snapshots", 18)
    async def test_a_thread_filter_never_loses_a_row(self, store: Storage) -> None:
        """Rows of both layouts that belong to the thread are there; others may be."""
        await persist(store, "regular", approval_run("regular", thread_id="t1"))
        await persist(store, "durable", durable_run("durable", thread_id="t1"))
        await persist(store, "elsewhere", approval_run("elsewhere", thread_id="t2"))

        found = await listed(store, thread_id="t1", status="suspended")

        assert {"regular", "durable"} <= set(found)

    @case("snapshots", 19)
    async def test_a_run_id_under_several_names_gives_the_newest_row(self, store: Storage) -> None:
        """With a name that row; for an empty id None."""
        await persist(store, workflow_name="old", created_at=at(1))
        await persist(store, workflow_name="new", created_at=at(2))

        async def name_of(**key: Any) -> str | None:
            row = await store.workflows.get_workflow_run_by_id(**key)
            return None if row is None else row.workflow_name

        assert await name_of(run_id="run1") == "new"
        assert await name_of(run_id="run1", workflow_name="old") == "old"
        assert await name_of(run_id="run1", workflow_name="other") is None
        assert await name_of(run_id="run1", workflow_name="") is None
        assert await name_of(run_id="") is None

    @case("snapshots", 35)
    async def test_names_are_never_patterns(self, store: Storage) -> None:
        """``*``, ``?``, ``[``, ``:``, ``%`` and ``_`` mean themselves."""
        names = ["a*", "ab", "a?", "a[b]", "a:b", "a%", "a_", "a:run_id:x"]
        for name in names:
            await persist(store, workflow_name=name)

        for name in names:
            page = await store.workflows.list_workflow_runs(workflow_name=name)
            assert [name] == [row.workflow_name for row in page.runs]
        await store.workflows.delete_workflow_run_by_id(run_id="run1", workflow_name="a*")
        assert (await store.workflows.list_workflow_runs()).total == len(names) - 1

    async def test_a_healthy_store_has_no_corrupt_runs(self, store: Storage) -> None:
        """The list of rows that don't parse is empty."""
        await persist(store)

        assert await store.workflows.list_corrupt_runs() == []

    @pytest.mark.parametrize("limit", [0, -1, True, 1.5])
    async def test_a_limit_below_one_is_an_error(self, store: Storage, limit: Any) -> None:
        """Never all rows, and never none of them."""
        with pytest.raises(StorageArgumentError, match="limit"):
            await store.workflows.list_corrupt_runs(limit=limit)

    @requires("workflows.claim_resume")
    @pytest.mark.parametrize("limit", [0, -1, True, 1.5])
    async def test_a_recovery_has_a_limit_of_one_at_least(self, store: Storage, limit: Any) -> None:
        """The same for claims that have expired."""
        with pytest.raises(StorageArgumentError, match="limit"):
            await store.workflows.recover_expired_claims(workflow_names=["agent"], limit=limit)

    async def test_bounds_may_be_the_first_and_the_last_of_all_times(self, store: Storage) -> None:
        """What somebody writes who wants no bound."""
        await persist(store)
        first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

        assert 1 == (await store.workflows.list_workflow_runs(from_date=first, to_date=last)).total
        assert 0 == (await store.workflows.list_workflow_runs(from_date=last)).total
        assert 0 == (await store.workflows.list_workflow_runs(to_date=first)).total

    # -- retention ------------------------------------------------------------------------------

    @requires("storage.retention")
    @case("snapshots", 37)
    async def test_pruning_goes_by_the_last_write(
        self, store: Storage, clock: ShiftedClock
    ) -> None:
        """Only rows older than the limit; batches respect the row limit and say when capped."""
        now = clock.now()
        for number, age in enumerate((7200, 7200, 7200, 600)):
            then = now - timedelta(seconds=age)
            document = snapshot(f"run{number}", status="success")
            await persist(store, f"run{number}", document, created_at=then, updated_at=then)
        policy = PrunePolicy(table="workflowSnapshot", max_age_ms=3_600_000)

        preview = await store.workflows.prune([policy], PruneOptions(dry_run=True))
        capped = await store.workflows.prune([policy], PruneOptions(max_rows=2, batch_size=1))
        rest = await store.workflows.prune([policy])

        assert [(3, True)] == [(result.deleted, result.done) for result in preview]
        assert [(2, False)] == [(result.deleted, result.done) for result in capped]
        assert [("workflows", "workflowSnapshot", 1, True)] == [
            (result.domain, result.table, result.deleted, result.done) for result in rest
        ]
        assert ["run3"] == await listed(store)

    @requires("storage.retention")
    async def test_suspended_runs_are_pruned_only_if_told_so(self, store: Storage) -> None:
        """Somebody may still answer them (field report R145)."""
        old: dict[str, Any] = {"created_at": T0, "updated_at": T0}
        await persist(store, "parked", approval_run("parked"), **old)
        await persist(store, "done", snapshot("done", status="success"), **old)

        await store.workflows.prune([PrunePolicy(table="workflowSnapshot", max_age_ms=1000)])
        kept = await listed(store)
        await store.workflows.prune(
            [PrunePolicy(table="workflowSnapshot:suspended", max_age_ms=1000)]
        )

        assert ["parked"] == kept
        assert [] == await listed(store)

    @requires("storage.retention")
    @pytest.mark.parametrize(
        ("policy", "options"),
        [
            (PrunePolicy(table="messages", max_age_ms=1), None),
            (PrunePolicy(table="workflowSnapshot", max_age_ms=-1), None),
            (PrunePolicy(table="workflowSnapshot", max_age_ms=1), PruneOptions(batch_size=0)),
            (PrunePolicy(table="workflowSnapshot", max_age_ms=1), PruneOptions(max_rows=-1)),
        ],
    )
    async def test_pruning_without_sense_is_refused(
        self, store: Storage, policy: PrunePolicy, options: PruneOptions | None
    ) -> None:
        """An unknown table, a negative age, a limit below one."""
        with pytest.raises(StorageArgumentError):
            await store.workflows.prune([policy], options)

    # -- encoding -------------------------------------------------------------------------------

    @kept_values()
    async def test_values_are_kept_by_every_write(self, store: Storage, value: object) -> None:
        """Persisting, merging a step and setting a state give them back equal."""
        await persist(store, document=snapshot(value={"v": value}))
        await update(store, "s", {"status": "success", "output": value})
        await set_state(store, "success", opts={"result": value})

        document = await load(store)

        assert {"v": value} == document["value"]
        assert (value, value) == (document["context"]["s"]["output"], document["result"])

    @case("snapshots", 38)
    @pytest.mark.parametrize("text", [ODD_TEXTS["nul"], ODD_TEXTS["lone-surrogate"], "\ud83d\ude80",
                                      "\uf8ff0000", "\ufffd"])  # fmt: skip
    async def test_odd_texts_round_trip(self, store: Storage, text: str) -> None:
        """As values and as keys, at every depth."""
        document = snapshot(value={text: [text]}, odd=text)

        await persist(store, document=document)

        assert as_javascript_sees(document) == as_javascript_sees(await load(store))

    @case("snapshots", 39)
    @pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
    async def test_a_number_without_json_form_is_refused_with_its_path(
        self, store: Storage, number: float
    ) -> None:
        """The error says where it is; the old row is intact."""
        await persist(store)
        before = (await load(store), await times(store))
        document = snapshot(context={"a": {"output": [1, {"n": number}]}})

        with pytest.raises(WireEncodeError) as caught:
            await persist(store, document=document)
        with pytest.raises(WireEncodeError) as merging:
            await update(store, "a", {"output": number})
        with pytest.raises(WireEncodeError):
            await set_state(store, "success", opts={"result": number})

        assert (caught.value.id, caught.value.path) == (
            "SNAPSHOT_UNENCODABLE_VALUE",
            "$.context.a.output[1].n",
        )
        assert merging.value.path == "$.context.a.output"
        assert before == (await load(store), await times(store))

    @refused_values()
    async def test_a_value_without_json_form_creates_no_row(
        self, store: Storage, make: Callable[[], Any]
    ) -> None:
        """Neither persisting nor the first partial update writes a half."""
        with pytest.raises(WireEncodeError):
            await persist(store, document=snapshot(bad=make()))
        with pytest.raises(WireEncodeError):
            await update(store, "a", {"output": make()})

        assert [] == await listed(store)

    @case("snapshots", 40)
    async def test_large_integers_are_exact(self, store: Storage) -> None:
        """2^60 and its neighbours, positive and negative."""
        numbers = [2**60, 2**60 + 1, -(2**60) - 1, 2**53 + 1, 2**63 - 1]

        await persist(store, document=snapshot(value={"n": numbers}))

        found = (await load(store))["value"]["n"]
        assert numbers == found
        assert {int} == {type(number) for number in found}

    @case("snapshots", 41)
    @pytest.mark.parametrize("hours", [0, 9, -5])
    async def test_times_are_stored_as_javascript_writes_them(
        self, store: Storage, hours: int
    ) -> None:
        """In UTC, with three decimals and ``Z``, cut and not rounded."""
        moment = datetime(2026, 1, 31, 23, 30, 0, 1999, tzinfo=UTC).astimezone(
            timezone(timedelta(hours=hours))
        )

        await persist(store, document=snapshot(value={"at": moment}))

        assert (await load(store))["value"]["at"] == "2026-01-31T23:30:00.001Z"

    @case("snapshots", 42)
    async def test_a_document_over_the_limit_is_refused(
        self, store: Storage, opener: Opener
    ) -> None:
        """The error names the largest parts, and the previous version is still there."""
        url = opener.place.url
        limited = opener.with_url(
            f"{url}{'&' if '?' in url else '?'}mastra_max_snapshot_bytes=4000"
        )
        async with limited.storage() as small:
            await persist(small)
            before = await load(small)

            with pytest.raises(StorageArgumentError) as caught:
                await persist(small, document=snapshot(value={"big": "x" * 5000, "n": 1}))
            with pytest.raises(StorageArgumentError):
                await update(small, "s", {"status": "success", "output": "x" * 5000})
            with pytest.raises(StorageArgumentError):
                await set_state(small, "success", opts={"result": "x" * 5000})

            assert caught.value.id == "SNAPSHOT_TOO_LARGE"
            assert "$.value.big" in str(caught.value.details["largest"])
            assert before == await load(small)


def as_javascript_sees(value: Any) -> Any:
    """Surrogate pairs as the one character that they are; all else unchanged."""
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        case dict():
            return {as_javascript_sees(k): as_javascript_sees(v) for k, v in value.items()}
        case list():
            return [as_javascript_sees(item) for item in value]
        case _:
            return value


async def update_steps(store: Storage, arguments: Mapping[str, Any]) -> int:
    """One member of a crowd: store results of steps of its own."""
    for number in range(arguments["count"]):
        await update(
            store, f"{arguments['prefix']}{number}", {"status": "success", "output": number}
        )
    return int(arguments["count"])


class SnapshotCrowdSuite(Suite):
    """What many writers at once do to one run."""

    capabilities = ("workflows", "workflows.atomic_updates")
    tier = 2

    async def test_the_store_says_that_partial_updates_are_atomic(self, store: Storage) -> None:
        """The flag that the evented engine asks for."""
        assert store.workflows.supports_concurrent_updates()

    @case("snapshots", 21)
    async def test_fifty_first_updates_keep_all_steps(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """The row doesn't exist before; every step is stored."""
        async with open_store() as other:
            results = await at_once(
                [
                    update(handle, f"{name}{number}", {"status": "success", "output": number})
                    for number in range(25)
                    for name, handle in (("a", store), ("b", other))
                ]
            )

        assert [] == [result for result in results if isinstance(result, BaseException)]
        steps = {f"{name}{number}" for number in range(25) for name in "ab"}
        assert steps == set((await load(store))["context"])
        assert ["run1"] == await listed(store)

    @case("snapshots", 22)
    async def test_fifty_updates_by_two_processes_keep_all_steps(
        self, store: Storage, subject: Subject, open_store: OpenStore, processes: Processes
    ) -> None:
        """An existing row; nobody loses anything to the other."""
        await persist(store)

        await in_crowd(
            update_steps,
            [{"prefix": "a", "count": 25}, {"prefix": "b", "count": 25}],
            subject=subject,
            open_store=open_store,
            processes=processes,
        )

        steps = {f"{name}{number}" for number in range(25) for name in "ab"}
        assert {"input", *steps} == set((await load(store))["context"])

    @case("snapshots", 23)
    async def test_concurrent_iterations_compose(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Each writer brings one index of the output; all of them are there at the end."""
        count = 12
        await update(store, "each", {"status": "running", "output": [None] * count})

        async with open_store() as other:
            await at_once(
                [
                    update(
                        (store, other)[index % 2],
                        "each",
                        {
                            "status": "running",
                            "output": [index if n == index else None for n in range(count)],
                        },
                    )
                    for index in range(count)
                ]
            )

        assert (await load(store))["context"]["each"]["output"] == list(range(count))

    @case("snapshots", 28)
    async def test_of_twenty_guarded_updates_one_wins(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Compare-and-set on the status."""
        await persist(store, document=approval_run())

        async with open_store() as other:
            results = await at_once(
                [
                    set_state(handle, "running", expected_status="suspended")
                    for _ in range(10)
                    for handle in (store, other)
                ]
            )

        assert len([document for document in results if isinstance(document, dict)]) == 1
        assert results.count(None) == 19

    async def test_of_two_optimistic_writes_one_wins(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Both are based on the same version (G8)."""
        await persist(store)
        row = await store.workflows.load_workflow_run(
            workflow_name=W, run_id="run1", with_version=True
        )
        assert row is not None

        async with open_store() as other:
            results = await at_once(
                [
                    persist(handle, document=snapshot(n=number), expected_version=row.version)
                    for number, handle in enumerate((store, other))
                ]
            )

        assert [True, False] == sorted(
            (isinstance(result, StorageConflictError) for result in results), reverse=True
        )

    async def test_updates_of_steps_and_of_the_state_do_not_undo_each_other(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Both kinds are single critical sections of one row."""
        await persist(store)

        async with open_store() as other:
            await at_once(
                [
                    call
                    for number in range(15)
                    for call in (
                        update(store, f"s{number}", {"status": "success"}),
                        set_state(other, "running", opts={f"m{number}": number}),
                    )
                ]
            )

        document = await load(store)
        assert {f"s{number}" for number in range(15)} <= set(document["context"])
        assert {f"m{number}": number for number in range(15)} == {
            key: value for key, value in document.items() if key.startswith("m")
        }

    @requires("workflows.claim_resume", "workflows.fenced_writes")
    async def test_a_step_result_never_wipes_a_claim(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """A claim that is taken while others write stays."""
        await persist(store, document=approval_run())

        async with open_store() as other:
            results = await at_once(
                [
                    *(update(other, f"s{number}", {"status": "success"}) for number in range(5)),
                    store.workflows.claim_resume(
                        workflow_name=W, run_id="run1", claim=resume_claim()
                    ),
                    *(update(other, f"t{number}", {"status": "success"}) for number in range(5)),
                ]
            )

        document = await load(store)
        assert bool(results[5])
        assert document["resumeClaim"]["claimId"] == "claim1"
        with pytest.raises(FencedOutError):
            await update(store, "x", {"status": "success"}, claim_id="other")
