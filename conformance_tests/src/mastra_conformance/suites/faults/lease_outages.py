"""Leases whose server or network breaks, or whose clients' clocks are wrong (6.4, 6.5, 11)."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import ClassVar, Final

import pytest

from mastra_conformance import Suite, case, needs_server, requires
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.faults.outcomes import CALL_S, attempt, recovers, until
from mastra_conformance.faults.proxy import Direction
from mastra_conformance.faults.site import Site
from mastra_conformance.suites.faults.storage_outages import OUTAGES
from mastra_conformance.suites.lease.support import fence_of
from mastra_core.bus.held_lease import HeldLease, held_lease
from mastra_core.contracts.lease import LeaseGrant, LeaseProvider
from mastra_core.errors import LeaseError

__all__ = ("LeaseOutageSuite",)

_TTL_MS: Final = 1_500
_HOUR_MS: Final = 3_600_000
_LONG_MS: Final = 60_000


@needs_server()
class LeaseOutageSuite(Suite):
    """Whoever can't reach the server stops in time; nobody owns a key twice."""

    role: ClassVar[str] = "lease"
    capabilities: ClassVar[tuple[str, ...]] = ("lease.fencing",)
    tier: ClassVar[int] = 4

    @pytest.mark.parametrize("outage", ["cut", "reset", "blackhole", "half-open", "cut-reply"])
    async def test_an_outage_ends_in_typed_errors_and_passes(self, site: Site, outage: str) -> None:
        """Each call ends in time with its answer or a LeaseError; afterwards all work again."""
        async with site.quick("lease").lease() as lease:
            await lease.acquire_lease("k", "a", _LONG_MS)
            OUTAGES[outage](site.network)
            errors = await asyncio.gather(
                attempt("lease", lambda: lease.acquire_lease("other", "a", _LONG_MS)),
                attempt("lease", lambda: lease.renew_lease("k", "a", _LONG_MS)),
                attempt("lease", lambda: lease.get_lease("k")),
                attempt("lease", lambda: lease.check_lease("k", "a", 1)),
            )
            await site.network.heal()
            await recovers("lease", lambda: lease.renew_lease("k", "a", _LONG_MS))
            owner = await lease.get_lease_owner("k")

        assert "a" == owner
        assert [] == [error for error in errors if error is not None and not error.retryable]
        if outage == "cut":
            assert None not in errors

    @case("pubsub_and_lease", 112)
    @pytest.mark.parametrize("outage", ["cut", "blackhole"])
    async def test_a_cut_off_holder_stops_before_another_starts(
        self, site: Site, outage: str
    ) -> None:
        """Its local deadline passes first (S3), and ``lost`` says so."""
        async with site.quick("lease").lease() as mine, site.direct.lease() as theirs:
            held = HeldLease(mine, "k", "a", _TTL_MS)
            assert await held.acquire()
            lost_at: list[float] = []

            async def note_loss() -> None:
                await held.lost()
                lost_at.append(time.monotonic())

            noting = asyncio.create_task(note_loss())
            OUTAGES[outage](site.network)
            grant = await _take(theirs, "b")
            taken_at = time.monotonic()
            async with asyncio.timeout(CALL_S):
                await noting
            still_owned = not held.is_lost
            await site.network.heal()
            await held.release()

        assert lost_at[0] < taken_at
        assert not still_owned
        assert fence_of(grant) > (held.fence or 0)

    @case("pubsub_and_lease", 113)
    async def test_a_lost_answer_loses_no_lease(self, site: Site) -> None:
        """A renewal arrives, its answer doesn't: the holder keeps the lease and knows it."""
        async with (
            site.quick("lease").lease() as mine,
            site.direct.lease() as theirs,
            held_lease(mine, "k", "a", 2 * _TTL_MS) as held,
        ):
            for _ in range(3):
                lost = site.network.lost_replies
                site.network.lose_replies()
                await until(lambda: site.network.lost_replies > lost)  # noqa: B023 – awaited at once
                await site.network.heal()
                await asyncio.sleep(_TTL_MS / 1000)
                refused = await theirs.acquire_lease("k", "b", _LONG_MS)
                assert (False, "a") == (refused.acquired, refused.owner)
                held.assert_owned()
            assert held.fence is not None
            assert await theirs.check_lease("k", "a", held.fence)

    @case("pubsub_and_lease", 67)
    async def test_a_slow_way_loses_no_lease(self, site: Site) -> None:
        """Two seconds one way, and a lease of fifteen: it is kept (V4)."""
        async with (
            site.opener.lease() as mine,
            held_lease(mine, "k", "a", 6_000) as held,
            site.direct.lease() as theirs,
        ):
            site.network.delay(1.9, Direction.TO_SERVER)
            await asyncio.sleep(7.0)
            held.assert_owned()
            await site.network.heal()
            assert await theirs.get_lease_owner("k") == "a"

    @case("pubsub_and_lease", 114)
    @pytest.mark.parametrize("how", ["clean", "crash"])
    async def test_a_restart_grants_nothing_twice(self, site: Site, how: str) -> None:
        """Fences grow over restarts (L4), and a live lease is still somebody's."""
        async with site.quick("lease").lease() as lease:
            live = await lease.acquire_lease("live", "a", _LONG_MS)
            fences = []
            for number in range(3):
                grant = await lease.acquire_lease("k", f"run {number}", _LONG_MS)
                fences.append(fence_of(grant))
                await lease.release_lease("k", f"run {number}")
                await site.server.restart(immediate=how == "crash")
                await recovers("lease", lambda: lease.get_lease("k"))
            other = await lease.acquire_lease("live", "b", _LONG_MS)
            kept = await lease.renew_lease("live", "a", _LONG_MS, fence=live.fence)
            current = await lease.check_lease("live", "a", fence_of(live))

        assert fences == sorted(set(fences))
        # A grant that was confirmed is there afterwards, like everything that was confirmed.
        assert (False, "a", True, True) == (other.acquired, other.owner, kept, current)

    async def test_a_paused_server_frees_no_key_twice(self, site: Site) -> None:
        """It stands still past the ttl: the holder gives up, and the next fence is larger."""
        async with site.quick("lease").lease() as mine, site.quick_direct("lease").lease() as other:
            held = HeldLease(mine, "k", "a", _TTL_MS)
            grant = await held.acquire()
            await site.server.pause()
            async with asyncio.timeout(CALL_S):
                await held.lost()
            await site.server.resume()
            await recovers("lease", lambda: other.get_lease("k"))
            later = await _take(other, "b")
            written = await mine.check_lease("k", "a", fence_of(grant))
            await held.release()

        assert fence_of(later) > fence_of(grant)
        assert not written

    @case("pubsub_and_lease", 116)
    async def test_clocks_of_clients_decide_nothing(self, site: Site) -> None:
        """One is an hour ahead, one an hour behind: nothing expires early or late."""
        async with AsyncExitStack() as stack:
            handles = [
                await stack.enter_async_context(
                    replace(site.direct, clock=ShiftedClock(ahead_ms=ahead_ms)).lease()
                )
                for ahead_ms in (0, _HOUR_MS, -_HOUR_MS)
            ]
            fences: list[int] = []
            for place, holder in enumerate(handles):
                others = handles[:place] + handles[place + 1 :]
                started = time.monotonic()
                grant = await holder.acquire_lease("k", f"a{place}", _TTL_MS)
                fences.append(fence_of(grant))
                for other in others:
                    refused = await other.acquire_lease("k", "b", _TTL_MS)
                    record = await other.get_lease("k")
                    assert (False, f"a{place}") == (refused.acquired, refused.owner)
                    assert record is not None
                    assert 0 < record.ttl_remaining_ms <= _TTL_MS
                    assert await other.check_lease("k", f"a{place}", fence_of(grant))
                taken = await _take(others[0], f"b{place}")
                fences.append(fence_of(taken))
                assert time.monotonic() - started >= _TTL_MS / 1000
                assert not await holder.renew_lease("k", f"a{place}", _TTL_MS)
                await others[0].release_lease("k", f"b{place}")

        assert fences == sorted(set(fences))

    @requires("lease.watch")
    async def test_a_watch_survives_an_outage(self, site: Site) -> None:
        """The waiter behind the broken way gets the key that was released meanwhile."""
        async with site.quick("lease").lease() as waiter, site.direct.lease() as holder:
            await holder.acquire_lease("k", "a", _LONG_MS)

            async def wait_for_it() -> LeaseGrant:
                events = waiter.watch_lease("k")
                while True:
                    try:
                        grant = await waiter.acquire_lease("k", "b", _LONG_MS)
                        if grant:
                            return grant
                        async with asyncio.timeout(1.0):
                            await anext(events)
                    except (LeaseError, TimeoutError):
                        await asyncio.sleep(0.05)
                    except StopAsyncIteration:
                        events = waiter.watch_lease("k")

            waiting = asyncio.create_task(wait_for_it())
            await asyncio.sleep(0.2)
            site.network.cut()
            await holder.release_lease("k", "a")
            await asyncio.sleep(0.5)
            await site.network.heal()
            async with asyncio.timeout(CALL_S):
                grant = await waiting

        assert grant.owner == "b"


async def _take(provider: LeaseProvider, owner: str) -> LeaseGrant:
    """Ask until it is free."""
    async with asyncio.timeout(2 * CALL_S):
        while True:
            grant = await provider.acquire_lease("k", owner, _LONG_MS)
            if grant:
                return grant
            await asyncio.sleep(0.01)
