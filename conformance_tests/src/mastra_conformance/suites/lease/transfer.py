"""Transfer: from one owner to the next in one step (pubsub_and_lease.md L6)."""

from __future__ import annotations

from typing import ClassVar

from mastra_conformance import Suite, case
from mastra_conformance.suites.lease.support import TTL_MS, Elapse, fence_of
from mastra_core.contracts.lease import LeaseProvider

__all__ = ("TransferSuite",)


class TransferSuite(Suite):
    """Handing a lease on."""

    role: ClassVar[str] = "lease"
    capabilities: ClassVar[tuple[str, ...]] = ("lease.atomic_transfer", "lease.fencing")

    async def test_a_transfer_is_a_new_term(self, lease: LeaseProvider) -> None:
        """The new owner has the full time and a larger fence; the old one has nothing."""
        old = await lease.acquire_lease("k", "a", 1_000)
        new = await lease.transfer_lease("k", "a", "b", 10_000, fence=old.fence)

        assert (True, "b") == (new.acquired, new.owner)
        assert fence_of(new) > fence_of(old)
        assert not await lease.renew_lease("k", "a", 10_000)
        assert not await lease.release_lease("k", "a")
        assert await lease.renew_lease("k", "b", 10_000, fence=new.fence)
        record = await lease.get_lease("k")
        assert record is not None
        assert record.ttl_remaining_ms > 9_000

    async def test_the_receiver_goes_on_with_its_term(self, lease: LeaseProvider) -> None:
        """When the new owner asks for it himself, the fence of the transfer stays good."""
        await lease.acquire_lease("k", "a", 10_000)
        moved = await lease.transfer_lease("k", "a", "b", 10_000)
        taken = await lease.acquire_lease("k", "b", 10_000)

        assert fence_of(moved) == fence_of(taken)

    async def test_a_transfer_to_oneself_is_a_renewal(self, lease: LeaseProvider) -> None:
        """The same term with the full time."""
        old = await lease.acquire_lease("k", "a", 1_000)
        new = await lease.transfer_lease("k", "a", "a", 10_000)

        assert (True, old.fence) == (new.acquired, new.fence)
        record = await lease.get_lease("k")
        assert record is not None
        assert record.ttl_remaining_ms > 9_000

    @case("pubsub_and_lease", 105)
    async def test_only_the_live_owner_hands_on(self, lease: LeaseProvider, elapse: Elapse) -> None:
        """Not somebody else, not with an old fence, not after expiry."""
        grant = await lease.acquire_lease("k", "a", TTL_MS)
        assert not await lease.transfer_lease("k", "b", "c", 10_000)
        assert not await lease.transfer_lease("k", "a", "c", 10_000, fence=fence_of(grant) - 1)
        assert await lease.get_lease_owner("k") == "a"

        await elapse(TTL_MS + 50)
        assert not await lease.transfer_lease("k", "a", "c", 10_000)
        assert await lease.get_lease_owner("k") is None
