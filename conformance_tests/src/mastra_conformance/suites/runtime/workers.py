"""What second processes of the runtime suites do."""

from __future__ import annotations

from typing import Any

from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.runtime.agents import application, workshop
from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.errors import ResumeClaimedError
from mastra_core.testing.scripted_model import text

__all__ = ("approve",)


async def approve(context: WorkerContext) -> dict[str, Any]:
    """Approve one run as soon as the test says go; tells who won and what was executed."""
    shop = workshop([[text("done")]])
    async with (
        context.open_store() as store,
        application(store, shop, clock=SystemClock(), ids=UuidIds()),
    ):
        await context.reach("ready")
        try:
            output = await shop.agent.approve_tool_call(context.arguments["run_id"], "call_1")
        except ResumeClaimedError as exc:
            return {"won": False, "error": exc.id, "executed": len(shop.executed)}
        reason = await output.finish_reason
        return {"won": True, "reason": reason, "executed": len(shop.executed)}
