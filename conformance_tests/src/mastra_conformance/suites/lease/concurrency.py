"""Many contenders (pubsub_and_lease.md 6.5), judged by a checker from their history."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import ClassVar

from mastra_conformance import Suite, case
from mastra_conformance.fixtures import OpenLease
from mastra_conformance.histories.lease_checker import (
    GuardedWrite,
    check_guarded_writes,
    check_leases,
)
from mastra_conformance.histories.recorder import History
from mastra_conformance.opening import Opener
from mastra_conformance.suites.lease.clients import Client
from mastra_conformance.suites.lease.support import TTL_MS, Elapse, fence_of
from mastra_core.contracts.lease import LeaseProvider

__all__ = ("LeaseConcurrencySuite",)

_CONTENDERS = 16
_ROUNDS = 500


class LeaseConcurrencySuite(Suite):
    """Races for keys."""

    role: ClassVar[str] = "lease"
    capabilities: ClassVar[tuple[str, ...]] = ("lease.fencing", "lease.atomic_transfer")
    tier: ClassVar[int] = 2

    async def test_a_free_key_has_one_winner(self, open_lease: OpenLease) -> None:
        """32 contenders on four instances, 200 rounds: one wins, the others see who."""
        async with AsyncExitStack() as stack:
            handles = [await stack.enter_async_context(open_lease()) for _ in range(4)]
            for number in range(200):
                key = f"k{number}"
                grants = await asyncio.gather(
                    *(
                        handles[who % 4].acquire_lease(key, f"run {who}", 60_000)
                        for who in range(32)
                    )
                )
                winners = [grant.owner for grant in grants if grant.acquired]
                assert 1 == len(winners)
                assert {winners[0]} == {grant.owner for grant in grants}
                assert 1 == len({fence_of(grant) for grant in grants if grant.acquired})

    @case("pubsub_and_lease", 104)
    async def test_nobody_gets_between_a_transfer(
        self, lease: LeaseProvider, open_lease: OpenLease
    ) -> None:
        """500 hand-overs under 16 hammering contenders: none wins, the owner is never nobody."""
        stopped = asyncio.Event()
        wins: list[str] = []
        owners: set[str | None] = set()

        async def hammer(handle: LeaseProvider, name: str) -> None:
            while not stopped.is_set():
                if await handle.acquire_lease("k", name, 60_000):
                    wins.append(name)
                owners.add(await handle.get_lease_owner("k"))
                await asyncio.sleep(0)

        async with open_lease() as other:
            grant = await lease.acquire_lease("k", "run 0", 60_000)
            async with asyncio.TaskGroup() as group:
                for number in range(_CONTENDERS):
                    handle = (lease, other)[number % 2]
                    group.create_task(hammer(handle, f"contender {number}"))
                for number in range(_ROUNDS):
                    before = grant.fence
                    grant = await lease.transfer_lease(
                        "k", f"run {number}", f"run {number + 1}", 60_000, fence=before
                    )
                    assert grant.acquired
                    assert fence_of(grant) > (before or 0)
                    await asyncio.sleep(0)
                stopped.set()

        assert [] == wins
        assert None not in owners

    async def test_random_histories_are_safe(
        self, opener: Opener, open_lease: OpenLease, rng: random.Random, elapse: Elapse
    ) -> None:
        """Acquire, renew, hand on, release, stall: the checker finds nothing (S1-S3, S6, S7)."""
        history = History(clock=opener.clock.monotonic)
        writes: list[GuardedWrite] = []
        newest: dict[str, int] = {}

        def write(key: str, fence: int) -> None:
            """A resource that checks fences."""
            if fence >= newest.get(key, 0):
                newest[key] = fence
                writes.append(GuardedWrite(key=key, fence=fence))

        async def act(client: Client) -> None:
            for _ in range(60):
                key = f"k{rng.randrange(2)}"
                await client.step(key)
                if key in client.held:
                    write(key, fence_of(client.held[key]))
                await asyncio.sleep(0)
                if rng.random() < 0.05:
                    await elapse(rng.randrange(TTL_MS))

        async with AsyncExitStack() as stack:
            handles = [await stack.enter_async_context(open_lease()) for _ in range(4)]
            async with asyncio.TaskGroup() as group:
                for number in range(8):
                    client = Client(
                        name=f"run {number}",
                        handle=handles[number % 4],
                        history=history,
                        rng=rng,
                    )
                    group.create_task(act(client))

        faults = check_leases(history.operations) + check_guarded_writes(writes)
        assert [] == faults, history.to_json_lines()
