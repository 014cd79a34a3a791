"""What second processes of the runtime suites do."""

from __future__ import annotations

import os
from typing import Any

from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.runtime.agents import application, workshop
from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.errors import ResumeClaimedError
from mastra_core.testing.faults import CRASH_EXIT, Hook, faulty_storage
from mastra_core.testing.scripted_model import text

__all__ = ("approve", "die_approving")


async def approve(context: WorkerContext) -> dict[str, Any]:
    """
    Approve one run as soon as the test says go; tells who won and what was executed.

    The tool waits until the test has heard that everybody ``asked``: whoever came after the
    end of the run would find nothing to approve.
    """
    shop = workshop([[text("done")]], gate="asked")
    async with (
        context.open_store() as store,
        application(store, shop, clock=SystemClock(), ids=UuidIds()),
    ):
        await context.reach("ready")
        try:
            output = await shop.agent.approve_tool_call(context.arguments["run_id"], "call_1")
        except ResumeClaimedError as exc:
            await context.reach("asked")
            return {"won": False, "error": exc.id, "executed": len(shop.executed)}
        await context.reach("asked")
        shop.gates.open("asked")
        reason = await output.finish_reason
        return {"won": True, "reason": reason, "executed": len(shop.executed)}


async def die_approving(context: WorkerContext) -> None:
    """
    Approve one run and come to grief with it.

    Arguments: ``run_id``, and ``point`` of the store with ``visit`` (which of them is the
    last). Without a point the tool stands still at ``working``, and the test kills us.
    """
    given = context.arguments
    point = given.get("point")
    shop = workshop([[text("done")]], gate=None if point else "working")
    async with context.open_store() as store:
        guarded = faulty_storage(store, _die_at(point, given.get("visit", 1)))
        async with application(guarded, shop, clock=context.opener.clock, ids=UuidIds()):
            output = await shop.agent.approve_tool_call(given["run_id"], "call_1")
            if point is None:
                await shop.gates.reached("working")
                await context.reach("working")
            await output.wait()


def _die_at(point: str | None, visit: int) -> Hook:
    visits = 0

    def hook(reached: str) -> None:
        nonlocal visits
        visits += reached == point
        if visits == visit:
            os._exit(CRASH_EXIT)

    return hook
