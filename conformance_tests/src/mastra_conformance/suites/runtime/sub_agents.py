"""Runs of supervisors whose sub-agents wait for a person (snapshots.md 8.3)."""

from __future__ import annotations

import asyncio
from typing import Any

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.suite import Suite
from mastra_conformance.suites.runtime.agents import (
    RESOURCE,
    THREAD,
    Workshop,
    application,
    deploy_calls,
    workshop,
)
from mastra_conformance.suites.runtime.suspended_runs import park, rows_of
from mastra_core import Agent
from mastra_core.base.ids import Ids
from mastra_core.contracts.storage import Storage
from mastra_core.errors import ResumeClaimedError
from mastra_core.streaming.output import ModelOutput
from mastra_core.testing.scripted_model import Gates, Script, ScriptedModel, text, tool_call

__all__ = ("RivalSupervisorsSuite", "SubAgentSuite")

_ASK = tool_call("agent-worker", {"prompt": "Deploy it."}, id="outer")


def _supervisor(worker: Workshop, *calls: Script) -> Workshop:
    """An agent that may call the worker."""
    gates = Gates()
    model = ScriptedModel(calls, gates=gates)
    agent = Agent(id="boss", instructions="Delegate.", model=model, agents=[worker.agent])
    return Workshop(agent=agent, model=model, gates=gates)


def _team(*, has_begun: bool, gate: str | None = None) -> tuple[Workshop, Workshop]:
    """
    A supervisor and its worker: before the run was parked, or ready to go on with it.

    With ``gate`` the worker's tool waits there.
    """
    said: list[Any] = [[text("deployed")]] if has_begun else [deploy_calls("prod")]
    worker = workshop(said, agent_id="worker", gate=gate)
    return _supervisor(worker, [text("all done")] if has_begun else [_ASK]), worker


class SubAgentSuite(Suite):
    """One answer at a time, given to the outer run."""

    role = "runtime"
    capabilities = ("memory", "workflows", "workflows.claim_resume", "workflows.fenced_writes")

    @case("snapshots", 54)
    async def test_each_agent_lists_its_own_run(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The supervisor the outer one, with what the inner tool is to do."""
        boss, worker = _team(has_begun=False)
        async with application(store, boss, clock=clock, ids=ids):
            output = await park(boss.agent)
            [outer] = (await boss.agent.list_suspended_runs()).runs
            [inner] = (await worker.agent.list_suspended_runs()).runs

        [asked], [waits] = outer.tool_calls, inner.tool_calls
        assert (output.run_id, THREAD, RESOURCE) == (
            outer.run_id,
            outer.thread_id,
            outer.resource_id,
        )
        assert ("outer", "deploy", {"env": "prod"}, True) == (
            asked.tool_call_id,
            asked.tool_name,
            asked.args,
            asked.requires_approval,
        )
        assert ("call_1", "deploy") == (waits.tool_call_id, waits.tool_name)
        assert inner.run_id != outer.run_id
        assert f"{RESOURCE}-worker" == inner.resource_id
        assert (inner.thread_id or "").startswith(f"{THREAD}-")

    async def test_an_answer_after_a_restart_reaches_the_inner_tool(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It runs once, both runs finish, and no row is left."""
        boss, worker = _team(has_begun=False)
        async with application(store, boss, clock=clock, ids=ids):
            output = await park(boss.agent)
            [inner] = (await worker.agent.list_suspended_runs()).runs
        boss, worker = _team(has_begun=True)
        async with application(store, boss, clock=clock, ids=ids):
            output = await boss.agent.approve_tool_call(output.run_id, "outer")
            said = await output.text
            left = [await rows_of(store, run_id) for run_id in (output.run_id, inner.run_id)]
            assert inner.thread_id is not None
            kept = await store.memory.list_messages(inner.thread_id)

        assert ("all done", [[], []]) == (said, left)
        assert [("deploy", {"env": "prod"}, None)] == worker.executed
        assert ["user", "assistant", "assistant"] == [row.role for row in kept.messages]

    async def test_a_refusal_is_read_by_the_inner_model(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The tool never runs; both runs finish."""
        boss, _ = _team(has_begun=False)
        async with application(store, boss, clock=clock, ids=ids):
            output = await park(boss.agent)
        boss, worker = _team(has_begun=True)
        async with application(store, boss, clock=clock, ids=ids):
            output = await boss.agent.decline_tool_call(output.run_id, "outer", "Not on Fridays.")
            said = await output.text

        assert ("all done", []) == (said, worker.executed)
        assert "Not on Fridays." in str(worker.prompts()[0])

    async def test_a_cancelled_run_leaves_no_inner_row(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The run of the sub-agent goes with it."""
        boss, worker = _team(has_begun=False)
        async with application(store, boss, clock=clock, ids=ids):
            output = await park(boss.agent)
            [inner] = (await worker.agent.list_suspended_runs()).runs

            await boss.agent.cancel_run(output.run_id)

            left = [await rows_of(store, run_id) for run_id in (output.run_id, inner.run_id)]
        assert [[], []] == left


class RivalSupervisorsSuite(Suite):
    """Several answers to the outer run at once."""

    role = "runtime"
    capabilities = ("memory", "workflows", "workflows.claim_resume", "workflows.fenced_writes")
    tier = 2

    async def test_ten_approvals_at_once_run_the_inner_tool_once(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Nine are refused before the sub-agent hears of anything."""
        boss, _ = _team(has_begun=False)
        async with application(store, boss, clock=clock, ids=ids):
            output = await park(boss.agent)
        boss, worker = _team(has_begun=True, gate="all have asked")
        async with application(store, boss, clock=clock, ids=ids):
            answers = await asyncio.gather(
                *(boss.agent.approve_tool_call(output.run_id, "outer") for _ in range(10)),
                return_exceptions=True,
            )
            won = [answer for answer in answers if isinstance(answer, ModelOutput)]
            worker.gates.open("all have asked")
            for one in won:
                await one.wait()

        lost = [answer for answer in answers if isinstance(answer, ResumeClaimedError)]
        assert (1, 9, 1) == (len(won), len(lost), len(worker.executed))
