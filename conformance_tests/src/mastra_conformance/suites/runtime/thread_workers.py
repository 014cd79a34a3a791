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


async def tell_states(context: WorkerContext) -> None:
    """Tell, each time at a given moment, a state that others tell, too: was it us?"""
    calls = [[text("noted")]] * len(context.arguments["states"])
    ttl_ms = context.arguments["ttl_ms"]
    async with neighbour(context.opener, calls, ttl_ms=ttl_ms) as here:
        for state in context.arguments["states"]:
            start = await context.reach("ready")
            # All at once, not one after the other as they were let go.
            await asyncio.sleep(max(0.0, start - time.time()))
            result = await here.agent.send_state_signal(
                state, **TARGET, **context.arguments["target"]
            )
            if not result.skipped:
                assert result.accepted is not None
                await result.accepted
            if result.persisted is not None:
                await result.persisted
            await context.reach("told", not result.skipped)
