"""What second processes of the bus suites do."""

from __future__ import annotations

import asyncio
import os
import resource
from typing import Any, Final

from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.pubsub.support import Recorder, make_event, open_bus
from mastra_core.contracts.pubsub import Cursor
from mastra_core.testing.faults import CRASH_EXIT
from mastra_core.wire.events import Event

__all__ = (
    "count_while_paused",
    "die_handling",
    "fail_until_budget",
    "handle_late",
    "hold",
    "resume_from",
    "subscribe_much",
    "trade",
)

_AT_ONCE: Final = 25
_KIB_PER_MIB: Final = 1024


async def trade(context: WorkerContext) -> list[Any]:
    """Publish ``count`` events and collect ``total``; everything that was delivered, in order."""
    given = context.arguments
    seen = Recorder()
    async with open_bus(context.opener) as bus:
        await bus.subscribe("t", seen, start_from="latest")
        await context.reach("ready")
        for first in range(0, given["count"], _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, given["count"]))
            await asyncio.gather(
                *(bus.publish("t", make_event([given["name"], number])) for number in numbers)
            )
        await seen.until(given["total"])
        # Everybody has everything; what comes now is too much.
        await context.reach("done")
        await bus.flush()
        return seen.data


async def hold(context: WorkerContext) -> None:
    """A member that takes one event and never lets go; somebody kills it."""

    async def handle(event: Event) -> None:
        context.send(point="holding", value=event.delivery_attempt)
        await asyncio.Event().wait()

    async with open_bus(context.opener, **context.arguments.get("options", {})) as bus:
        await bus.subscribe("t", handle, group="g", max_in_flight=1)
        context.send(point="member", value=None)
        await asyncio.Event().wait()


async def die_handling(context: WorkerContext) -> list[Any]:
    """A member that poison kills; what else it handled, when the test says that it is enough."""
    handled: list[Any] = []

    async def handle(event: Event, ack: Any) -> None:
        if event.data == "poison":
            context.send(point="poisoned", value=event.delivery_attempt)
            os._exit(CRASH_EXIT)
        handled.append(event.data)
        await ack()

    async with open_bus(context.opener, max_delivery_attempts=3) as bus:
        await bus.subscribe("t", handle, group="g")
        await context.reach("member")
        return handled


async def handle_late(context: WorkerContext) -> list[int]:
    """Take an event, stand still until resumed, then ack it; the attempts that were seen."""
    attempts: list[int] = []
    acked = asyncio.Event()

    async def handle(event: Event, ack: Any) -> None:
        attempts.append(event.delivery_attempt)
        context.stand_still("holding")
        await ack()
        acked.set()

    async with open_bus(context.opener) as bus:
        await bus.subscribe("t", handle, group="g", max_in_flight=1)
        await acked.wait()
        await context.reach("acked")
        return attempts


async def fail_until_budget(context: WorkerContext) -> list[int]:
    """A member that fails, and publishes the end when the event has used up its budget of 3."""
    attempts: list[int] = []

    async with open_bus(context.opener, max_delivery_attempts=5) as bus:

        async def handle(event: Event, ack: Any, nack: Any) -> None:
            attempts.append(event.delivery_attempt)
            if event.delivery_attempt < 3:
                await nack("again")
                return
            await bus.publish("out", make_event("failed", run_id=event.run_id))
            await ack()

        await bus.subscribe("t", handle, group="g")
        await context.reach("member")
        return attempts


async def resume_from(context: WorkerContext) -> dict[str, Any]:
    """Read ``count`` events after a cursor, or from the start; data and the last cursor."""
    given = context.arguments
    start: Any = Cursor(given["cursor"]) if given["cursor"] else "earliest"
    seen = Recorder()
    async with open_bus(context.opener) as bus:
        await bus.subscribe("t", seen, start_from=start)
        await seen.until(given["count"])
        await bus.flush()
        return {"data": seen.data, "cursor": seen.events[-1].cursor}


async def subscribe_much(context: WorkerContext) -> None:
    """Subscribe to some topics without a group, and do nothing more; somebody kills it."""
    async with open_bus(context.opener) as bus:
        for topic in context.arguments["topics"]:
            await bus.subscribe(topic, Recorder(), start_from="latest")
        context.send(point="subscribed", value=None)
        await asyncio.Event().wait()


async def count_while_paused(context: WorkerContext) -> dict[str, Any]:
    """Read ``total`` events, being paused meanwhile; what came, gaps, and the memory it took."""
    gaps: list[tuple[int, int]] = []
    numbers: list[int] = []
    complete = asyncio.Event()
    total = context.arguments["total"]

    async def handle(event: Event) -> None:
        numbers.append(event.data["n"])
        if len(numbers) >= total:
            complete.set()

    async with open_bus(context.opener) as bus:
        await bus.subscribe(
            "t", handle, start_from="latest", on_gap=lambda first, last: gaps.append((first, last))
        )
        before = _peak_mib()
        context.send(point="reading", value=None)
        await complete.wait()
        return {"numbers": numbers, "gaps": gaps, "mib": _peak_mib() - before}


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_MIB
