"""Runs that durable agents of the TypeScript system left behind go on here (snapshots.md 4, 9).

The rows in ``data/durable_runs.json`` are recorded ones, without the sources of that system's
functions that stand in their graphs.
"""

from __future__ import annotations

import asyncio
import json
from importlib.resources import files
from typing import Any

import pytest

from mastra_conformance.clock import ShiftedClock
from mastra_conformance.suite import Suite
from mastra_conformance.suites.runtime.agents import Workshop, application, workshop
from mastra_core import Agent
from mastra_core.base.ids import Ids
from mastra_core.contracts.storage import Storage
from mastra_core.errors import ForeignRunError, NotSuspendedError, ResumeClaimedError
from mastra_core.streaming.output import ModelOutput
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call
from mastra_core.wire.snapshots import DURABLE_OUTER_WORKFLOW

__all__ = ("DurableRunSuite", "recorded_rows")

_THREAD = "thread_1"
_RESOURCE = "user_1"
_APPROVE = {"approved": True}


def recorded_rows(name: str) -> list[dict[str, Any]]:
    """The rows of one recorded run, as arguments of ``persist_workflow_snapshot``."""
    recorded = files("mastra_conformance").joinpath("data/durable_runs.json")
    return list(json.loads(recorded.read_text("utf-8"))[name])


async def _leave(store: Storage, name: str) -> str:
    """Put a recorded run into the store; its id."""
    rows = recorded_rows(name)
    await store.workflows.persist_workflow_snapshots(rows)
    [run_id] = [r["run_id"] for r in rows if r["workflow_name"] == DURABLE_OUTER_WORKFLOW]
    return str(run_id)


async def _is_empty(store: Storage) -> bool:
    return (await store.workflows.list_workflow_runs()).total == 0


def _results(shop: Workshop) -> list[str]:
    """What the last request showed of tools."""
    return [str(turn["content"]) for turn in shop.prompts()[-1] if turn["role"] == "tool"]


