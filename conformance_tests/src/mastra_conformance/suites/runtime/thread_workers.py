"""Processes that share a thread, and come to grief while they have it."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.runtime.neighbours import TARGET, neighbour
from mastra_core.errors import LeaseLostError
from mastra_core.testing.faults import CRASH_EXIT
from mastra_core.testing.scripted_model import text

__all__ = ("own", "own_and_come_back", "send_and_die", "tell_states")

_GATE = {"type": "gate", "name": "stop"}


async def send_and_die(context: WorkerContext) -> None:
    """Send one message and die as soon as it is accepted: nothing may have to be done after."""
    model_waits: list[Any] = [[{"type": "gate-before", "name": "stop"}]]
    async with neighbour(context.opener, model_waits) as here:
        await here.send(context.arguments["contents"])
        os._exit(CRASH_EXIT)


async def own(context: WorkerContext) -> None:
    """Answer a message with half a sentence, and stand there until the test kills us."""
    async with neighbour(context.opener, [[text("half"), _GATE]]) as here:
        accepted = await here.send("first")
        await here.gates.reached("stop")
        await context.reach("running", accepted.run_id)
        await asyncio.Event().wait()


async def own_and_come_back(context: WorkerContext) -> dict[str, Any]:
    """Answer a message; in the middle the test stops this process, and later lets it go on."""
    async with neighbour(context.opener, [[text("late words"), _GATE]]) as here:
        accepted = await here.send("first")
        await here.gates.reached("stop")
        await context.reach("running", accepted.run_id)
        # Stopped here, past the end of the lease.
        here.gates.open("stop")
        error: BaseException | None = None
        try:
            await accepted.output.get_full_output()
        except LeaseLostError as exc:
            error = exc
        return {
            "error": getattr(error, "id", None),
            "thread": TARGET["thread_id"],
            "status": accepted.output.status,
        }


async def tell_states(context: WorkerContext) -> list[str]:
    """Tell the states that all the others tell, too; the lanes of which we were the one."""
    async with neighbour(context.opener, [[text("noted")]] * 8) as here:
        start = await context.reach("ready")
        # Not one after the other, as they were let go.
        await asyncio.sleep(max(0.0, start - time.time()))
        results = await asyncio.gather(
            *(
                here.agent.send_state_signal(state, **TARGET, **context.arguments["target"])
                for state in context.arguments["states"]
            )
        )
        told = []
        for state, result in zip(context.arguments["states"], results, strict=True):
            if not result.skipped:
                await _taken(result)
                told.append(state["id"])
        await context.reach("told")
        return told


async def _taken(result: Any) -> None:
    await result.accepted
    if result.persisted is not None:
        await result.persisted
