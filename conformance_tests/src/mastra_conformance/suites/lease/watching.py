"""Following a key (pubsub_and_lease.md L7)."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from mastra_conformance import Suite, case
from mastra_conformance.fixtures import OpenLease
from mastra_conformance.opening import Opener
from mastra_conformance.suites.lease.support import TTL_MS, Elapse, watching
from mastra_core.contracts.lease import LeaseProvider

__all__ = ("WatchSuite",)

#: V3 allows 100 ms where the store pushes and ``watch_poll_ms`` elsewhere, plus our own slack.
_STALE_S = 2.0


class WatchSuite(Suite):
    """What a watcher hears."""

    role: ClassVar[str] = "lease"
    capabilities: ClassVar[tuple[str, ...]] = ("lease.watch",)

    @case("pubsub_and_lease", 108)
    async def test_changes_come_in_order(
        self, lease: LeaseProvider, open_lease: OpenLease, elapse: Elapse, opener: Opener
    ) -> None:
        """Acquired, transferred, released, acquired, expired, retaken – each in time."""
        async with open_lease() as other, watching(other, "k") as seen:
            await seen.begin(lease, "k")
            await lease.acquire_lease("k", "a", 60_000)
            await seen.until(1)
            await lease.transfer_lease("k", "a", "b", 60_000)
            await seen.until(2)
            await lease.release_lease("k", "b")
            await seen.until(3)
            await lease.acquire_lease("k", "c", TTL_MS)
            await seen.until(4)
            await elapse(TTL_MS + 50)
            await seen.until(5)
            await lease.acquire_lease("k", "d", 60_000)
            await seen.until(6)

        assert [
            ("acquired", "a"),
            ("transferred", "b"),
            ("released", "b"),
            ("acquired", "c"),
            ("expired", "c"),
            ("acquired", "d"),
        ] == seen.kinds
        fences = [event.fence for event in seen.events if event.kind in {"acquired", "transferred"}]
        assert fences == sorted({fence for fence in fences if fence is not None})

    async def test_a_waiter_gets_it_when_it_is_released(
        self, lease: LeaseProvider, open_lease: OpenLease, opener: Opener
    ) -> None:
        """Watch, ask, wait, ask: no polling, no missed release."""
        async with open_lease() as other:
            await lease.acquire_lease("k", "a", 60_000)

            async def wait_for_it() -> float:
                events = other.watch_lease("k")
                while not await other.acquire_lease("k", "b", 60_000):
                    await anext(events)
                return opener.clock.monotonic()

            waiting = asyncio.create_task(wait_for_it())
            for _ in range(20):
                await asyncio.sleep(0)
            released_at = opener.clock.monotonic()
            await lease.release_lease("k", "a")

            async with asyncio.timeout(60):
                assert await waiting - released_at < _STALE_S

    async def test_a_renewed_lease_does_not_expire_for_watchers(
        self, lease: LeaseProvider, elapse: Elapse
    ) -> None:
        """They look again before they report an expiry."""
        async with watching(lease, "k") as seen:
            await seen.begin(lease, "k")
            await lease.acquire_lease("k", "a", 3_000)
            await seen.until(1)
            await elapse(2_100)
            await lease.renew_lease("k", "a", 3_000)
            await elapse(1_800)
            await lease.release_lease("k", "a")
            await seen.until(2)

        assert [("acquired", "a"), ("released", "a")] == seen.kinds