class DurableRunSuite(Suite):
    """Approvals and suspensions of durable agents, answered here."""

    role = "runtime"
    capabilities = ("memory", "workflows", "workflows.claim_resume", "workflows.fenced_writes")

    async def test_an_approved_call_runs_once_and_the_run_ends(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The conversation is stored; the rows are gone."""
        shop = workshop([[text("done")]])
        async with application(store, shop, clock=clock, ids=ids):
            run_id = await _leave(store, "approval")
            listed = await shop.agent.list_suspended_runs(thread_id=_THREAD)
            output = await shop.agent.approve_tool_call(run_id)
            said = await output.text
            page = await store.memory.list_messages(_THREAD, resource_id=_RESOURCE)
            is_empty = await _is_empty(store)

        assert [run_id] == [run.run_id for run in listed.runs]
        assert ("done", True) == (said, is_empty)
        assert [("deploy", {"env": "prod"}, None)] == shop.executed
        # Its user message was stored over there.
        assert ["assistant", "assistant"] == [message.role for message in page.messages]
        assert "deploy it" in str(shop.prompts()[0])

    async def test_a_declined_call_never_runs(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The model reads why; the rows are gone."""
        shop = workshop([[text("then not")]])
        async with application(store, shop, clock=clock, ids=ids):
            run_id = await _leave(store, "approval")
            output = await shop.agent.decline_tool_call(run_id, "call_1", "not today")
            said = await output.text
            is_empty = await _is_empty(store)

        assert ("then not", True, []) == (said, is_empty, shop.executed)
        assert "not today" in str(_results(shop))

    async def test_a_tool_that_asked_gets_its_answer(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It runs again, with the data and what it had asked."""
        shop = workshop([[text("thanks")]])
        async with application(store, shop, clock=clock, ids=ids):
            run_id = await _leave(store, "suspension")
            output = await shop.agent.resume_stream({"answer": "left"}, run_id=run_id)
            said = await output.text
            is_empty = await _is_empty(store)

        assert ("thanks", True) == (said, is_empty)
        assert [("ask", {}, {"answer": "left"})] == shop.executed

    async def test_what_had_ended_is_not_done_again(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """
        Three calls in the second step: one had ended over there, two are asked about one after
        the other. All results, and the step before, reach the model.
        """
        shop = workshop([[text("all done")]])
        async with application(store, shop, clock=clock, ids=ids):
            run_id = await _leave(store, "siblings")
            first = await shop.agent.approve_tool_call(run_id, "call_2")
            reason = await first.finish_reason
            [between] = (await shop.agent.list_suspended_runs()).runs
            second = await shop.agent.approve_tool_call(run_id, "call_3")
            await second.wait()
            full = second.full_output()
            is_empty = await _is_empty(store)

        assert ("suspended", ["call_3"]) == (
            reason,
            [call.tool_call_id for call in between.tool_calls],
        )
        assert [("deploy", {"env": "prod"}, None), ("deploy", {"env": "test"}, None)] == (
            shop.executed
        )
        assert is_empty
        told = str(shop.prompts()[-1])
        for call_id in ("call_0", "call_1", "call_2", "call_3"):
            assert call_id in str(_results(shop))
        assert told.index("thinking") < told.index("two")
        assert ["thinking", "two", "all done"] == [step["text"] for step in full["steps"]]

    async def test_a_supervisor_is_answered_for_its_sub_agent(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Its tool runs once; both runs end."""
        worker = workshop([[text("deployed")]], agent_id="worker")
        gates = Gates()
        model = ScriptedModel([[text("done")]], gates=gates)
        agent = Agent(id="boss", model=model, agents=[worker.agent])
        boss = Workshop(agent=agent, model=model, gates=gates)
        async with application(store, boss, clock=clock, ids=ids):
            run_id = await _leave(store, "delegated")
            [run] = (await agent.list_suspended_runs()).runs
            output = await agent.approve_tool_call(run_id, "outer")
            said = await output.text
            is_empty = await _is_empty(store)

        assert ["deploy"] == [call.tool_name for call in run.tool_calls]
        assert ("done", True) == (said, is_empty)
        assert [("deploy", {"env": "prod"}, None)] == worker.executed

    async def test_a_run_whose_calls_all_need_approval_stays_one(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A later call of a tool that needs none waits, too; and again, and ends."""
        shop = workshop([[tool_call("echo", {"text": "x"}, id="call_2")], [text("done")]])
        async with application(store, shop, clock=clock, ids=ids):
            run_id = await _leave(store, "all_need_approval")
            first = await shop.agent.approve_tool_call(run_id)
            reason = await first.finish_reason
            executed = [name for name, _, _ in shop.executed]
            second = await shop.agent.approve_tool_call(run_id)
            said = await second.text
            is_empty = await _is_empty(store)

        assert ("suspended", ["deploy"]) == (reason, executed)
        assert ("done", True) == (said, is_empty)
        assert ["deploy", "echo"] == [name for name, _, _ in shop.executed]

    async def test_of_ten_answers_at_once_one_counts(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The others are told that somebody else answers (G1)."""
        shop = workshop([[text("done")]], gate="all have asked")
        async with application(store, shop, clock=clock, ids=ids):
            run_id = await _leave(store, "approval")
            answers = await asyncio.gather(
                *(shop.agent.approve_tool_call(run_id, "call_1") for _ in range(10)),
                return_exceptions=True,
            )
            [won] = [answer for answer in answers if isinstance(answer, ModelOutput)]
            shop.gates.open("all have asked")
            await won.wait()

        assert 9 == sum(isinstance(answer, ResumeClaimedError) for answer in answers)
        assert 1 == len(shop.executed)

    async def test_a_crash_in_the_tool_is_seen(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The call is listed as unknown and doesn't run again by itself (G4)."""
        shop = workshop([[text("done")]])
        async with application(store, shop, clock=clock, ids=ids) as app:
            run_id = await _leave(store, "approval")
            await _die_in_the_tool(app.snapshots, store, run_id)
            [run] = (await shop.agent.list_suspended_runs()).runs
            with pytest.raises(NotSuspendedError) as raised:
                await shop.agent.approve_tool_call(run_id, "call_1")
            output = await shop.agent.approve_tool_call(run_id, "call_1", rerun_unknown=True)
            said = await output.text

        assert "unknown" == run.resume_state
        assert "AGENT_RESUME_STATE_UNKNOWN" == raised.value.id
        assert ("done", 1) == (said, len(shop.executed))

    async def test_another_agent_is_refused(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It neither sees nor answers the run, nor ends it (G5)."""
        shop = workshop([[text("done")]], agent_id="other")
        async with application(store, shop, clock=clock, ids=ids):
            run_id = await _leave(store, "approval")
            listed = await shop.agent.list_suspended_runs()
            with pytest.raises(ForeignRunError):
                await shop.agent.approve_tool_call(run_id, "call_1")
            with pytest.raises(ForeignRunError):
                await shop.agent.cancel_run(run_id)

        assert (0, []) == (listed.total, shop.executed)

    async def test_a_run_can_be_ended_without_an_answer(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Its rows are gone; its tool didn't run."""
        shop = workshop([[text("done")]])
        async with application(store, shop, clock=clock, ids=ids):
            run_id = await _leave(store, "approval")
            ended = await shop.agent.cancel_run(run_id)
            is_empty = await _is_empty(store)

        assert (True, True, []) == (ended, is_empty, shop.executed)


async def _die_in_the_tool(snapshots: Any, store: Storage, run_id: str) -> None:
    """Leave what a process leaves that dies inside the tool, long ago."""
    durable = snapshots.durable()
    claim = durable.new_claim(
        claim_id="dead", owner="gone", target=["call_1"], payload=_APPROVE, digest="x"
    )
    await durable.claim(run_id, claim)
    started = {"decision": _APPROVE, "startedAt": 1}
    await durable.record_receipt(run_id, "call_1", started, claim_id="dead")
    outer = await durable.load_outer(run_id)
    past = {**outer["resumeClaim"], "expiresAt": "2000-01-01T00:00:00.000Z"}
    await store.workflows.persist_workflow_snapshot(
        workflow_name=DURABLE_OUTER_WORKFLOW,
        run_id=run_id,
        snapshot={**outer, "resumeClaim": past},
    )
