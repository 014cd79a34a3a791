"""Every operation is cancelled at every place where it waits (design 5.5).

Afterwards nothing is held: others come through, and closing finds nothing open.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, Final

import pytest

from mastra_conformance import Suite, requires
from mastra_conformance.faults import outcomes
from mastra_conformance.faults.cancelling import as_coroutine, cancelled_at_every_wait
from mastra_conformance.faults.outcomes import attempt
from mastra_conformance.fixtures import OpenLease, OpenPubSub, OpenStore
from mastra_conformance.leaks import check_closed
from mastra_conformance.suites.faults.storage_calls import CALLS, StorageCall, prepare, probe
from mastra_conformance.suites.faults.writing import (
    Ledger,
    batch,
    check_ledger,
    prepare_writers,
)
from mastra_conformance.suites.pubsub.support import Recorder, make_event
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.contracts.storage import Storage
from mastra_core.errors import MastraError

__all__ = ("DOMAINS", "LeaseCancelSuite", "PubSubCancelSuite", "StorageCancelSuite")

#: So many that every place of a pool is hit.
_CROWD: Final = 24
_AFTERWARDS_S: Final = 5.0

DOMAINS: Final = tuple(dict.fromkeys(call.name.partition(".")[0] for call in CALLS))


async def _sweep(call: Callable[[int], Awaitable[object]]) -> int:
    """Cancel a call everywhere; the number of places."""
    place = 0
    runs = cancelled_at_every_wait(
        lambda run: as_coroutine(lambda: call(run)), limit_s=outcomes.CALL_S
    )
    async for place, error in runs:
        if error is not None and not isinstance(error, asyncio.CancelledError | MastraError):
            raise AssertionError(
                f"Cancelled at wait {place}, {type(error).__name__} came out: {error}"
            ) from error
    return place


class StorageCancelSuite(Suite):
    """Operations of a store."""

    role: ClassVar[str] = "storage"
    tier: ClassVar[int] = 4

    @pytest.mark.parametrize(
        "domain", [pytest.param(name, marks=requires(name)) for name in DOMAINS]
    )
    async def test_a_cancelled_call_holds_nothing(
        self, store: Storage, open_store: OpenStore, domain: str, rng: random.Random
    ) -> None:
        """Whoever is cancelled, wherever: the store and all others go on as if nothing was."""
        calls = [
            call
            for call in CALLS
            if call.name.startswith(f"{domain}.") and call.needs <= store.capabilities
        ]
        async with open_store() as other:
            await prepare(store)
            for call in rng.sample(calls, len(calls)):
                await _sweep(partial(_call, store, call))
                async with asyncio.timeout(_AFTERWARDS_S):
                    await probe(other)
                    await probe(store)
            await _crowd_is_cancelled(store, calls, rng)
            async with asyncio.timeout(_AFTERWARDS_S):
                await asyncio.gather(*(probe(store) for _ in range(_CROWD)))
                await probe(other)
        await store.aclose()
        check_closed(store)

    @requires("memory")
    async def test_a_cancelled_batch_is_whole_or_absent(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Cancelling tears no write."""
        ledger = Ledger()
        await prepare_writers(store, "w")

        async def save(run: int) -> None:
            ledger.tried.append(("w", run))
            await store.memory.save_messages(batch("w", run))
            ledger.acked.add(("w", run))

        await _sweep(save)
        async with open_store() as other:
            faults = await check_ledger(other, ledger)

        assert [] == faults

    async def test_opening_can_be_cancelled(self, open_store: OpenStore) -> None:
        """Anywhere while it opens: nothing stays behind, and the next one opens."""

        async def open_and_close(run: int) -> None:
            async with open_store() as opened:
                await probe(opened)

        await _sweep(open_and_close)
        async with open_store() as opened:
            await probe(opened)
        check_closed(opened)


