"""A lease that renews itself and knows when it must stop (L8, L10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mastra_core.bus import HeldLease, held_lease
from mastra_core.errors import LeaseConflictError, LeaseLostError, LeaseUnavailableError
from mastra_core.inmemory.lease import InMemoryLease
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock

pytestmark = pytest.mark.anyio

TTL = 15_000


class CutLease(InMemoryLease):
    """A provider whose line can be cut, before or after the request arrives."""

    cut: str | None = None
    renewals = 0
    #: Called when a renewal was granted, before anybody hears of it.
    on_renewed: Callable[[], None] = staticmethod(lambda: None)

    async def renew_lease(self, key: str, owner: str, ttl_ms: int, **options: Any) -> bool:
        self.renewals += 1
        if self.cut == "before":
            raise LeaseUnavailableError("The line is cut.")
        if self.cut == "hangs":
            await asyncio.Event().wait()
        answer = await super().renew_lease(key, owner, ttl_ms, **options)
        if self.cut == "after":
            raise LeaseUnavailableError("The answer was lost.")
        self.on_renewed()
        return answer

    async def acquire_lease(self, key: str, owner: str, ttl_ms: int, **options: Any) -> Any:
        if self.cut == "before":
            raise LeaseUnavailableError("The line is cut.")
        return await super().acquire_lease(key, owner, ttl_ms, **options)


@pytest.fixture
async def provider(clock: FakeClock) -> AsyncIterator[CutLease]:
    async with CutLease(None, AdapterContext(clock=clock)) as opened:
        yield opened


async def test_it_is_renewed_and_released(provider: CutLease, clock: FakeClock) -> None:
    """Three renewals per time to live; at the end the key is free."""
    async with held_lease(provider, "k", "a", TTL, clock=clock) as lease:
        assert lease.fence
        await clock.advance(60)
        lease.assert_owned()
        assert 12 == provider.renewals
        assert not lease.is_lost
        assert 9_000 < lease.remaining() < TTL
        assert await provider.get_lease_owner("k") == "a"

    assert await provider.get_lease_owner("k") is None
    assert clock.sleepers == 0
    with pytest.raises(LeaseLostError):
        lease.assert_owned()


async def test_a_busy_key_is_a_conflict(provider: CutLease, clock: FakeClock) -> None:
    """The error names the owner; the class itself just answers."""
    await provider.acquire_lease("k", "b", TTL)

    with pytest.raises(LeaseConflictError, match="'b'"):
        async with held_lease(provider, "k", "a", TTL, clock=clock):
            pytest.fail("The block must not run.")
    assert not await HeldLease(provider, "k", "a", TTL, clock=clock).acquire()
    assert clock.sleepers == 0


@pytest.mark.parametrize("cut", ["before", "hangs"])
async def test_the_deadline_passes_before_anybody_else_gets_it(
    provider: CutLease, clock: FakeClock, cut: str
) -> None:
    """Cut from the provider, the holder stops first, and ``lost`` fires (S3, L8)."""
    lease = HeldLease(provider, "k", "a", TTL, clock=clock)
    await lease.acquire()
    losing = asyncio.ensure_future(lease.lost())
    provider.cut = cut

    await clock.advance(TTL / 1000 * 0.98 - 0.02 - 0.001)
    lease.assert_owned()
    assert not losing.done()
    await clock.advance(0.001)
    with pytest.raises(LeaseLostError):
        lease.assert_owned()
    await clock.settle()
    assert losing.done()
    assert lease.is_lost
    assert 0 == lease.remaining()
    assert await provider.get_lease_owner("k") == "a", "the provider still keeps others out"

    await clock.advance(0.4)
    provider.cut = None
    assert await provider.acquire_lease("k", "b", TTL)
    await lease.release()
    assert await provider.get_lease_owner("k") == "b"


async def test_a_lost_answer_is_no_lost_lease(provider: CutLease, clock: FakeClock) -> None:
    """The renewal was applied; the next one that is answered goes on from there."""
    lease = HeldLease(provider, "k", "a", TTL, clock=clock)
    await lease.acquire()
    provider.cut = "after"
    await clock.advance(12)
    lease.assert_owned()
    provider.cut = None
    await clock.advance(60)

    lease.assert_owned()
    assert not lease.is_lost
    await lease.release()


class _StallingClock(FakeClock):
    """Time can pass while nothing runs, not even who sleeps."""

    stalled = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.stalled


async def test_what_was_told_to_be_lost_does_not_come_back() -> None:
    """The process stood still: work was given up, then the answer to a renewal came in."""
    clock = _StallingClock()
    async with CutLease(None, AdapterContext(clock=clock)) as provider:
        lease = HeldLease(provider, "k", "a", TTL, clock=clock)
        await lease.acquire()
        told: list[bool] = []

        def stall() -> None:
            # Past the deadline, but not past that which the renewal brings.
            clock.stalled += 12
            told.append(lease.is_lost)

        provider.on_renewed = stall
        await clock.advance(5)
        await clock.settle()
        after = lease.is_lost
        await clock.advance(60)

        assert ([True], True) == (told, after)
        assert 1 == provider.renewals
        assert await provider.get_lease_owner("k") is None
        await lease.release()


async def test_being_taken_over_is_noticed(provider: CutLease, clock: FakeClock) -> None:
    """Another incarnation of the same owner ends this one at its next renewal."""
    lease = HeldLease(provider, "k", "run", TTL, holder="old", clock=clock)
    await lease.acquire()
    await provider.acquire_lease("k", "run", TTL, holder="new")

    await clock.advance(5)

    assert lease.is_lost
    await lease.release()
    record = await provider.get_lease("k")
    assert record is not None
    assert record.holder == "new"


async def test_failing_closed_raises(provider: CutLease, clock: FakeClock) -> None:
    """Unknown is not free (R101)."""
    provider.cut = "before"

    with pytest.raises(LeaseUnavailableError):
        async with held_lease(provider, "k", "a", TTL, clock=clock):
            pytest.fail("The block must not run.")


async def test_failing_open_goes_on_without_a_fence(provider: CutLease, clock: FakeClock) -> None:
    """And gets a fence as soon as the provider answers."""
    provider.cut = "before"
    async with held_lease(provider, "k", "a", TTL, clock=clock, on_error="open") as lease:
        assert lease.fence is None
        lease.assert_owned()
        await clock.advance(6)
        provider.cut = None
        await clock.advance(6)

        assert lease.fence is not None
        assert await provider.get_lease_owner("k") == "a"
        await clock.advance(60)
        lease.assert_owned()


async def test_failing_open_ends_if_somebody_has_it(provider: CutLease, clock: FakeClock) -> None:
    """Two runs in one thread must not go on side by side."""
    await provider.acquire_lease("k", "b", 3_600_000)
    provider.cut = "before"
    async with held_lease(provider, "k", "a", TTL, clock=clock, on_error="open") as lease:
        provider.cut = None
        await clock.advance(6)
        assert lease.is_lost


async def test_a_cancelled_block_releases(provider: CutLease, clock: FakeClock) -> None:
    """Clean-up is shielded."""

    async def work() -> None:
        async with held_lease(provider, "k", "a", TTL, clock=clock):
            await asyncio.Event().wait()

    working = asyncio.ensure_future(work())
    await clock.settle()
    assert await provider.get_lease_owner("k") == "a"
    working.cancel()
    await asyncio.wait([working])

    assert await provider.get_lease_owner("k") is None
