"""Suspended runs of agents: listed, answered once, never lost (snapshots.md 8, 9, 12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.processes import Processes
from mastra_conformance.suite import Suite, several_processes
from mastra_conformance.suites.runtime.agents import (
    RESOURCE,
    THREAD,
    application,
    chunk_types,
    deploy_calls,
    workshop,
)
from mastra_conformance.suites.storage.things import approval_run, at
from mastra_core import Agent
from mastra_core.base.ids import Ids
from mastra_core.contracts.storage import Storage
from mastra_core.errors import (
    AmbiguousRunError,
    FencedOutError,
    ForeignRunError,
    NotSuspendedError,
    ResumeClaimedError,
    ResumeKindMismatchError,
    RunArgumentError,
    RunNotFoundError,
    SchemaError,
    WireVersionError,
)
from mastra_core.streaming.output import ModelOutput
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import text, tool_call
from mastra_core.wire.snapshots import INNER_WORKFLOW, OUTER_WORKFLOW

__all__ = (
    "ON_THREAD",
    "ResumeSuite",
    "RivalAnswersSuite",
    "SuspendedRunListSuite",
    "let_claim_expire",
    "park",
    "rows_of",
)

ON_THREAD = {"thread_id": THREAD, "resource_id": RESOURCE}


async def park(agent: Agent, **options: Any) -> ModelOutput:
    """Run the agent until it waits for an answer."""
    output = await agent.stream("please", **{**ON_THREAD, **options})
    assert await output.finish_reason == "suspended"
    return output


async def rows_of(store: Storage, run_id: str) -> list[str]:
    """Which of the two rows of an agent run exist."""
    found = []
    for name in (OUTER_WORKFLOW, INNER_WORKFLOW):
        snapshot = await store.workflows.load_workflow_snapshot(workflow_name=name, run_id=run_id)
        if snapshot is not None:
            found.append(name)
    return found


class SuspendedRunListSuite(Suite):
    """What ``list_suspended_runs`` shows of real runs."""

    role = "runtime"
    capabilities = ("memory", "workflows", "workflows.claim_resume", "workflows.fenced_writes")

    @case("snapshots", 48)
    async def test_an_approval_is_listed_with_tool_and_arguments(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Tool id, name and arguments are there; there is no suspend payload."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)

            listed = await shop.agent.list_suspended_runs()

        assert listed.total == 1
        run = listed.runs[0].to_wire()
        assert (run["runId"], run["threadId"], run["resourceId"]) == (
            output.run_id,
            THREAD,
            RESOURCE,
        )
        assert run["toolCalls"] == [
            {
                "toolCallId": "call_1",
                "toolName": "deploy",
                "args": {"env": "prod"},
                "requiresApproval": True,
            }
        ]

    @case("snapshots", 49)
    async def test_a_runtime_suspension_is_listed_with_its_payload(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The payload is the tool's own; there are no arguments."""
        shop = workshop([[tool_call("ask", {"q": "why"})], [text("thanks")]])
        async with application(store, shop, clock=clock, ids=ids):
            await park(shop.agent)

            listed = await shop.agent.list_suspended_runs()

        assert [call.to_wire() for call in listed.runs[0].tool_calls] == [
            {
                "toolCallId": "call_1",
                "toolName": "ask",
                "requiresApproval": False,
                "suspendPayload": {"question": "why"},
            }
        ]

    async def test_two_parked_calls_are_listed_in_call_order(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Tools that suspend without declaring it park side by side."""
        shop = workshop(_two_parks(), idempotent=False)
        async with application(store, shop, clock=clock, ids=ids):
            await park(shop.agent, active_tools=["park"])

            listed = await shop.agent.list_suspended_runs()

        assert ["call_a", "call_b"] == [c.tool_call_id for c in listed.runs[0].tool_calls]

    @case("snapshots", 53)
    async def test_an_agent_never_sees_the_runs_of_another(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Two agents share a store; a row without an owner is seen by nobody."""
        one, other = workshop(agent_id="one"), workshop(agent_id="other")
        async with application(store, one, other, clock=clock, ids=ids):
            mine = await park(one.agent)
            await park(other.agent, thread_id="thread_2")
            await store.workflows.persist_workflow_snapshot(
                workflow_name=OUTER_WORKFLOW,
                run_id="nobody",
                snapshot={"runId": "nobody", "status": "suspended", "context": {}},
            )

            listed = await one.agent.list_suspended_runs()

        assert [mine.run_id] == [run.run_id for run in listed.runs]
        assert listed.total == 1

    async def test_thread_and_resource_filter_exactly(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A run of another thread or resource is not in the list."""
        shop = workshop([deploy_calls("a"), deploy_calls("b")])
        async with application(store, shop, clock=clock, ids=ids):
            first = await park(shop.agent)
            await park(shop.agent, thread_id="thread_2", resource_id="user_2")

            by_thread = await shop.agent.list_suspended_runs(thread_id=THREAD)
            by_resource = await shop.agent.list_suspended_runs(resource_id=RESOURCE)
            nothing = await shop.agent.list_suspended_runs(thread_id="thread_9")
            mixed = await shop.agent.list_suspended_runs(thread_id=THREAD, resource_id="user_2")

        assert [first.run_id] == [run.run_id for run in by_thread.runs]
        assert [first.run_id] == [run.run_id for run in by_resource.runs]
        assert (nothing.total, mixed.total) == (0, 0)

    @case("snapshots", 58)
    async def test_a_page_size_alone_does_not_page(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Only page and per_page together cut the list."""
        shop = workshop([deploy_calls("a"), deploy_calls("b")])
        async with application(store, shop, clock=clock, ids=ids):
            await park(shop.agent)
            await park(shop.agent, thread_id="thread_2")

            listed = await shop.agent.list_suspended_runs(per_page=1)

        assert (2, 2) == (len(listed.runs), listed.total)

    @case("snapshots", 59)
    @pytest.mark.parametrize(
        "page", [{"per_page": 0}, {"per_page": -1}, {"per_page": 1.5}, {"per_page": True},
                 {"page": -1}, {"page": True}],
    )  # fmt: skip
    async def test_bad_pages_are_refused_before_storage_is_asked(
        self, store: Storage, clock: ShiftedClock, ids: Ids, page: dict[str, Any]
    ) -> None:
        """The error names the argument; the store gets no call."""
        calls: list[str] = []
        shop = workshop()
        async with application(faulty_storage(store, calls.append), shop, clock=clock, ids=ids):
            calls.clear()
            with pytest.raises(RunArgumentError) as raised:
                await shop.agent.list_suspended_runs(**page)

        expected = "PER_PAGE" if "per_page" in page else "PAGE"
        assert [] == calls
        assert f"AGENT_LIST_SUSPENDED_RUNS_INVALID_{expected}" == raised.value.id

    @case("snapshots", 61)
    async def test_a_run_says_when_it_was_suspended_and_is_found_by_its_creation(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Created Monday, suspended Tuesday."""
        monday, tuesday = at(0), at(86_400)
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            await store.workflows.persist_workflow_snapshot(
                workflow_name=OUTER_WORKFLOW,
                run_id="run1",
                snapshot=approval_run("run1", agent_id="helper"),
                created_at=monday,
                updated_at=tuesday,
            )

            late = await shop.agent.list_suspended_runs(from_date=tuesday)
            found = await shop.agent.list_suspended_runs(from_date=monday, to_date=monday)

        assert 0 == late.total
        assert [(monday, tuesday)] == [(run.created_at, run.suspended_at) for run in found.runs]

    @case("snapshots", 62)
    async def test_a_finished_run_is_not_listed(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Rows that are pending, running or successful don't wait for anybody."""
        shop = workshop([[text("hello")]])
        async with application(store, shop, clock=clock, ids=ids):
            await (await shop.agent.stream("hi", **ON_THREAD)).text
            for status in ("pending", "running", "success"):
                await store.workflows.persist_workflow_snapshot(
                    workflow_name=OUTER_WORKFLOW,
                    run_id=f"run-{status}",
                    snapshot={
                        "runId": f"run-{status}",
                        "status": status,
                        "context": {"input": {"agentId": "helper"}},
                    },
                )

            listed = await shop.agent.list_suspended_runs()

        assert listed.total == 0

    @case("snapshots", 63)
    async def test_a_restart_lists_the_same_runs_and_resumes_each(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A new application with the same agent id, tools and store goes on."""
        before = workshop([deploy_calls("a"), deploy_calls("b")])
        async with application(store, before, clock=clock, ids=ids):
            await park(before.agent)
            await park(before.agent, thread_id="thread_2")
            listed = await before.agent.list_suspended_runs()
        after = workshop([[text("one")], [text("two")]])
        async with application(store, after, clock=clock, ids=ids):
            again = await after.agent.list_suspended_runs()
            for run in again.runs:
                output = await after.agent.approve_tool_call(run.run_id)
                assert await output.finish_reason == "stop"
            left = await after.agent.list_suspended_runs()

        assert [run.to_wire() for run in listed.runs] == [run.to_wire() for run in again.runs]
        assert ["b", "a"] == [args["env"] for _, args, _ in after.executed]
        assert left.total == 0

    @case("snapshots", 64)
    async def test_the_cursor_neither_skips_nor_repeats(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Runs that end while the list is read change nothing for the others."""
        shop = workshop([deploy_calls(str(n)) for n in range(6)])
        async with application(store, shop, clock=clock, ids=ids):
            parked = []
            for number in range(6):
                parked.append((await park(shop.agent, thread_id=f"t{number}")).run_id)
                clock.advance(10)
            newest_first = list(reversed(parked))

            seen: list[str] = []
            after = None
            while True:
                page = await shop.agent.list_suspended_runs(per_page=2, after=after)
                if not page.runs:
                    break
                seen += [run.run_id for run in page.runs]
                last = page.runs[-1]
                assert last.created_at is not None
                after = (last.created_at, last.run_id)
                output = await shop.agent.decline_tool_call(page.runs[0].run_id)
                await output.wait()

        assert newest_first == seen


class ResumeSuite(Suite):
    """Approve, decline and resume, one answer at a time."""

    role = "runtime"
    capabilities = ("memory", "workflows", "workflows.claim_resume", "workflows.fenced_writes")

    @case("snapshots", 65)
    async def test_an_approved_call_runs_once_and_the_run_finishes(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The stream goes on to its end; both rows are gone."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            rows = await rows_of(store, output.run_id)

            resumed = await shop.agent.approve_tool_call(output.run_id, "call_1")
            types = await chunk_types(resumed.full_stream)

            left = await rows_of(store, output.run_id)

        assert [OUTER_WORKFLOW, INNER_WORKFLOW] == rows
        assert [("deploy", {"env": "prod"}, None)] == shop.executed
        assert "tool-result" == types[0]
        assert "finish" == types[-1]
        assert "start" not in types
        assert [] == left

    @case("snapshots", 66)
    @pytest.mark.parametrize(
        ("reason", "shown"),
        [
            ("Freeze until Monday", "Freeze until Monday"),
            ("   ", "Tool call was not approved by the user"),
            (None, "Tool call was not approved by the user"),
        ],
    )
    async def test_a_declined_call_never_runs_and_the_model_reads_why(
        self, store: Storage, clock: ShiftedClock, ids: Ids, reason: str | None, shown: str
    ) -> None:
        """A blank reason is the fixed text."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)

            resumed = await shop.agent.decline_tool_call(output.run_id, "call_1", reason)
            types = await chunk_types(resumed.full_stream)

            left = await rows_of(store, output.run_id)

        assert [] == shop.executed
        assert "tool-output-denied" == types[0]
        results = [turn for turn in shop.prompts()[-1] if turn["role"] == "tool"]
        assert {"type": "text", "value": shown} == results[0]["content"][0]["output"]
        assert [] == left

    async def test_an_unknown_run_fails_at_once_and_leaves_nothing(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """No row is made, and nobody looks for it again and again."""
        looks: list[str] = []
        shop = workshop()
        async with application(faulty_storage(store, looks.append), shop, clock=clock, ids=ids):
            looks.clear()
            with pytest.raises(RunNotFoundError) as raised:
                await shop.agent.approve_tool_call("no-such-run")
            seen = looks.count("workflows.load_workflow_snapshot:before")
            rows = await store.workflows.list_workflow_runs()

        assert "AGENT_RESUME_NO_SNAPSHOT_FOUND" == raised.value.id
        # Three times, in case its row is slow; among the rows of durable agents, too.
        assert 6 == seen
        assert rows.total == 0

    @case("snapshots", 68)
    async def test_a_finished_run_can_not_be_answered_again(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It is unknown, as if it had never been."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            await (await shop.agent.approve_tool_call(output.run_id)).wait()

            with pytest.raises(RunNotFoundError) as raised:
                await shop.agent.approve_tool_call(output.run_id)

        assert "AGENT_RESUME_NO_SNAPSHOT_FOUND" == raised.value.id
        assert len(shop.executed) == 1

    @case("snapshots", 69)
    async def test_a_wrong_call_id_executes_nothing(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The run is listed as before."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            before = await shop.agent.list_suspended_runs()

            with pytest.raises(NotSuspendedError) as raised:
                await shop.agent.approve_tool_call(output.run_id, "call_9")
            after = await shop.agent.list_suspended_runs()

        assert "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED" == raised.value.id
        assert [] == shop.executed
        assert before.model_dump() == after.model_dump()

    @case("snapshots", 74)
    async def test_two_parked_calls_need_a_name_or_all(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Without an id it is ambiguous; ``target="all"`` answers both."""
        shop = workshop(_two_parks())
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent, active_tools=["park"])
            with pytest.raises(AmbiguousRunError) as raised:
                await shop.agent.resume_stream({"x": 1}, run_id=output.run_id)

            resumed = await shop.agent.resume_stream({"x": 1}, run_id=output.run_id, target="all")
            results = [chunk["payload"]["result"] for chunk in await resumed.tool_results]

        assert "AGENT_RESUME_AMBIGUOUS_TOOL_CALL" == raised.value.id
        assert ["call_a", "call_b"] == raised.value.details["toolCallIds"]
        assert [
            {"parked": "a", "got": {"x": 1}},
            {"parked": "b", "got": {"x": 1}},
        ] == results

    @case("snapshots", 75)
    async def test_another_agent_can_not_answer(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Neither its model nor its tools are used."""
        owner, other = workshop(agent_id="owner"), workshop(agent_id="other")
        async with application(store, owner, other, clock=clock, ids=ids):
            output = await park(owner.agent)

            with pytest.raises(ForeignRunError) as raised:
                await other.agent.approve_tool_call(output.run_id)
            listed = await owner.agent.list_suspended_runs()

        assert "AGENT_RESUME_FOREIGN_RUN" == raised.value.id
        assert ([], []) == (owner.executed, other.executed)
        assert listed.total == 1

    @case("snapshots", 76)
    async def test_data_for_an_approval_is_refused(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The call is still parked."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)

            with pytest.raises(ResumeKindMismatchError) as raised:
                await shop.agent.resume_stream({"x": 1}, run_id=output.run_id)
            listed = await shop.agent.list_suspended_runs()

        assert "AGENT_RESUME_KIND_MISMATCH" == raised.value.id
        assert listed.total == 1
        assert [] == shop.executed

    async def test_an_approval_for_a_question_is_refused(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A suspension waits for data, not for a nod."""
        shop = workshop([[tool_call("ask", {"q": "why"})]])
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)

            with pytest.raises(ResumeKindMismatchError):
                await shop.agent.approve_tool_call(output.run_id)

        assert len(shop.executed) == 1

    @case("snapshots", 77)
    @pytest.mark.parametrize(
        ("answer", "kind"), [(0, "integer"), (False, "boolean"), ("", "string")]
    )
    async def test_a_falsy_answer_is_delivered(
        self, store: Storage, clock: ShiftedClock, ids: Ids, answer: Any, kind: str
    ) -> None:
        """Zero, False and an empty text are data."""
        shop = workshop([[tool_call("count", {})], [text("ok")]], counts=kind)
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)

            resumed = await shop.agent.resume_stream(answer, run_id=output.run_id)
            results = await resumed.tool_results

        (counted,) = [chunk["payload"]["result"]["counted"] for chunk in results]
        assert (answer, type(answer)) == (counted, type(counted))

    @case("snapshots", 78)
    async def test_data_that_does_not_fit_leaves_the_row_as_it_was(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Refused before the claim: not even ``updated_at`` moves."""
        shop = workshop([[tool_call("ask", {"q": "why"})]])
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            before = await store.workflows.load_workflow_run(
                workflow_name=OUTER_WORKFLOW, run_id=output.run_id, with_version=True
            )

            with pytest.raises(SchemaError):
                await shop.agent.resume_stream({"answer": 7}, run_id=output.run_id)
            after = await store.workflows.load_workflow_run(
                workflow_name=OUTER_WORKFLOW, run_id=output.run_id, with_version=True
            )

        assert before == after

    @case("snapshots", 79)
    async def test_an_answer_whose_process_died_can_be_given_again(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Killed between claim and tool: interrupted after the time to live, then resumed."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids) as app:
            output = await park(shop.agent)
            claim = app.snapshots.new_claim(
                claim_id="dead", owner="gone", target=["call_1"], payload=None, digest="x"
            )
            await store.workflows.claim_resume(
                workflow_name=OUTER_WORKFLOW, run_id=output.run_id, claim=claim
            )
            hidden = await shop.agent.list_suspended_runs()
            with pytest.raises(ResumeClaimedError):
                await shop.agent.approve_tool_call(output.run_id)
            await let_claim_expire(store, output.run_id)

            listed = await shop.agent.list_suspended_runs()
            resumed = await shop.agent.approve_tool_call(output.run_id)
            reason = await resumed.finish_reason

        assert hidden.total == 0
        assert ["interrupted"] == [run.resume_state for run in listed.runs]
        assert "stop" == reason
        assert len(shop.executed) == 1

    @case("snapshots", 80)
    async def test_a_result_that_was_stored_is_not_computed_again(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Killed after the tool: its receipt is the result."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids) as app:
            output = await park(shop.agent)
            claim = app.snapshots.new_claim(
                claim_id="dead",
                owner="gone",
                target=["call_1"],
                payload={"approved": True},
                digest="x",
            )
            await store.workflows.claim_resume(
                workflow_name=OUTER_WORKFLOW, run_id=output.run_id, claim=claim
            )
            for facts in ({"startedAt": 1}, {"finishedAt": 2, "result": {"deployed": "once"}}):
                await app.snapshots.record_receipt(
                    output.run_id,
                    "call_1",
                    {"decision": {"approved": True}, **facts},
                    claim_id="dead",
                )
            await let_claim_expire(store, output.run_id)

            await shop.agent.list_suspended_runs()
            resumed = await shop.agent.approve_tool_call(output.run_id)
            results = await resumed.tool_results

        assert [] == shop.executed
        assert [{"deployed": "once"}] == [chunk["payload"]["result"] for chunk in results]

    @case("snapshots", 81)
    async def test_a_call_that_died_at_work_is_not_repeated_silently(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Nobody knows whether it took effect; only an explicit wish repeats it."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids) as app:
            output = await park(shop.agent)
            await _die_while_running(app, store, output.run_id)
            await let_claim_expire(store, output.run_id)

            listed = await shop.agent.list_suspended_runs()
            with pytest.raises(NotSuspendedError) as raised:
                await shop.agent.approve_tool_call(output.run_id)
            silent = list(shop.executed)
            resumed = await shop.agent.approve_tool_call(output.run_id, rerun_unknown=True)
            reason = await resumed.finish_reason

        assert ["unknown"] == [run.resume_state for run in listed.runs]
        assert "AGENT_RESUME_STATE_UNKNOWN" == raised.value.id
        assert [] == silent
        assert ("stop", 1) == (reason, len(shop.executed))

    async def test_an_idempotent_call_that_died_at_work_is_repeated(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It gets the same idempotency key again."""
        shop = workshop(idempotent=True)
        async with application(store, shop, clock=clock, ids=ids) as app:
            output = await park(shop.agent)
            await _die_while_running(app, store, output.run_id)
            await let_claim_expire(store, output.run_id)

            await shop.agent.list_suspended_runs()
            resumed = await shop.agent.approve_tool_call(output.run_id)
            reason = await resumed.finish_reason

        assert ("stop", 1) == (reason, len(shop.executed))

    @case("snapshots", 82)
    async def test_an_answer_waits_for_a_slow_writer(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The announcement may be faster than the row: running or pending rows are re-read."""
        looked = asyncio.Event()

        def note(point: str) -> None:
            if point == "workflows.load_workflow_snapshot:after":
                looked.set()

        shop = workshop()
        async with application(faulty_storage(store, note), shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            snapshot = await store.workflows.load_workflow_snapshot(
                workflow_name=OUTER_WORKFLOW, run_id=output.run_id
            )
            assert snapshot is not None
            await store.workflows.persist_workflow_snapshot(
                workflow_name=OUTER_WORKFLOW,
                run_id=output.run_id,
                snapshot={**snapshot, "status": "pending"},
            )
            looked.clear()
            answer = asyncio.create_task(
                shop.agent.approve_tool_call(output.run_id, tool_call_id="call_1")
            )
            await looked.wait()
            clock.advance(2_900)
            looked.clear()
            await looked.wait()
            await store.workflows.persist_workflow_snapshot(
                workflow_name=OUTER_WORKFLOW, run_id=output.run_id, snapshot=snapshot
            )

            reason = await (await answer).finish_reason

        assert ("stop", 1) == (reason, len(shop.executed))

    @case("snapshots", 83)
    async def test_send_tool_approval_finds_the_run_of_a_thread_after_a_restart(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """One stored run: it is resumed. Two: ambiguous, unless the call is named."""
        before = workshop([deploy_calls("a"), [tool_call("deploy", {"env": "b"}, id="call_b")]])
        async with application(store, before, clock=clock, ids=ids):
            first = await park(before.agent)
        second_shop = workshop([[text("first is done")], [text("second is done")]])
        async with application(store, second_shop, clock=clock, ids=ids):
            accepted = await second_shop.agent.send_tool_approval(
                thread_id=THREAD, resource_id=RESOURCE, approved=True
            )
            await second_shop.agent.host.runs.join()
        async with application(store, before, clock=clock, ids=ids):
            one = await park(before.agent)
        third = workshop([deploy_calls("c"), [text("done")], [text("done")]])
        async with application(store, third, clock=clock, ids=ids):
            two = await park(third.agent)
            with pytest.raises(AmbiguousRunError) as raised:
                await third.agent.send_tool_approval(
                    thread_id=THREAD, resource_id=RESOURCE, approved=True
                )
            named = await third.agent.send_tool_approval(
                thread_id=THREAD, resource_id=RESOURCE, approved=True, tool_call_id="call_b"
            )
            await third.agent.host.runs.join()

        assert first.run_id == accepted["runId"]
        assert ["a"] == [args["env"] for _, args, _ in second_shop.executed]
        assert ["b"] == [args["env"] for _, args, _ in third.executed]
        assert {one.run_id, two.run_id} == set(raised.value.details["runIds"])  # type: ignore[arg-type]
        assert {"accepted": True, "runId": one.run_id, "toolCallId": "call_b"} == named

    @case("snapshots", 84)
    async def test_request_context_of_the_caller_wins_and_secrets_are_never_stored(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Missing keys come from the snapshot."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(
                shop.agent,
                request_context={"a": 1, "b": 1, "mastra__authToken": "secret"},
            )
            snapshot = await store.workflows.load_workflow_snapshot(
                workflow_name=OUTER_WORKFLOW, run_id=output.run_id
            )
            resumed = await shop.agent.approve_tool_call(
                output.run_id, request_context={"b": 2, "c": 3}
            )
            await resumed.wait()

        assert snapshot is not None
        assert {"a": 1, "b": 1} == snapshot["requestContext"]
        assert "secret" not in str(snapshot)
        assert {"a": 1, "b": 2, "c": 3} == shop.contexts[-1]

    @case("snapshots", 88)
    async def test_a_snapshot_of_a_newer_version_is_listed_but_not_resumed(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Refusing is better than guessing."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            snapshot = await store.workflows.load_workflow_snapshot(
                workflow_name=OUTER_WORKFLOW, run_id=output.run_id
            )
            assert snapshot is not None
            await store.workflows.persist_workflow_snapshot(
                workflow_name=OUTER_WORKFLOW,
                run_id=output.run_id,
                snapshot={**snapshot, "schemaVersion": 99},
            )

            listed = await shop.agent.list_suspended_runs()
            with pytest.raises(WireVersionError) as raised:
                await shop.agent.approve_tool_call(output.run_id)

        assert listed.total == 1
        assert "SNAPSHOT_VERSION_UNSUPPORTED" == raised.value.id

    @case("snapshots", 90)
    async def test_a_cancelled_run_is_not_listed_and_a_finished_one_can_not_be_cancelled(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Its rows and the marks in its message are gone; the thread is free."""
        shop = workshop([deploy_calls("a"), [text("next")]])
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)

            cancelled = await shop.agent.cancel_run(output.run_id)
            listed = await shop.agent.list_suspended_runs()
            left = await rows_of(store, output.run_id)
            page = await store.memory.list_messages(THREAD)
            finished = await shop.agent.stream("more", **ON_THREAD)
            await finished.wait()
            before = await store.memory.list_messages(THREAD)
            again = await shop.agent.cancel_run(finished.run_id)
            after = await store.memory.list_messages(THREAD)

        assert (True, False) == (cancelled, again)
        assert (0, []) == (listed.total, left)
        assert "pendingToolApprovals" not in str([m.content for m in page.messages])
        assert "next" in str(after.messages[-1].content)
        assert before.messages == after.messages
        assert [] == shop.executed

    async def test_a_run_is_cancelled_only_by_its_agent(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Others are refused."""
        owner, other = workshop(agent_id="owner"), workshop(agent_id="other")
        async with application(store, owner, other, clock=clock, ids=ids):
            output = await park(owner.agent)

            with pytest.raises(ForeignRunError):
                await other.agent.cancel_run(output.run_id)
            listed = await owner.agent.list_suspended_runs()

        assert listed.total == 1


class RivalAnswersSuite(Suite):
    """Several answers at once: exactly one is obeyed (snapshots.md G1, G2)."""

    role = "runtime"
    capabilities = ("memory", "workflows", "workflows.claim_resume", "workflows.fenced_writes")
    tier = 2

    @case("snapshots", 70)
    async def test_ten_approvals_at_once_run_the_tool_once(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Nine get the claim error."""
        shop = workshop(gate="all have asked")
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)

            answers = await asyncio.gather(
                *(shop.agent.approve_tool_call(output.run_id, "call_1") for _ in range(10)),
                return_exceptions=True,
            )
            won = [a for a in answers if isinstance(a, ModelOutput)]
            shop.gates.open("all have asked")
            for one in won:
                await one.wait()

        lost = [a for a in answers if isinstance(a, ResumeClaimedError)]
        assert (1, 9) == (len(won), len(lost))
        assert {"AGENT_RESUME_ALREADY_CLAIMED"} == {error.id for error in lost}
        assert len(shop.executed) == 1

    @pytest.mark.parametrize("next_id", ["call_1", "call_2"])
    @pytest.mark.parametrize("target", [{}, {"tool_call_id": "call_1"}, {"target": "all"}])
    async def test_an_approval_that_came_too_late_does_not_reach_the_next_call(
        self, store: Storage, clock: ShiftedClock, ids: Ids, target: dict[str, Any], next_id: str
    ) -> None:
        """Nobody has seen that one yet: it waits for an answer of its own (G1)."""
        following = tool_call("deploy", {"env": "test"}, id=next_id)
        shop = workshop([deploy_calls("prod"), [following], [text("done")]])
        late: asyncio.Task[ModelOutput] | None = None
        has_looked, may_claim = asyncio.Event(), asyncio.Event()

        async def hold(point: str) -> None:
            if point == "workflows.claim_resume:before" and asyncio.current_task() is late:
                has_looked.set()
                await may_claim.wait()

        async with application(faulty_storage(store, hold), shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            late = asyncio.create_task(
                shop.agent.resume_stream({"approved": True}, run_id=output.run_id, **target)
            )
            await has_looked.wait()
            await (await shop.agent.approve_tool_call(output.run_id)).wait()
            may_claim.set()
            with pytest.raises(ResumeClaimedError):
                await late
            waiting = await shop.agent.list_suspended_runs()

        assert 1 == len(shop.executed)
        assert ["test"] == [call.args["env"] for run in waiting.runs for call in run.tool_calls]

    @case("snapshots", 71)
    @several_processes()
    async def test_two_processes_that_approve_at_once_run_the_tool_once(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """Each has its own connection to the same rows; one of them is refused."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
        worker = "mastra_conformance.suites.runtime.workers:approve"

        async with (
            processes.start(worker, run_id=output.run_id) as one,
            processes.start(worker, run_id=output.run_id) as other,
        ):
            for each in (one, other):
                await each.reached("ready")
            for each in (one, other):
                await each.go()
            for each in (one, other):
                await each.reached("asked")
            for each in (one, other):
                await each.go()
            results = [await each.result() for each in (one, other)]
        left = await rows_of(store, output.run_id)

        assert 1 == sum(result["executed"] for result in results)
        assert ["stop"] == [result["reason"] for result in results if result["won"]]
        assert ["AGENT_RESUME_ALREADY_CLAIMED"] == [
            result["error"] for result in results if not result["won"]
        ]
        assert [] == left

    @case("streaming", 19)
    @several_processes()
    async def test_a_run_is_approved_in_another_process(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """The tool runs there, once; the run finishes there, and no row is left."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
        worker = "mastra_conformance.suites.runtime.workers:approve"

        async with processes.start(worker, run_id=output.run_id) as other:
            await other.reached("ready")
            await other.go()
            await other.reached("asked")
            await other.go()
            result = await other.result()
        left = await rows_of(store, output.run_id)

        assert {"won": True, "reason": "stop", "executed": 1} == result
        assert [] == shop.executed
        assert [] == left

    @case("snapshots", 72)
    async def test_approval_and_refusal_at_once_obey_one(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """What was executed is what the message says was decided."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)

            answers = await asyncio.gather(
                shop.agent.approve_tool_call(output.run_id, "call_1"),
                shop.agent.decline_tool_call(output.run_id, "call_1", "no"),
                return_exceptions=True,
            )
            won = [a for a in answers if isinstance(a, ModelOutput)]
            for one in won:
                await one.wait()
            page = await store.memory.list_messages(THREAD)

        decisions = [
            part["toolInvocation"]["approval"]["approved"]
            for message in page.messages
            for part in message.content["parts"]
            if part["type"] == "tool-invocation"
        ]
        assert len(won) == 1
        assert [bool(shop.executed)] == decisions

    @case("snapshots", 73)
    async def test_answers_to_two_siblings_at_once_both_count(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Both tools ran once and the model gets both results."""
        shop = workshop(_two_parks())
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent, active_tools=["park"])

            answers = await asyncio.gather(
                shop.agent.resume_stream({"n": 1}, run_id=output.run_id, tool_call_id="call_a"),
                shop.agent.resume_stream({"n": 2}, run_id=output.run_id, tool_call_id="call_b"),
            )
            for one in answers:
                await one.wait()

        resumed = sorted(args["name"] for _, args, data in shop.executed if data is not None)
        assert ["a", "b"] == resumed
        results = [turn for turn in shop.prompts()[-1] if turn["role"] == "tool"][-1]
        assert [
            {"parked": "a", "got": {"n": 1}},
            {"parked": "b", "got": {"n": 2}},
        ] == [part["output"]["value"] for part in results["content"]]

    async def test_a_frozen_answer_does_nothing_more_when_it_wakes(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Taken over while it was in its model: no further tool, no second answer, no row."""
        slow = workshop(
            [
                deploy_calls("prod"),
                [{"type": "gate", "name": "frozen"}, tool_call("echo", {"text": "x"}, id="late")],
                [text("second answer")],
            ]
        )
        quick = workshop([[text("first answer")]])
        async with application(store, slow, clock=clock, ids=ids):
            output = await park(slow.agent)
            frozen = await slow.agent.approve_tool_call(output.run_id)
            await slow.gates.reached("frozen")
            await _take_over(store, output.run_id)
            async with application(store, quick, clock=clock, ids=ids):
                taken = await quick.agent.approve_tool_call(output.run_id)
                reason = await taken.finish_reason
            slow.gates.open("frozen")
            await frozen.wait()
            rows = (await store.memory.list_messages(THREAD)).messages

        assert "stop" == reason
        assert isinstance(await frozen.error, FencedOutError)
        assert ["deploy"] == [name for name, _, _ in slow.executed]
        assert [] == quick.executed
        assert "first answer" == rows[-1].content["content"]
        assert "second answer" not in str([row.content for row in rows])
        assert "pendingToolApprovals" not in str([row.content for row in rows])

    async def test_a_tool_that_was_frozen_leaves_the_successors_rows_alone(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Taken over while the approved tool ran: the finished call stays finished."""
        slow = workshop(gate="frozen")
        quick = workshop([[text("first answer")]])
        async with application(store, slow, clock=clock, ids=ids):
            output = await park(slow.agent)
            frozen = await slow.agent.approve_tool_call(output.run_id)
            await slow.gates.reached("frozen")
            await _take_over(store, output.run_id)
            async with application(store, quick, clock=clock, ids=ids):
                taken = await quick.agent.approve_tool_call(output.run_id, rerun_unknown=True)
                await taken.wait()
            before = (await store.memory.list_messages(THREAD)).messages
            slow.gates.open("frozen")
            await frozen.wait()
            after = (await store.memory.list_messages(THREAD)).messages

        assert isinstance(await frozen.error, FencedOutError)
        assert before == after
        assert "first answer" == after[-1].content["content"]

    async def test_a_cancelled_answer_leaves_no_claim(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Whoever gives up while asking for the claim doesn't keep the run from others."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            reached = asyncio.Event()
            inner = store.workflows.claim_resume

            async def claim_and_wait(**arguments: Any) -> Any:
                outcome = await inner(**arguments)
                reached.set()
                await asyncio.Event().wait()
                return outcome

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(store.workflows, "claim_resume", claim_and_wait)
                asking = asyncio.create_task(shop.agent.approve_tool_call(output.run_id))
                await reached.wait()
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
            listed = await shop.agent.list_suspended_runs()
            resumed = await shop.agent.approve_tool_call(output.run_id)
            reason = await resumed.finish_reason

        assert (1, "stop") == (listed.total, reason)
        assert len(shop.executed) == 1

    async def test_a_writer_that_lost_its_claim_is_refused(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A process that was frozen past its claim can't overwrite its successor."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids) as app:
            output = await park(shop.agent)
            claim = app.snapshots.new_claim(
                claim_id="frozen", owner="old", target=["call_1"], payload=None, digest="x"
            )
            await store.workflows.claim_resume(
                workflow_name=OUTER_WORKFLOW, run_id=output.run_id, claim=claim
            )
            await let_claim_expire(store, output.run_id)
            await shop.agent.list_suspended_runs()

            with pytest.raises(FencedOutError) as raised:
                await store.workflows.persist_workflow_snapshot(
                    workflow_name=OUTER_WORKFLOW,
                    run_id=output.run_id,
                    snapshot={"runId": output.run_id, "status": "suspended"},
                    claim_id="frozen",
                )

        assert "STALE_CLAIM" == raised.value.id


def _two_parks() -> list[list[dict[str, Any]]]:
    return [
        [
            tool_call("park", {"name": "a"}, id="call_a"),
            tool_call("park", {"name": "b"}, id="call_b"),
        ],
        [text("both")],
    ]


async def let_claim_expire(store: Storage, run_id: str) -> None:
    """Make the claim of a run one that ended long ago, whoever's clock decides."""
    snapshot = await store.workflows.load_workflow_snapshot(
        workflow_name=OUTER_WORKFLOW, run_id=run_id
    )
    assert snapshot is not None
    claim = {**snapshot["resumeClaim"], "expiresAt": "2000-01-01T00:00:00.000Z"}
    await store.workflows.persist_workflow_snapshot(
        workflow_name=OUTER_WORKFLOW,
        run_id=run_id,
        snapshot={**snapshot, "resumeClaim": claim},
    )


async def _take_over(store: Storage, run_id: str) -> None:
    """What others see of a process that is frozen past its claim: the run waits again."""
    await let_claim_expire(store, run_id)
    recovered = await store.workflows.recover_expired_claims(workflow_names=(OUTER_WORKFLOW,))
    assert recovered == 1


async def _die_while_running(app: Any, store: Storage, run_id: str) -> None:
    """Leave what a process leaves that dies inside the tool."""
    claim = app.snapshots.new_claim(
        claim_id="dead",
        owner="gone",
        target=["call_1"],
        payload={"approved": True},
        digest="x",
    )
    await store.workflows.claim_resume(workflow_name=OUTER_WORKFLOW, run_id=run_id, claim=claim)
    await app.snapshots.record_receipt(
        run_id,
        "call_1",
        {"decision": {"approved": True}, "startedAt": 1},
        claim_id="dead",
    )
