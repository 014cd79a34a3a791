"""Processes die with an answer in their hands; another one goes on (snapshots.md 12, G4).

Children are really killed. What they had written by then is all that their successor knows.
"""

from __future__ import annotations

from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.processes import Processes, WorkerDiedError
from mastra_conformance.suite import Suite, several_processes
from mastra_conformance.suites.runtime.agents import application, workshop
from mastra_conformance.suites.runtime.suspended_runs import let_claim_expire, park, rows_of
from mastra_conformance.suites.runtime.workers import die_approving
from mastra_core.base.ids import Ids
from mastra_core.contracts.storage import Storage
from mastra_core.errors import NotSuspendedError

__all__ = ("AnswerCrashSuite",)


async def _killed(processes: Processes, **arguments: Any) -> None:
    """A process approved a run and died at a point of the store."""
    async with processes.start(die_approving, **arguments) as worker:
        with pytest.raises(WorkerDiedError, match="code 77"):
            await worker.result()


@several_processes()
class AnswerCrashSuite(Suite):
    """Each test kills a process that answers, and looks at what the next one makes of it."""

    role = "runtime"
    capabilities = ("memory", "workflows", "workflows.claim_resume", "workflows.fenced_writes")
    tier = 2

    @case("snapshots", 79)
    async def test_killed_before_the_tool_the_run_can_be_answered_again(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """Hidden as long as the claim counts, then listed as interrupted, then resumed."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            await _killed(processes, run_id=output.run_id, point="workflows.claim_resume:after")
            hidden = await shop.agent.list_suspended_runs()
            await let_claim_expire(store, output.run_id)

            listed = await shop.agent.list_suspended_runs()
            resumed = await shop.agent.approve_tool_call(output.run_id)
            reason = await resumed.finish_reason
            left = await rows_of(store, output.run_id)

        assert 0 == hidden.total
        assert ["interrupted"] == [run.resume_state for run in listed.runs]
        assert ("stop", 1, []) == (reason, len(shop.executed), left)

    @case("snapshots", 80)
    async def test_killed_after_the_tool_its_result_is_used(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """The second receipt holds the result; the tool isn't run again."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            await _killed(
                processes,
                run_id=output.run_id,
                point="workflows.record_receipt:after",
                visit=2,
            )
            await let_claim_expire(store, output.run_id)

            await shop.agent.list_suspended_runs()
            resumed = await shop.agent.approve_tool_call(output.run_id)
            results = await resumed.tool_results

        assert [] == shop.executed
        assert [{"deployed": "prod"}] == [chunk["payload"]["result"] for chunk in results]

    @case("snapshots", 81)
    async def test_killed_in_the_tool_nobody_knows_whether_it_took_effect(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """Listed as unknown, and not repeated without being asked to."""
        shop = workshop()
        async with application(store, shop, clock=clock, ids=ids):
            output = await park(shop.agent)
            async with processes.start(die_approving, run_id=output.run_id) as worker:
                await worker.reached("working")
                await worker.kill()
            await let_claim_expire(store, output.run_id)

            listed = await shop.agent.list_suspended_runs()
            with pytest.raises(NotSuspendedError) as raised:
                await shop.agent.approve_tool_call(output.run_id)

        assert ["unknown"] == [run.resume_state for run in listed.runs]
        assert "AGENT_RESUME_STATE_UNKNOWN" == raised.value.id
        assert [] == shop.executed
