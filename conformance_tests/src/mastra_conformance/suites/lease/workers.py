"""What second processes of the lease suites do."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import asdict
from typing import Any, Final

from mastra_conformance.histories.recorder import History, Operation
from mastra_conformance.processes import WorkerContext
from mastra_conformance.suites.lease.clients import Client
from mastra_conformance.suites.pubsub.support import make_event
from mastra_core.bus.held_lease import HeldLease
from mastra_core.contracts.pubsub import PubSub
from mastra_core.errors import FencedOutError, LeaseLostError

__all__ = (
    "hold_until_killed",
    "race",
    "wander",
    "write_after_pause",
    "write_as",
    "write_while_owner",
)

_PAUSE_S: Final = 0.002


async def race(context: WorkerContext) -> list[list[Any]]:
    """Contend for one key per round, with several contenders; [winners, owners seen] of each."""
    name, contenders = context.arguments["name"], range(context.arguments["contenders"])
    async with context.open_lease() as lease:
        await context.reach("ready")
        results = []
        for number in range(context.arguments["rounds"]):
            start = await context.reach("round", number)
            await asyncio.sleep(max(0.0, start - time.monotonic()))
            grants = await asyncio.gather(
                *(
                    lease.acquire_lease(f"k{number}", f"{name}.{contender}", 60_000)
                    for contender in contenders
                )
            )
            winners = [grant.owner for grant in grants if grant.acquired]
            results.append([winners, sorted({str(grant.owner) for grant in grants})])
        # Closing releases what was won: not while another still contends.
        await context.reach("raced")
        return results


async def hold_until_killed(context: WorkerContext) -> None:
    """Acquire, tell the remaining time, and do nothing more."""
    async with context.open_lease() as lease:
        grant = await lease.acquire_lease("k", "holder", context.arguments["ttl_ms"])
        context.send(point="holding", value=[grant.acquired, grant.fence])
        await asyncio.Event().wait()


async def write_after_pause(context: WorkerContext) -> dict[str, Any]:
    """Hold a lease, be paused past its end, and write with its fence; what came of it."""
    async with context.open_pubsub() as bus:
        provider = bus.get_lease_provider()
        assert provider is not None
        held = HeldLease(provider, "k", "old", context.arguments["ttl_ms"])
        grant = await held.acquire()
        context.stand_still("holding")
        result = {
            "acquired": grant.acquired,
            "owned": _is_owned(held),
            "written": await _publish(bus, grant.fence, "late"),
            "current": await provider.check_lease("k", "old", grant.fence or 0),
        }
        await held.release()
        return result


async def write_while_owner(context: WorkerContext) -> int:
    """
    Own the key whenever possible, look whether it is still ours, write; refusals are counted.

    Somebody stops this process anywhere, also between the look and the write.
    """
    given = context.arguments
    refused = 0
    async with context.open_pubsub() as bus:
        context.send(point="writing", value=None)
        while not await _has_ended(bus):
            refused += await write_as(bus, given["owner"], given["ttl_ms"])
        return refused


async def write_as(bus: PubSub, owner: str, ttl_ms: int) -> int:
    """One term: acquire, check and write a few times, let go; how many writes were refused."""
    provider = bus.get_lease_provider()
    assert provider is not None
    grant = await provider.acquire_lease("k", owner, ttl_ms)
    if not grant.acquired or grant.fence is None:
        await asyncio.sleep(_PAUSE_S)
        return 0
    for number in range(5):
        if not await provider.check_lease("k", owner, grant.fence):
            return 0
        if not await _publish(bus, grant.fence, [owner, grant.fence, number]):
            return 1
    await provider.release_lease("k", owner, fence=grant.fence)
    return 0


async def wander(context: WorkerContext) -> None:
    """Do random things with two keys and tell of each, until killed."""
    given = context.arguments
    rng = random.Random(given["seed"])
    history = _TellingHistory(context)
    async with context.open_lease() as lease:
        client = Client(
            name=given["name"], handle=lease, history=history, rng=rng, ttl_ms=given["ttl_ms"]
        )
        while True:
            await client.step(f"k{rng.randrange(2)}")
            await asyncio.sleep(rng.random() * 0.02)


class _TellingHistory(History):
    """Tells the test of every operation at once, since this process may die."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__()
        self._context = context

    def add(self, operation: Operation) -> None:
        value = asdict(operation)
        grant = operation.result
        if grant is not None and not isinstance(grant, bool):
            value["result"] = {
                "acquired": grant.acquired,
                "owner": grant.owner,
                "fence": grant.fence,
            }
        self._context.send(point="did", value=value)


def _is_owned(held: HeldLease) -> bool:
    try:
        held.assert_owned()
    except LeaseLostError:
        return False
    return True


async def _publish(bus: PubSub, fence: int | None, data: Any) -> bool:
    assert fence is not None
    try:
        await bus.publish("guarded", make_event(data), fence=("k", fence))
    except FencedOutError:
        return False
    return True


async def _has_ended(bus: PubSub) -> bool:
    return bool(await bus.get_history("end"))
