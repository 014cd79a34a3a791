"""Terms: acquiring, renewing, releasing, fences (pubsub_and_lease.md 6.4)."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest

from mastra_conformance import Suite, case
from mastra_conformance.fixtures import OpenLease
from mastra_conformance.suites.lease.support import TTL_MS, Elapse, fence_of
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.errors import MastraError

__all__ = ("TermSuite",)


class TermSuite(Suite):
    """Who owns a key, and for how long."""

    role: ClassVar[str] = "lease"
    capabilities: ClassVar[tuple[str, ...]] = ("lease.fencing",)

    @case("pubsub_and_lease", 98)
    async def test_one_gets_a_free_key(self, lease: LeaseProvider) -> None:
        """The first has it with a fence; the second is told by whom it is held."""
        first = await lease.acquire_lease("k", "a", 10_000)
        second = await lease.acquire_lease("k", "b", 10_000)

        assert (True, "a") == (first.acquired, first.owner)
        assert fence_of(first) > 0
        assert (False, "a") == (second.acquired, second.owner)
        assert not second
        assert await lease.get_lease_owner("k") == "a"
        assert await lease.get_lease_owner("other") is None
        assert await lease.get_lease("other") is None

    async def test_other_instances_see_it(
        self, lease: LeaseProvider, open_lease: OpenLease
    ) -> None:
        """A second handle is refused and told the owner."""
        await lease.acquire_lease("k", "a", 10_000)
        async with open_lease() as other:
            grant = await other.acquire_lease("k", "b", 10_000)
            assert (False, "a") == (grant.acquired, grant.owner)
            assert await other.get_lease_owner("k") == "a"

    @case("pubsub_and_lease", 99)
    async def test_asking_again_extends_the_term(
        self, lease: LeaseProvider, elapse: Elapse
    ) -> None:
        """The same owner and holder: same fence, full time."""
        first = await lease.acquire_lease("k", "a", 10_000, holder="h")
        await elapse(400)
        record = await lease.get_lease("k")
        assert record is not None
        assert record.ttl_remaining_ms <= 9_700
        again = await lease.acquire_lease("k", "a", 10_000, holder="h")

        record = await lease.get_lease("k")
        assert record is not None
        assert fence_of(first) == fence_of(again) == record.fence
        assert ("a", "h") == (record.owner, record.holder)
        assert 9_700 < record.ttl_remaining_ms <= 10_000

    @case("pubsub_and_lease", 100)
    async def test_another_incarnation_starts_a_new_term(self, lease: LeaseProvider) -> None:
        """The same owner with another holder wins; the older one's calls have no effect."""
        old = await lease.acquire_lease("k", "run", 10_000, holder="h1")
        new = await lease.acquire_lease("k", "run", 10_000, holder="h2")

        assert new.acquired
        assert fence_of(new) > fence_of(old)
        assert not await lease.renew_lease("k", "run", 10_000, holder="h1", fence=old.fence)
        assert not await lease.renew_lease("k", "run", 10_000, holder="h1")
        assert not await lease.release_lease("k", "run", holder="h1")
        assert not await lease.check_lease("k", "run", fence_of(old))
        assert await lease.check_lease("k", "run", fence_of(new))
        assert await lease.renew_lease("k", "run", 10_000, holder="h2", fence=new.fence)

    async def test_two_instances_are_two_incarnations(
        self, lease: LeaseProvider, open_lease: OpenLease
    ) -> None:
        """Without a holder each instance is its own: a sweeper can't release a resumed run."""
        old = await lease.acquire_lease("k", "run", 10_000)
        async with open_lease() as other:
            new = await other.acquire_lease("k", "run", 10_000)
            assert fence_of(new) > fence_of(old)

            assert not await lease.renew_lease("k", "run", 10_000)
            assert not await lease.release_lease("k", "run")
            assert await other.get_lease_owner("k") == "run"

    @case("pubsub_and_lease", 102)
    async def test_an_expired_lease_is_gone(self, lease: LeaseProvider, elapse: Elapse) -> None:
        """Another one gets it with a larger fence; the old owner can do nothing."""
        old = await lease.acquire_lease("k", "a", TTL_MS)
        await elapse(TTL_MS + 50)
        assert await lease.get_lease_owner("k") is None
        new = await lease.acquire_lease("k", "b", 10_000)

        assert new.acquired
        assert fence_of(new) > fence_of(old)
        assert not await lease.renew_lease("k", "a", 10_000)
        assert not await lease.release_lease("k", "a")
        assert not await lease.transfer_lease("k", "a", "c", 10_000)
        assert await lease.get_lease_owner("k") == "b"

    async def test_expiry_is_never_early(self, lease: LeaseProvider, elapse: Elapse) -> None:
        """S7: shortly before the end nobody else gets it."""
        await lease.acquire_lease("k", "a", 3_000)
        await elapse(2_000)
        assert not await lease.acquire_lease("k", "b", 3_000)
        assert await lease.renew_lease("k", "a", 3_000)
        await elapse(2_000)
        assert not await lease.acquire_lease("k", "b", 3_000)

    @case("pubsub_and_lease", 103)
    async def test_only_the_live_owner_renews(self, lease: LeaseProvider, elapse: Elapse) -> None:
        """Not somebody else, not after expiry, not after release; nothing changes."""
        grant = await lease.acquire_lease("k", "a", TTL_MS)
        assert not await lease.renew_lease("k", "b", 10_000)
        assert await lease.get_lease_owner("k") == "a"
        assert await lease.check_lease("k", "a", fence_of(grant))

        await elapse(TTL_MS + 50)
        assert not await lease.renew_lease("k", "a", 10_000)
        assert await lease.get_lease_owner("k") is None

        await lease.acquire_lease("k", "a", 10_000)
        assert await lease.release_lease("k", "a")
        assert not await lease.renew_lease("k", "a", 10_000)
        assert await lease.get_lease_owner("k") is None

    async def test_renewal_sets_the_time_exactly(self, lease: LeaseProvider) -> None:
        """It may also shorten it."""
        await lease.acquire_lease("k", "a", 10_000)

        assert await lease.renew_lease("k", "a", 1_000)

        record = await lease.get_lease("k")
        assert record is not None
        assert 500 < record.ttl_remaining_ms <= 1_000

    @case("pubsub_and_lease", 106)
    @pytest.mark.parametrize("ttl", [0, -1, 1.5, math.nan, 10**12, 49, True, "300"])
    async def test_impossible_times_are_refused(self, lease: LeaseProvider, ttl: Any) -> None:
        """``ValueError`` before anything is touched."""
        grant = await lease.acquire_lease("k", "a", 10_000)

        with pytest.raises(ValueError, match="ttl_ms"):
            await lease.acquire_lease("k", "a", ttl)
        with pytest.raises(ValueError, match="ttl_ms"):
            await lease.renew_lease("k", "a", ttl)
        with pytest.raises(ValueError, match="ttl_ms"):
            await lease.transfer_lease("k", "a", "b", ttl)
        with pytest.raises(ValueError, match="ttl_ms"):
            await lease.acquire_lease("free", "a", ttl)

        record = await lease.get_lease("k")
        assert record is not None
        assert ("a", grant.fence) == (record.owner, record.fence)
        assert record.ttl_remaining_ms > 9_000
        assert await lease.get_lease_owner("free") is None

    @case("pubsub_and_lease", 107)
    async def test_release_is_idempotent(self, lease: LeaseProvider) -> None:
        """Twice, and by somebody else: no effect."""
        grant = await lease.acquire_lease("k", "a", 10_000)
        assert not await lease.release_lease("k", "b")
        assert not await lease.release_lease("k", "a", fence=fence_of(grant) - 1)
        assert await lease.get_lease_owner("k") == "a"

        assert await lease.release_lease("k", "a", fence=grant.fence)
        assert not await lease.release_lease("k", "a")
        assert await lease.get_lease_owner("k") is None

    async def test_fences_grow_over_many_terms(self, lease: LeaseProvider) -> None:
        """Also when owner and key come back."""
        fences = []
        for number in range(30):
            grant = await lease.acquire_lease("k", f"run {number % 3}", 10_000)
            fences.append(fence_of(grant))
            await lease.release_lease("k", f"run {number % 3}")

        assert fences == sorted(set(fences))

    async def test_keys_and_owners_are_opaque(self, lease: LeaseProvider) -> None:
        """NUL, blanks, emoji: names mean nothing, and don't collide."""
        keys = ["r\0t", "r t", "🦊", "a:b", "a", "{a}b", "A", "%00", "r"]
        for key in keys:
            assert await lease.acquire_lease(key, f"owner of {key}", 10_000)

        for key in keys:
            assert await lease.get_lease_owner(key) == f"owner of {key}"

    @case("pubsub_and_lease", 118)
    async def test_closing_releases(self, lease: LeaseProvider, open_lease: OpenLease) -> None:
        """What the instance acquired and still holds is free at once; what it lost stays."""
        async with open_lease() as leaving:
            await leaving.acquire_lease("mine", "a", 60_000)
            await leaving.acquire_lease("lost", "a", 60_000)
            await lease.acquire_lease("lost", "a", 60_000)

        assert await lease.acquire_lease("mine", "b", 10_000)
        assert await lease.get_lease_owner("lost") == "a"

    async def test_a_closed_provider_says_so(self, open_lease: OpenLease) -> None:
        """Not "nobody has it" and not "you have it"."""
        async with open_lease() as provider:
            await provider.aclose()
            await provider.aclose()
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: provider.acquire_lease("k", "a", 10_000),
                lambda: provider.renew_lease("k", "a", 10_000),
                lambda: provider.release_lease("k", "a"),
                lambda: provider.transfer_lease("k", "a", "b", 10_000),
                lambda: provider.get_lease_owner("k"),
                lambda: provider.check_lease("k", "a", 1),
            ]
            for call in calls:
                with pytest.raises(MastraError):
                    await call()
