"""One bus and its leases, used by both languages at once (pubsub_and_lease.md 9, 11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

import pytest

from mastra_conformance.cases import case
from mastra_conformance.node import NodePeer, NodePlace, node_peer
from mastra_conformance.opening import Opener
from mastra_conformance.suite import requires
from mastra_conformance.suites.interop.shared import NodeSuite
from mastra_conformance.suites.pubsub.support import (
    DEADLINE_S,
    Recorder,
    open_bus,
    publish_all,
)
from mastra_core.base.ids import Ids
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import PubSub
from mastra_core.threads.thread_key import thread_key, thread_topic
from mastra_core.wire.events import Event

__all__ = ("BusInteropSuite", "LeaseInteropSuite")

_MANY: Final = 500
#: Small, so that what a dead process held comes back within the time of a test.
_IDLE_MS: Final = 500
#: An event that is refused so often is given up.
_LAST_ATTEMPT: Final = 5
_ODD: Final = ("with blank", "a/b", "emoji 𝄞", "100%", "'()*!~", "ü&=?", "nul\0inside")


class BusInteropSuite(NodeSuite):
    """Events between the languages."""

    role = "pubsub"
    capabilities = ("pubsub.groups",)
    node_domains = ("bus",)

    @pytest.fixture
    async def bus(self, shared_opener: Opener) -> AsyncIterator[PubSub]:
        """Our bus under the names that Node knows."""
        async with open_bus(shared_opener, ack_wait_ms=_IDLE_MS) as bus:
            yield bus

    @pytest.fixture
    async def node(self, node_place: NodePlace, shared_opener: Opener) -> AsyncIterator[NodePeer]:
        """A Node process on the same bus."""
        async with node_peer(node_place) as peer:
            await _open_node_bus(peer, shared_opener)
            yield peer

    @pytest.fixture
    async def topic(self, bus: PubSub, ids: Ids) -> AsyncIterator[str]:
        """A topic of this test's own."""
        name = f"interop.{ids.new('topic')}"
        yield name
        await bus.clear_topic(name)

    @case("pubsub_and_lease", 122)
    async def test_node_publishes_and_we_receive(
        self, bus: PubSub, node: NodePeer, topic: str
    ) -> None:
        """In a group and by fan-out, each event once, equal to the millisecond."""
        grouped, fanned = Recorder(), Recorder()
        await bus.subscribe(topic, grouped, group="workers")
        await bus.subscribe(topic, fanned)
        await node.do("subscribe", bus="bus", topic=topic, **{"as": "own"})

        for number in range(_MANY):
            event = {"type": "test", "runId": f"run {number}", "data": {"n": number, "ü": [None]}}
            await node.bus("bus", "publish", topic, event)
        await grouped.until(_MANY)
        await fanned.until(_MANY)
        theirs = await _received(node, "own", _MANY)

        for seen in (grouped.events, fanned.events):
            assert list(map(_shown, theirs)) == [_wire(event) for event in seen]

    @case("pubsub_and_lease", 122)
    async def test_we_publish_and_node_receives(
        self, bus: PubSub, node: NodePeer, topic: str
    ) -> None:
        """In a group and by fan-out, each event once, equal to the millisecond."""
        own = Recorder()
        await bus.subscribe(topic, own)
        await node.do("subscribe", bus="bus", topic=topic, group="workers", **{"as": "grouped"})
        await node.do("subscribe", bus="bus", topic=topic, **{"as": "fanned"})

        await publish_all(bus, topic, [{"n": n, "text": "ü 𝄞"} for n in range(_MANY)])
        await own.until(_MANY)

        for name in ("grouped", "fanned"):
            theirs = await _received(node, name, _MANY)
            assert [_wire(event) for event in own.events] == list(map(_shown, theirs))

    @case("pubsub_and_lease", 123)
    async def test_a_group_of_both_loses_nothing(
        self, bus: PubSub, node: NodePeer, topic: str
    ) -> None:
        """200 events, refused now and then on both sides; none twice here after an ack."""
        acked: list[int] = []
        calls = 0

        async def work(event: Event, ack: Any, nack: Any) -> None:
            nonlocal calls
            calls += 1
            # A busy machine may leave Node no event: all attempts of one may come here.
            if calls % 3 == 0 and event.delivery_attempt < _LAST_ATTEMPT:
                await nack()
                return
            acked.append(event.data["n"])
            await ack()

        await bus.subscribe(topic, work, group="workers")
        order = {"bus": "bus", "topic": topic, "group": "workers", "answer": "nack-every-third"}
        await node.do("subscribe", **order, **{"as": "node"})
        await publish_all(bus, topic, [{"n": n} for n in range(200)])

        async def missing() -> set[int]:
            theirs = await node.do("received", **{"as": "node"})
            return set(range(200)) - set(acked) - {event["data"]["n"] for event in theirs}

        await _until(missing)
        assert len(acked) == len(set(acked))

    @case("pubsub_and_lease", 124)
    async def test_we_take_over_from_a_dead_node(
        self, bus: PubSub, node: NodePeer, topic: str
    ) -> None:
        """What a killed Node worker held comes to its sibling here."""
        order = {"bus": "bus", "topic": topic, "group": "workers", "answer": "none"}
        await node.do("subscribe", **order, **{"as": "held"})
        await publish_all(bus, topic, [{"n": 1}])
        await _received(node, "held", 1)

        await node.kill()
        ours = Recorder()
        await bus.subscribe(topic, ours, group="workers")
        await ours.until(1)

        assert [{"n": 1}] == ours.data
        assert ours.attempts[0] > 1

    @case("pubsub_and_lease", 124)
    async def test_node_takes_over_from_us(
        self, shared_opener: Opener, node: NodePeer, topic: str
    ) -> None:
        """What a bus of ours held that is gone comes to a Node sibling."""
        never = asyncio.Event()
        async with open_bus(shared_opener, ack_wait_ms=_IDLE_MS, drain_timeout_ms=100) as dying:
            held = Recorder(lambda *_: never.wait())
            await dying.subscribe(topic, held, group="workers")
            await publish_all(dying, topic, [{"n": 1}])
            await held.until(1)

        await node.do("subscribe", bus="bus", topic=topic, group="workers", **{"as": "node"})
        [event] = await _received(node, "node", 1)

        assert {"n": 1} == event["data"]

    @case("pubsub_and_lease", 130)
    @pytest.mark.parametrize("odd", _ODD)
    async def test_names_are_byte_equal(self, node: NodePeer, odd: str) -> None:
        """Topics of threads, whatever stands in the ids."""
        theirs = await node.do("encode", text=f"{odd}\0thread {odd}")

        assert f"agent.thread-stream.{theirs}" == thread_topic(odd, f"thread {odd}")


