"""Listing suspended runs: owners, filters, pages, parked calls (snapshots.md 4, 8, G7)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.fixtures import OpenStore
from mastra_conformance.suite import Suite, requires
from mastra_conformance.suites.storage.things import (
    approval_run,
    at,
    durable_run,
    parked_run,
    resume_claim,
    runtime_run,
    snapshot,
)
from mastra_conformance.suites.storage.workflows import persist
from mastra_core.contracts.storage import Storage, SuspendedRunPage, SuspendedRunRow
from mastra_core.errors import StorageArgumentError, WireEncodeError
from mastra_core.rules.suspended import tool_calls
from mastra_core.wire.snapshots import AGENT_WORKFLOW_NAMES, AgentRunToolCall

__all__ = (
    "SuspendedRunSuite",
    "only_row",
    "page_of",
    "park",
    "parked",
    "runs_of",
)

OUTER, DURABLE = AGENT_WORKFLOW_NAMES


async def park(
    store: Storage, document: dict[str, Any], *, workflow_name: str = OUTER, **options: Any
) -> None:
    """Store a document under its own run id."""
    await persist(store, document["runId"], document, workflow_name=workflow_name, **options)


async def page_of(store: Storage, agent_id: str = "agent-a", **filters: Any) -> SuspendedRunPage:
    """One page of an agent's suspended runs, of both kinds of agents."""
    return await store.workflows.list_suspended_runs(
        workflow_names=AGENT_WORKFLOW_NAMES, agent_id=agent_id, **filters
    )


async def runs_of(store: Storage, agent_id: str = "agent-a", **filters: Any) -> list[str]:
    """Run ids of that page."""
    return [row.run_id for row in (await page_of(store, agent_id, **filters)).rows]


async def only_row(store: Storage, agent_id: str = "agent-a") -> SuspendedRunRow:
    """The one suspended run of an agent."""
    page = await page_of(store, agent_id)
    assert (len(page.rows), page.total) == (1, 1)
    return page.rows[0]


def parked(call_id: str, tool: str = "choose", **members: Any) -> dict[str, Any]:
    """The result of one suspended iteration."""
    payload = {
        "toolCallSuspended": {"ask": call_id},
        "toolName": tool,
        "toolCallId": call_id,
        "__streamState": {"messageList": {"messages": ["long " * 50]}},
        **members,
    }
    return {"status": "suspended", "suspendPayload": payload, "suspendedAt": 5}