class PubSubCancelSuite(Suite):
    """Operations of a bus."""

    role: ClassVar[str] = "pubsub"
    tier: ClassVar[int] = 4

    async def test_a_cancelled_call_holds_nothing(
        self, pubsub: PubSub, open_pubsub: OpenPubSub
    ) -> None:
        """Publishing, subscribing, clearing and the rest; then everything still works."""
        has = pubsub.capabilities

        async def subscribe(run: int) -> None:
            seen = Recorder()
            try:
                await pubsub.subscribe(f"s{run}", seen, start_from="latest")
            finally:
                await pubsub.unsubscribe(f"s{run}", seen)

        async def join(run: int) -> None:
            member = Recorder()
            try:
                await pubsub.subscribe("g", member, group=f"g{run}")
            finally:
                await pubsub.unsubscribe("g", member)

        calls: list[Callable[[int], Awaitable[object]]] = [
            lambda run: pubsub.publish("t", make_event(run)),
            lambda run: pubsub.publish("t", make_event(run), dedupe_id=f"d{run}"),
            subscribe,
            lambda _: pubsub.flush(timeout_ms=2_000),
            lambda _: pubsub.clear_topic("c"),
            lambda _: pubsub.trim_topic("c", run_id="run"),
        ]
        if has.groups:
            calls.append(join)
        if has.history:
            calls.append(lambda _: pubsub.get_history("t"))
        if has.dead_letter:
            calls += [lambda _: pubsub.list_dead("t"), lambda _: pubsub.purge_dead("t")]
        for call in calls:
            await _sweep(call)

        seen = Recorder()
        async with asyncio.timeout(2 * _AFTERWARDS_S), open_pubsub() as other:
            await other.subscribe("t", seen, start_from="latest")
            await asyncio.gather(*(pubsub.publish("t", make_event(n)) for n in range(_CROWD)))
            await seen.until(_CROWD)
            await pubsub.flush()

    @requires("pubsub.history")
    async def test_a_cancelled_publish_is_stored_once_or_not(self, pubsub: PubSub) -> None:
        """And those around it keep their order."""
        acked: list[int] = []

        async def publish(run: int) -> None:
            await asyncio.gather(
                *(pubsub.publish("t", make_event([run, place])) for place in range(3))
            )
            acked.append(run)

        await _sweep(publish)
        await pubsub.publish("t", make_event("end"))
        stored = [tuple(event.data) for event in (await pubsub.get_history("t"))[:-1]]

        assert len(stored) == len(set(stored))
        assert {(run, place) for run in acked for place in range(3)} <= set(stored)

    async def test_opening_can_be_cancelled(self, open_pubsub: OpenPubSub) -> None:
        """Anywhere while it opens: nothing stays behind, and the next one opens."""

        async def open_and_close(run: int) -> None:
            async with open_pubsub() as bus:
                await bus.publish("t", make_event(run))

        await _sweep(open_and_close)
        async with asyncio.timeout(2 * _AFTERWARDS_S), open_pubsub() as bus:
            await bus.publish("t", make_event("end"))


class LeaseCancelSuite(Suite):
    """Operations of a lease provider."""

    role: ClassVar[str] = "lease"
    capabilities: ClassVar[tuple[str, ...]] = ("lease.fencing", "lease.atomic_transfer")
    tier: ClassVar[int] = 4

    async def test_a_cancelled_call_holds_nothing(
        self, lease: LeaseProvider, open_lease: OpenLease
    ) -> None:
        """Nobody is kept out but by a lease that was granted, and that can be given back."""
        ttl_ms = 60_000
        await lease.acquire_lease("mine", "a", ttl_ms)
        calls: list[Callable[[int], Awaitable[object]]] = [
            lambda run: lease.acquire_lease(f"k{run}", "a", ttl_ms),
            lambda _: lease.renew_lease("mine", "a", ttl_ms),
            lambda run: lease.release_lease(f"k{run}", "a"),
            lambda _: lease.transfer_lease("mine", "a", "a", ttl_ms),
            lambda _: lease.get_lease("mine"),
            lambda _: lease.get_lease_owner("mine"),
            lambda _: lease.check_lease("mine", "a", 1),
        ]
        for call in calls:
            await _sweep(call)

        async with asyncio.timeout(_AFTERWARDS_S), open_lease() as other:
            assert await other.get_lease_owner("mine") == "a"
            await asyncio.gather(
                *(other.acquire_lease(f"free{n}", "b", ttl_ms) for n in range(_CROWD))
            )
            assert await lease.release_lease("mine", "a")
            assert await other.acquire_lease("mine", "b", ttl_ms)

    async def test_a_cancelled_transfer_has_one_owner(
        self, lease: LeaseProvider, open_lease: OpenLease
    ) -> None:
        """Before or after, never in between."""
        ttl_ms = 60_000
        owners: set[str | None] = set()

        async def hand_over(run: int) -> None:
            await lease.acquire_lease(f"k{run}", "a", ttl_ms)
            await lease.transfer_lease(f"k{run}", "a", "b", ttl_ms)

        places = await _sweep(hand_over)
        async with open_lease() as other:
            for run in range(1, places + 1):
                owners.add(await other.get_lease_owner(f"k{run}"))

        assert owners <= {"a", "b", None}
        assert "b" in owners

    async def test_opening_can_be_cancelled(self, open_lease: OpenLease) -> None:
        """Anywhere while it opens: nothing stays behind, and the next one opens."""

        async def open_and_close(run: int) -> None:
            async with open_lease() as provider:
                await provider.acquire_lease(f"k{run}", "a", 60_000)

        await _sweep(open_and_close)
        async with asyncio.timeout(2 * _AFTERWARDS_S), open_lease() as provider:
            assert await provider.acquire_lease("k", "b", 60_000)


async def _call(store: Storage, call: StorageCall, run: int) -> object:
    return await call.call(store, f"{call.name}-{run}")


async def _crowd_is_cancelled(store: Storage, calls: list[StorageCall], rng: random.Random) -> None:
    """Many calls at once, cancelled at random: the whole pool is busy when it happens."""

    async def one(number: int) -> Any:
        return await attempt("storage", lambda: rng.choice(calls).call(store, f"crowd-{number}"))

    tasks = [asyncio.create_task(one(number)) for number in range(_CROWD)]
    for task in rng.sample(tasks, len(tasks)):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait(tasks)