class LeaseInteropSuite(NodeSuite):
    """Leases between the languages."""

    role = "lease"
    capabilities = ("lease.fencing",)
    node_domains = ("bus",)

    @pytest.fixture
    async def leases(self, shared_opener: Opener) -> AsyncIterator[LeaseProvider]:
        """Our leases under the names that Node knows."""
        async with shared_opener.lease() as leases:
            yield leases

    @pytest.fixture
    async def node(self, node_place: NodePlace, shared_opener: Opener) -> AsyncIterator[NodePeer]:
        """A Node process on the same leases."""
        async with node_peer(node_place) as peer:
            await _open_node_bus(peer, shared_opener)
            yield peer

    @case("pubsub_and_lease", 125)
    async def test_both_agree_who_owns_a_key(
        self, leases: LeaseProvider, node: NodePeer, ids: Ids
    ) -> None:
        """Taken, contended, renewed and handed over on both sides."""
        key = ids.new("key")

        assert {"acquired": True, "owner": "node"} == await _acquire(node, key, "node")
        refused = await leases.acquire_lease(key, "python", 5000)
        assert (False, "node") == (refused.acquired, refused.owner)
        assert await node.bus("bus", "renewLease", key, "node", 5000) is True
        assert await leases.renew_lease(key, "python", 5000) is False
        assert await node.bus("bus", "transferLease", key, "node", "python", 5000) is True
        assert "python" == await leases.get_lease_owner(key)
        assert await leases.renew_lease(key, "python", 5000) is True
        handed = await leases.transfer_lease(key, "python", "node", 5000)
        assert handed.acquired
        assert "node" == await node.bus("bus", "getLeaseOwner", key)
        await node.bus("bus", "releaseLease", key, "node")
        assert await leases.get_lease_owner(key) is None

    @case("pubsub_and_lease", 125)
    async def test_our_fence_grows_over_a_term_of_node(
        self, leases: LeaseProvider, node: NodePeer, ids: Ids
    ) -> None:
        """A term of Node between two of ours makes the first one old."""
        key = ids.new("key")
        first = await leases.acquire_lease(key, "python", 5000)
        await leases.release_lease(key, "python")
        await _acquire(node, key, "node")
        assert first.fence is not None
        assert not await leases.check_lease(key, "python", first.fence)
        await node.bus("bus", "releaseLease", key, "node")

        second = await leases.acquire_lease(key, "python", 5000)
        await leases.release_lease(key, "python")

        assert second.fence is not None
        assert second.fence > first.fence

    @requires("lease.fencing")
    @case("pubsub_and_lease", 125)
    async def test_a_takeover_by_node_fences_us_out(
        self, leases: LeaseProvider, node: NodePeer, ids: Ids
    ) -> None:
        """Our lease ran out and Node took the key: our fence is worth nothing any more."""
        key = ids.new("key")
        ours = await leases.acquire_lease(key, "python", 100)

        async def taken() -> set[int]:
            answer = await _acquire(node, key, "node")
            return set() if answer["acquired"] else {1}

        await _until(taken)
        assert ours.fence is not None
        assert not await leases.check_lease(key, "python", ours.fence)
        assert not await leases.renew_lease(key, "python", 5000, fence=ours.fence)
        await node.bus("bus", "releaseLease", key, "node")

    @case("pubsub_and_lease", 130)
    @pytest.mark.parametrize("odd", _ODD)
    async def test_keys_of_threads_are_byte_equal(
        self, leases: LeaseProvider, node: NodePeer, ids: Ids, odd: str
    ) -> None:
        """The lease of a thread is one key for both, whatever stands in the ids."""
        thread = ids.new("thread")
        await _acquire(node, f"{odd}\0{thread}", "node")

        assert "node" == await leases.get_lease_owner(thread_key(odd, thread))
        await node.bus("bus", "releaseLease", f"{odd}\0{thread}", "node")