class SuspendedRunSuite(Suite):
    """What a store shows of suspended runs."""

    capabilities = ("workflows",)

    # -- parked calls ---------------------------------------------------------------------------

    @case("snapshots", 48)
    async def test_an_approval_shows_tool_and_arguments(self, store: Storage) -> None:
        """It wants a decision, and has no payload of a suspension."""
        await park(store, approval_run())

        calls = tool_calls(await only_row(store))

        assert [
            AgentRunToolCall(
                tool_call_id="call_1",
                tool_name="deploy",
                args={"env": "prod"},
                requires_approval=True,
            )
        ] == calls

    @case("snapshots", 49)
    async def test_a_runtime_suspension_shows_its_payload(self, store: Storage) -> None:
        """What the tool passed to ``suspend``; no arguments."""
        await park(store, runtime_run())

        calls = tool_calls(await only_row(store))

        assert [
            AgentRunToolCall(
                tool_call_id="call_1",
                tool_name="choose",
                requires_approval=False,
                suspend_payload={"ask": "which one?"},
            )
        ] == calls

    @case("snapshots", 50)
    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            ({"a": {"stepId": "executionWorkflow"}, "b": {"stepId": "other"}}, "a"),
            ({"a": {"stepId": "executionWorkflow"}, "b": {"stepId": "executionWorkflow"}}, None),
            ({}, None),
        ],
    )
    async def test_an_old_payload_takes_the_only_label_of_its_step(
        self, store: Storage, labels: dict[str, Any], expected: str | None
    ) -> None:
        """With none or several nobody can know."""
        await park(store, runtime_run(call_id=None, resumeLabels=labels))

        calls = tool_calls(await only_row(store))

        assert [expected] == [call.tool_call_id for call in calls]

    @case("snapshots", 51)
    async def test_a_durable_approval_shows_its_arguments(self, store: Storage) -> None:
        """Its payload has another form, and means the same."""
        await park(store, durable_run(), workflow_name=DURABLE)

        row = await only_row(store)

        assert [("call_1", "deploy", {"env": "prod"}, True)] == [
            (call.tool_call_id, call.tool_name, call.args, call.requires_approval)
            for call in tool_calls(row)
        ]
        assert (DURABLE, "t1", "r1") == (row.workflow_name, row.thread_id, row.resource_id)

    @case("snapshots", 52)
    @pytest.mark.parametrize("keyed", [False, True])
    async def test_parked_iterations_come_in_their_order(
        self, store: Storage, *, keyed: bool
    ) -> None:
        """As an array or as an object keyed by index; finished ones are left out."""
        outputs: list[Any] = [
            {"status": "success", "output": 1, "suspendPayload": {}},
            *(parked(f"call_{index}") for index in range(1, 12)),
        ]
        meta = {
            "foreachIndex": 1,
            "foreachOutput": {str(i): o for i, o in reversed(list(enumerate(outputs)))}
            if keyed
            else outputs,
        }
        await park(store, parked_run("run1", {"toolName": "first", "__workflow_meta": meta}))

        row = await only_row(store)

        assert [f"call_{index}" for index in range(1, 12)] == [
            call.tool_call_id for call in tool_calls(row)
        ]

    @case("snapshots", 54)
    async def test_a_supervisor_sees_its_own_run_with_the_inner_tool(self, store: Storage) -> None:
        """And the sub-agent sees the inner one; each has its own run id."""
        inner = {"toolCallId": "outer_call", "toolName": "deploy", "args": {"env": "prod"}}
        await park(
            store,
            parked_run(
                "outer",
                {
                    "requireToolApproval": inner,
                    "type": "approval",
                    "suspendedToolRunId": "inner",
                },
                agent_id="supervisor",
            ),
        )
        await park(store, approval_run("inner", call_id="inner_call", agent_id="worker"))

        outer_row, inner_row = await only_row(store, "supervisor"), await only_row(store, "worker")

        assert [("outer", "outer_call", "deploy", {"env": "prod"}, True)] == [
            (outer_row.run_id, c.tool_call_id, c.tool_name, c.args, c.requires_approval)
            for c in tool_calls(outer_row)
        ]
        assert [("inner", "inner_call")] == [
            (inner_row.run_id, call.tool_call_id) for call in tool_calls(inner_row)
        ]

    async def test_the_conversation_is_not_shipped(self, store: Storage) -> None:
        """A listing holds no stream state, at no depth (G7)."""
        meta = {"foreachOutput": [parked("call_1"), parked("call_2")]}
        await park(store, parked_run("run1", {"toolName": "x", "__workflow_meta": meta}))

        row = await only_row(store)

        text = json.dumps(row.steps)
        assert "__streamState" not in text
        assert "long long" not in text
        assert {"executionWorkflow"} == set(row.steps)

    async def test_only_suspended_steps_are_shown(self, store: Storage) -> None:
        """Input and finished steps stay in the document."""
        document = approval_run()
        document["context"]["done"] = {"status": "success", "output": {"big": 1}}
        await park(store, document)

        row = await only_row(store)

        assert {"executionWorkflow"} == set(row.steps)
        assert {"call_1": {"stepId": "executionWorkflow"}} == row.resume_labels

    # -- whose runs -----------------------------------------------------------------------------

    @case("snapshots", 53)
    async def test_an_agent_sees_only_its_own_runs(self, store: Storage) -> None:
        """Two agents in one store; a run without an owner is seen by nobody."""
        await park(store, approval_run("a1", agent_id="agent-a"))
        await park(store, approval_run("b1", agent_id="agent-b"))
        await park(store, approval_run("nobody", agent_id=None))

        pages = [await page_of(store, name) for name in ("agent-a", "agent-b", "agent-c")]

        assert [["a1"], ["b1"], []] == [[row.run_id for row in page.rows] for page in pages]
        assert [1, 1, 0] == [page.total for page in pages]
        assert {"agent-a"} == {row.agent_id for row in pages[0].rows}

    @case("streaming", 61)
    async def test_the_total_counts_only_the_agent(self, store: Storage) -> None:
        """Three suspended runs of two agents and one without an owner."""
        for name, agent in (("1", "agent-a"), ("2", "agent-a"), ("3", "agent-b"), ("4", None)):
            await park(store, approval_run(name, agent_id=agent))

        page = await page_of(store)

        assert ({"1", "2"}, 2) == ({row.run_id for row in page.rows}, page.total)

    async def test_no_agent_is_nobody(self, store: Storage) -> None:
        """An empty id never means everybody."""
        await park(store, approval_run(agent_id=None))

        with pytest.raises(StorageArgumentError):
            await page_of(store, "")

    @case("snapshots", 55)
    async def test_thread_and_resource_filters_are_exact(self, store: Storage) -> None:
        """Only exact matches, alone and together; a run without memory matches neither."""
        for name, thread, resource in (
            ("1", "t1", "r1"),
            ("2", "t1", "r2"),
            ("3", "t2", "r1"),
            ("4", None, None),
        ):
            document = approval_run(name, thread_id=thread, resource_id=resource)
            await park(store, document, resource_id=resource)

        async def found(**filters: Any) -> set[str]:
            page = await page_of(store, **filters)
            assert page.total == len(page.rows)
            return {row.run_id for row in page.rows}

        assert {"1", "2"} == await found(thread_id="t1")
        assert {"1", "3"} == await found(resource_id="r1")
        assert {"2"} == await found(thread_id="t1", resource_id="r2")
        assert set() == await found(thread_id="t")
        assert set() == await found(thread_id="t2", resource_id="r2")
        assert {"1", "2", "3", "4"} == await found()

    @case("snapshots", 56)
    async def test_a_resource_inside_the_document_counts_without_a_column(
        self, store: Storage
    ) -> None:
        """The column wins where it is set."""
        await park(store, approval_run("inside", resource_id="r1"))
        await park(store, approval_run("column", resource_id="r1"), resource_id="r9")

        assert ["inside"] == await runs_of(store, resource_id="r1")
        assert ["column"] == await runs_of(store, resource_id="r9")
        rows = {row.run_id: row.resource_id for row in (await page_of(store)).rows}
        assert rows == {"inside": "r1", "column": "r9"}

    async def test_the_first_step_with_a_stream_state_decides(self, store: Storage) -> None:
        """Even if it says that there is no memory (snapshots.md 4.4)."""
        document = approval_run(thread_id=None)
        document["context"]["input"] = {
            "messageListState": {"memoryInfo": {"threadId": "t1", "resourceId": "r1"}}
        }
        await park(store, document)

        assert [] == await runs_of(store, thread_id="t1")
        assert ["run1"] == await runs_of(store)

    @case("snapshots", 62)
    @pytest.mark.parametrize("status", ["pending", "running", "success", "canceled"])
    async def test_runs_of_another_status_are_not_listed(self, store: Storage, status: str) -> None:
        """Whatever is left of a suspension inside the document."""
        await park(store, {**approval_run(), "status": status})

        assert ([], 0) == ((await page_of(store)).rows, (await page_of(store)).total)

    async def test_a_run_that_goes_on_leaves_the_list(self, store: Storage) -> None:
        """Partial updates, claims and deletes are seen at once."""
        for name in ("1", "2", "3"):
            await park(store, approval_run(name))

        await store.workflows.update_workflow_state(
            workflow_name=OUTER, run_id="1", opts={"status": "running"}
        )
        await store.workflows.delete_workflow_run_by_id(run_id="2", workflow_name=OUTER)

        assert ["3"] == await runs_of(store)
        await store.workflows.update_workflow_state(
            workflow_name=OUTER, run_id="1", opts={"status": "suspended"}
        )
        assert ["1", "3"] == sorted(await runs_of(store))

    async def test_only_the_named_workflows_are_listed(self, store: Storage) -> None:
        """The inner row of a run is not a second run."""
        await park(store, approval_run("run1"))
        await park(store, approval_run("run1"), workflow_name="executionWorkflow")

        assert ["run1"] == await runs_of(store)
        inner = await store.workflows.list_suspended_runs(
            workflow_names=["executionWorkflow"], agent_id="agent-a"
        )
        assert inner.total == 1
        none = await store.workflows.list_suspended_runs(workflow_names=[], agent_id="agent-a")
        assert ([], 0) == (none.rows, none.total)

    # -- order, time, pages ---------------------------------------------------------------------

    @case("snapshots", 61)
    async def test_bounds_speak_of_creation_and_suspension_of_the_last_write(
        self, store: Storage
    ) -> None:
        """A run created Monday and suspended Tuesday."""
        monday, tuesday = at(0), at(86_400)
        await park(store, approval_run(), created_at=monday, updated_at=tuesday)

        assert [] == await runs_of(store, from_date=tuesday)
        assert ["run1"] == await runs_of(store, from_date=monday, to_date=monday)
        assert (await only_row(store)).updated_at == tuesday

    async def test_runs_come_newest_created_first_across_workflows(self, store: Storage) -> None:
        """One order for regular and durable agents; ties by run id, descending."""
        await park(store, approval_run("a"), created_at=at(1))
        await park(store, durable_run("b"), workflow_name=DURABLE, created_at=at(2))
        await park(store, approval_run("c"), created_at=at(3))
        await park(store, durable_run("d"), workflow_name=DURABLE, created_at=at(3))

        assert ["d", "c", "b", "a"] == await runs_of(store)
        assert ["c", "b"] == [
            *await runs_of(store, page=1, per_page=1),
            *await runs_of(store, page=2, per_page=1),
        ]

    async def test_a_page_of_many_holds_its_rows_and_the_whole_total(self, store: Storage) -> None:
        """60 runs of A among 120 of others: page 3 of 10, and the count of all."""
        documents = [
            {
                "workflow_name": OUTER,
                "run_id": f"{agent}{number:03}",
                "snapshot": approval_run(f"{agent}{number:03}", agent_id=f"agent-{agent}"),
                "created_at": at(number),
            }
            for number in range(60)
            for agent in "abc"
        ]
        await store.workflows.persist_workflow_snapshots(documents)

        page = await page_of(store, page=3, per_page=10)

        assert [f"a{number:03}" for number in range(29, 19, -1)] == [r.run_id for r in page.rows]
        assert page.total == 60

    @case("streaming", 62)
    @case("snapshots", 58)
    async def test_one_number_alone_is_no_page(self, store: Storage) -> None:
        """Only ``per_page``, or only ``page``: all runs."""
        for number in range(3):
            await park(store, approval_run(str(number)))

        halves: list[dict[str, Any]] = [{"per_page": 1}, {"page": 1}]
        for given in halves:
            page = await page_of(store, **given)
            assert (3, 3) == (len(page.rows), page.total)

    @pytest.mark.parametrize(
        ("page", "per_page"), [(0, -1), (0, 1.5), (0, True), (-1, 1), (True, 1), (None, -1)]
    )
    async def test_a_bad_page_is_refused(self, store: Storage, page: Any, per_page: Any) -> None:
        """A typed error, never data."""
        await park(store, approval_run())

        with pytest.raises(StorageArgumentError):
            await page_of(store, page=page, per_page=per_page)

    async def test_a_bound_without_a_zone_is_refused(self, store: Storage) -> None:
        """Nobody knows which instant it is."""
        with pytest.raises((StorageArgumentError, WireEncodeError)):
            await page_of(store, from_date=at(0).replace(tzinfo=None))

    @case("snapshots", 64)
    async def test_a_cursor_neither_skips_nor_repeats(self, store: Storage) -> None:
        """Runs that end and begin meanwhile don't move the others between pages."""
        for number in range(9):
            await park(store, approval_run(f"run{number}"), created_at=at(number // 3))

        seen: list[str] = []
        after: tuple[datetime, str] | None = None
        while True:
            page = await page_of(store, page=0, per_page=2, after=after)
            if not page.rows:
                break
            seen += [row.run_id for row in page.rows]
            after = (page.rows[-1].created_at, page.rows[-1].run_id)
            # One that was shown ends, and two new ones begin before the cursor.
            await store.workflows.delete_workflow_run_by_id(
                run_id=page.rows[0].run_id, workflow_name=OUTER
            )
            for name in ("x", "y"):
                run_id = f"{name}{len(seen)}"
                await park(store, approval_run(run_id), created_at=at(100 + len(seen)))

        assert [f"run{number}" for number in range(8, -1, -1)] == seen

    async def test_a_cursor_needs_no_page_number(self, store: Storage) -> None:
        """``per_page`` alone limits what comes behind it; the total is that of all."""
        for number in range(4):
            await park(store, approval_run(f"run{number}"), created_at=at(number))

        page = await page_of(store, per_page=2, after=(at(3), "run3"))

        assert (["run2", "run1"], 4) == ([row.run_id for row in page.rows], page.total)

    # -- what else a row says -------------------------------------------------------------------

    @requires("workflows.claim_resume")
    @case("snapshots", 63)
    async def test_another_handle_lists_the_same_and_can_claim(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """What is parked is described by storage alone."""
        await park(store, approval_run("one"), created_at=at(1))
        await park(store, durable_run("two"), workflow_name=DURABLE, created_at=at(2))

        async with open_store() as other:
            there = (await page_of(other)).rows
            outcomes = [
                await other.workflows.claim_resume(
                    workflow_name=row.workflow_name, run_id=row.run_id, claim=resume_claim()
                )
                for row in there
            ]

        assert ["two", "one"] == [row.run_id for row in there]
        assert all(outcomes)
        assert [] == await runs_of(store)

    async def test_receipts_and_orphans_are_shown(self, store: Storage) -> None:
        """What a crash while resuming left is part of the listing (G4)."""
        document = approval_run(
            resumeReceipts={"call_1": {"startedAt": 1}},
            orphanedResume={"claimId": "c", "target": None, "attempt": 1},
        )
        await park(store, document)

        row = await only_row(store)

        assert {"call_1": {"startedAt": 1}} == row.receipts
        assert {"claimId": "c", "target": None, "attempt": 1} == row.orphaned
        assert ["unknown"] == [call.resume_state for call in tool_calls(row)]
        assert ["interrupted"] == [
            call.resume_state for call in tool_calls(row, is_idempotent=lambda _: True)
        ]

    async def test_a_document_of_a_newer_version_is_still_listed(self, store: Storage) -> None:
        """Its version is told, so that resuming can refuse it."""
        await park(store, approval_run("new", schemaVersion=99), created_at=at(2))
        await park(store, approval_run("old"), created_at=at(1))

        rows = (await page_of(store)).rows

        assert [("new", 99), ("old", 0)] == [(row.run_id, row.schema_version) for row in rows]

    async def test_a_document_of_odd_form_breaks_nothing(self, store: Storage) -> None:
        """Nobody's rows hide those of others (field report R1)."""
        await park(store, approval_run("good"))
        odd: list[dict[str, Any]] = [
            {"runId": "o1", "status": "suspended"},
            {"runId": "o2", "status": "suspended", "context": {"s": "text", "input": None}},
            {"runId": "o3", "status": "suspended",
             "context": {"s": {"status": "suspended", "suspendPayload": "text"}}},
            {"runId": "o4", "status": "suspended", "context": {"input": {"agentId": 5}}},
            {"runId": "o5", "status": ["suspended"], "context": {}},
            snapshot("o6", status="suspended", value={"nul": "\x00", "cut": "\ud83d"}),
        ]  # fmt: skip
        for document in odd:
            await park(store, document)

        assert ["good"] == await runs_of(store)
        listed = await store.workflows.list_workflow_runs(status="suspended")
        assert {"good", "o1", "o2", "o3", "o4", "o6"} == {row.run_id for row in listed.runs}

    async def test_what_callers_change_in_a_row_changes_nothing_stored(
        self, store: Storage
    ) -> None:
        """Rows are copies."""
        await park(store, approval_run())
        row = await only_row(store)
        row.steps["executionWorkflow"]["requireToolApproval"]["args"]["env"] = "changed"
        row.resume_labels.clear()

        again = await only_row(store)

        assert [{"env": "prod"}] == [call.args for call in tool_calls(again)]
        assert "call_1" in again.resume_labels
