"""The provider that keeps nobody out, and when it is used."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

from mastra_conformance import case
from mastra_core.base.ids import UuidIds
from mastra_core.bus import CachingPubSub, EventEngine, NoLease, lease_provider_of
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.errors import DegradedWarning
from mastra_core.inmemory.cache import InMemoryCache
from mastra_core.inmemory.capabilities import PUBSUB_CAPABILITIES
from mastra_core.inmemory.hub import Hub
from mastra_core.inmemory.pubsub import InMemoryPubSub, MemoryDriver
from mastra_core.testing.fake_clock import FakeClock

pytestmark = pytest.mark.anyio


def bus_without_leases(clock: FakeClock, *, is_shared: bool) -> EventEngine:
    """A bus whose driver has no leases."""
    capabilities = replace(
        PUBSUB_CAPABILITIES,
        leases=False,
        fencing=False,
        lease_watch=False,
        offsets=False,
        cross_process=is_shared,
    )
    return EventEngine(MemoryDriver(clock, UuidIds(), Hub(clock), capabilities=capabilities))


@case("pubsub_and_lease", 120)
async def test_the_five_answers() -> None:
    """Granted, renewed and handed on to everybody; owned by nobody."""
    lease = NoLease()

    assert isinstance(lease, LeaseProvider)
    grant = await lease.acquire_lease("k", "a", 1_000)
    assert (True, "a", None) == (grant.acquired, grant.owner, grant.fence)
    assert await lease.acquire_lease("k", "b", 1_000)
    assert await lease.get_lease_owner("k") is None
    await lease.release_lease("k", "c")
    assert await lease.renew_lease("k", "d", 1_000) is True
    assert await lease.transfer_lease("k", "e", "f", 1_000)


@case("pubsub_and_lease", 119)
async def test_the_wrapper_gives_the_provider_of_the_inner_bus(clock: FakeClock) -> None:
    """None becomes the no-op, with one warning if other processes are reached."""
    cache, leasing = InMemoryCache(clock=clock), InMemoryPubSub()
    wrapped = CachingPubSub(leasing, cache)
    assert wrapped.get_lease_provider() is leasing.get_lease_provider()
    assert lease_provider_of(wrapped) is leasing.get_lease_provider()

    shared = CachingPubSub(bus_without_leases(clock, is_shared=True), cache)
    assert shared.get_lease_provider() is None
    with pytest.warns(DegradedWarning, match="no leases") as warned:
        assert isinstance(lease_provider_of(shared), NoLease)
    assert 1 == len(warned)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = CachingPubSub(bus_without_leases(clock, is_shared=False), cache)
        assert isinstance(lease_provider_of(alone), NoLease)