async def _open_node_bus(peer: NodePeer, opener: Opener) -> None:
    options = {"blockMs": 50, "reclaimIntervalMs": 100, "reclaimIdleMs": _IDLE_MS}
    await peer.do("bus", bus="bus", url=opener.place.url.partition("?")[0], **options)


async def _acquire(node: NodePeer, key: str, owner: str) -> dict[str, Any]:
    answer: dict[str, Any] = await node.bus("bus", "acquireLease", key, owner, 5000)
    return answer


async def _received(node: NodePeer, name: str, count: int) -> list[dict[str, Any]]:
    """What a subscription of Node got, once it is so much."""
    events: list[dict[str, Any]] = []

    async def missing() -> set[int]:
        events[:] = await node.do("received", **{"as": name})
        return set(range(len(events), count))

    await _until(missing)
    return events


async def _until(missing: Callable[[], Awaitable[set[int]]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while await missing():  # noqa: ASYNC110 – the other process tells nothing by itself
            await asyncio.sleep(0.02)


def _wire(event: Event) -> dict[str, Any]:
    """An event of ours as Node sees it."""
    assert event.created_at is not None
    return {
        "type": event.type,
        "runId": event.run_id,
        "data": event.data,
        "id": event.id,
        "createdAt": event.created_at - timedelta(microseconds=event.created_at.microsecond % 1000),
        "deliveryAttempt": event.delivery_attempt,
    }


def _shown(event: dict[str, Any]) -> dict[str, Any]:
    """The same members of an event that Node got."""
    names = ("type", "runId", "data", "id", "createdAt", "deliveryAttempt")
    return {name: event[name] for name in names}
