"""What is special about leases in memory: the clock, lock delay, sharing, memory."""

from __future__ import annotations

import asyncio
import gc

import pytest

from mastra_core.contracts.lease import LeaseProvider
from mastra_core.inmemory.lease import InMemoryLease, InMemoryLeaseSettings
from mastra_core.plugins import AdapterContext, SharedResources
from mastra_core.testing.fake_clock import FakeClock

pytestmark = pytest.mark.anyio


async def test_a_plain_instance_works() -> None:
    """Without settings, context or opening."""
    lease = InMemoryLease()
    assert isinstance(lease, LeaseProvider)
    assert await lease.acquire_lease("k", "a", 1_000)
    await lease.aclose()


@pytest.mark.parametrize("jump_s", [3_600, -3_600])
async def test_a_jump_of_the_wall_clock_changes_nothing(clock: FakeClock, jump_s: float) -> None:
    """A live lease neither expires nor is prolonged, and fences still grow."""
    async with InMemoryLease(None, AdapterContext(clock=clock)) as lease:
        first = await lease.acquire_lease("k", "a", 1_000)
        clock.jump_wall(jump_s)
        assert not await lease.acquire_lease("k", "b", 1_000)
        await clock.advance(0.999)
        assert not await lease.acquire_lease("k", "b", 1_000)
        await clock.advance(0.002)
        second = await lease.acquire_lease("k", "b", 1_000)
        assert second.acquired
        assert first.fence is not None
        assert second.fence is not None
        assert second.fence > first.fence


async def test_fences_are_microseconds_of_the_clock(clock: FakeClock) -> None:
    """So they stay above those of a former life (L4)."""
    async with InMemoryLease(None, AdapterContext(clock=clock)) as lease:
        grant = await lease.acquire_lease("k", "a", 1_000)
        assert grant.fence == clock.now_ms() * 1_000


async def test_a_lock_delay_holds_expired_leases_only(clock: FakeClock) -> None:
    """Expired: others wait; released: nobody does; the old owner may come back (L13)."""
    settings = InMemoryLeaseSettings(lock_delay_ms=500)
    async with InMemoryLease(settings, AdapterContext(clock=clock)) as lease:
        await lease.acquire_lease("k", "a", 1_000)
        await clock.advance(1.2)
        refused = await lease.acquire_lease("k", "b", 1_000)
        assert (False, None, 300) == (refused.acquired, refused.owner, refused.ttl_remaining_ms)
        assert await lease.get_lease_owner("k") is None
        await clock.advance(0.3)
        assert await lease.acquire_lease("k", "b", 1_000)
        await lease.release_lease("k", "b")
        assert await lease.acquire_lease("k", "c", 1_000)
        await clock.advance(1.1)
        assert await lease.acquire_lease("k", "c", 1_000)


async def test_watchers_hear_of_expiry_in_time(clock: FakeClock) -> None:
    """20 ms after it, once, also if somebody takes it right then (L7)."""
    context = AdapterContext(clock=clock)
    async with InMemoryLease(None, context) as lease:
        heard: list[tuple[int, str, str | None]] = []

        async def follow() -> None:
            async for event in lease.watch_lease("k"):
                at_ms = round(clock.monotonic() * 1000)
                heard.append((at_ms, event.kind, event.owner))

        following = asyncio.ensure_future(follow())
        await clock.settle()
        await lease.acquire_lease("k", "a", 1_000)
        await clock.advance(1.019)
        assert [(0, "acquired", "a")] == heard
        await clock.advance(0.001)
        assert [(0, "acquired", "a"), (1020, "expired", "a")] == heard
        await lease.acquire_lease("k", "b", 1_000)
        await clock.advance(1.005)
        await lease.acquire_lease("k", "c", 60_000)
        await clock.advance(1)
        assert [
            (1020, "acquired", "b"),
            (2025, "expired", "b"),
            (2025, "acquired", "c"),
        ] == heard[2:]
        following.cancel()
        await asyncio.wait([following])


async def test_a_watch_that_nobody_reads_is_forgotten() -> None:
    """It is held weakly by the table."""
    async with InMemoryLease() as lease:
        hub = lease._place
        assert hub is not None
        watch = lease.watch_lease("k")
        assert 1 == len(hub.leases._watchers["k"])
        del watch
        gc.collect()
        assert 0 == len(hub.leases._watchers["k"])


async def test_closing_ends_a_watch() -> None:
    """With the error of a closed provider, not with silence."""
    from mastra_core.errors import PubSubClosedError

    lease = InMemoryLease()
    waiting = asyncio.ensure_future(anext(lease.watch_lease("k")))
    for _ in range(10):
        await asyncio.sleep(0)
    await lease.aclose()
    with pytest.raises(PubSubClosedError):
        await waiting


async def test_opening_at_once_is_one_opening() -> None:
    """Concurrent first calls share the hub."""
    context = AdapterContext(resources=SharedResources())
    one = InMemoryLease(InMemoryLeaseSettings(url="memory:x"), context)
    two = InMemoryLease(InMemoryLeaseSettings(url="memory:x"), context)

    grants = await asyncio.gather(
        *(handle.acquire_lease("k", f"run {n}", 1_000) for n, handle in enumerate([one, two] * 8))
    )

    assert 1 == sum(grant.acquired for grant in grants)
    await one.aclose()
    await two.aclose()
    assert 0 == len(context.resources)
