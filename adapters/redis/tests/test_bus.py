"""Streams as a TypeScript peer writes and reads them, and what the bus leaves behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from mastra_conformance import case
from mastra_conformance.opening import Opener, Place
from mastra_conformance.processes import Processes
from mastra_conformance.subject import find_subject
from mastra_conformance.suites.pubsub.workers import subscribe_much
from mastra_core.base.unset import UNDEFINED
from mastra_core.bus import CachingPubSub
from mastra_core.errors import FencedOutError, PubSubError, WireEncodeError
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.events import Event
from mastra_redis import RedisCache, RedisLease, RedisPubSub
from mastra_redis.pubsub import streams
from mastra_redis.pubsub.driver import RedisDriver
from mastra_redis.pubsub.streams import Tail, idle_ttl_of

pytestmark = pytest.mark.anyio

SOON = 10.0


class Seen:
    """A handler that remembers, and settles as it is told."""

    def __init__(self, act: Callable[[Event], str] = lambda _: "ack") -> None:
        self.events: list[Event] = []
        self._act = act
        self._came = asyncio.Event()

    async def __call__(self, event: Event, ack: Any, nack: Any) -> None:
        self.events.append(event)
        self._came.set()
        verdict = self._act(event)
        if verdict != "nothing":
            await (ack() if verdict == "ack" else nack(verdict))

    @property
    def data(self) -> list[Any]:
        return [event.data for event in self.events]

    async def until(self, count: int) -> list[Event]:
        async with asyncio.timeout(SOON):
            while len(self.events) < count:
                self._came.clear()
                await self._came.wait()
        return self.events


async def eventually(holds: Callable[[], Any]) -> None:
    """Until an awaited condition holds."""
    async with asyncio.timeout(SOON):
        while not await holds():  # noqa: ASYNC110 - what is waited for is at the server
            await asyncio.sleep(0.01)


def event(data: Any = None, **members: Any) -> Event:
    return Event(**{"type": "x", "run_id": "r", "data": data, **members})


@pytest.fixture
def stream(namespace: str) -> Callable[[str], str]:
    return lambda topic: f"{namespace}:mastra:topic:{topic}"


@pytest.fixture
def open_bus(url: str, namespace: str) -> Callable[..., RedisPubSub]:
    def opened(**options: Any) -> RedisPubSub:
        return RedisPubSub(url, AdapterContext(namespace=namespace), **options)

    return opened


@pytest.fixture
async def bus(open_bus: Callable[..., RedisPubSub]) -> AsyncIterator[RedisPubSub]:
    async with open_bus(ack_wait_ms=500, retry_base_ms=10) as opened:
        yield opened


async def node_publish(client: Redis, key: str, **envelope: Any) -> bytes:
    """What its ``publish`` does."""
    value = {
        "type": "x", "runId": "r", "data": None, "id": "e1",
        "createdAt": "2026-01-01T00:00:00.000Z", "deliveryAttempt": 1, **envelope,
    }  # fmt: skip
    entry: bytes = await client.xadd(
        key, {"event": json.dumps(value)}, maxlen=10_000, approximate=True
    )
    return entry


# -- the wire ------------------------------------------------------------------------------------


async def test_an_entry_is_what_node_reads(
    bus: RedisPubSub, client: Redis, stream: Callable[[str], str]
) -> None:
    """One field; the envelope in Node's order; values as JavaScript writes them."""
    data = {"n": 1.0, "none": None, "gone": UNDEFINED, "bytes": b"\x01", "nan": float("nan")}

    await bus.publish("t", event(data, extra={"later": True}))

    [(_, fields)] = await client.xrange(stream("t"))
    text = fields[b"event"].decode()
    assert [b"event"] == list(fields)
    assert {
        "n": 1,
        "none": None,
        "bytes": {"type": "Buffer", "data": [1]},
        "nan": None,
    } == json.loads(text)["data"]
    assert ["type", "runId", "data", "later", "id", "createdAt", "deliveryAttempt"] == list(
        json.loads(text)
    )
    assert '"n":1,' in text


async def test_an_event_of_node_is_what_it_published(
    bus: RedisPubSub, client: Redis, stream: Callable[[str], str]
) -> None:
    seen = Seen()
    await bus.subscribe("t", seen)

    await node_publish(client, stream("t"), data={"a": 1}, id="node-1", future=True)

    [found] = await seen.until(1)
    assert ("node-1", {"a": 1}, {"future": True}, "t") == (
        found.id, found.data, found.extra, found.topic,
    )  # fmt: skip
    assert found.created_at is not None
    assert 2026 == found.created_at.year


@case("pubsub_and_lease", 88)
async def test_malformed_entries_are_settled_and_skipped(
    bus: RedisPubSub, client: Redis, stream: Callable[[str], str]
) -> None:
    """For everybody, and for a group, which keeps nothing of them."""
    alone, member = Seen(), Seen()
    await bus.subscribe("t", alone)
    await bus.subscribe("t", member, group="g")

    await client.xadd(stream("t"), {"event": "{no json"})
    await client.xadd(stream("t"), {"other": "1"})
    await client.xadd(stream("t"), {"event": "[]"})
    await bus.publish("t", event("good"))

    await alone.until(1)
    await member.until(1)
    await bus.flush()
    assert ["good"] == alone.data == member.data
    assert 0 == (await client.xpending(stream("t"), "g"))["pending"]


@case("pubsub_and_lease", 71)
async def test_a_killed_process_leaves_nothing(
    url: str, namespace: str, bus: RedisPubSub, client: Redis
) -> None:
    """No group, no position, and no key that lives for ever (R-6)."""
    topics = [f"t{number}" for number in range(20)]
    opener = Opener(subject=find_subject(url), place=Place(url=url, namespace=namespace))
    async with Processes(opener).start(subscribe_much, topics=topics) as reader:
        await reader.reached("subscribed")
        await bus.publish(topics[0], event(1))
        await reader.kill()

    kept = [key async for key in client.scan_iter(match=f"*{namespace}*")]
    streams = [key for key in kept if await client.type(key) == b"stream"]
    assert 1 == len(streams)
    assert [] == await client.xinfo_groups(streams[0])
    assert [] == [key for key in kept if key not in streams and await client.ttl(key) < 0]


@case("pubsub_and_lease", 86)
async def test_a_deleted_stream_is_followed_anew(
    bus: RedisPubSub, client: Redis, stream: Callable[[str], str]
) -> None:
    """By Node's ``clearTopic``, while everybody waits; twice."""
    alone, member = Seen(), Seen()
    await bus.subscribe("t", alone)
    await bus.subscribe("t", member, group="g")
    await bus.publish("t", event(0))
    await alone.until(1)
    await member.until(1)

    for number in (1, 2):
        await bus.flush()
        await client.delete(stream("t"))
        await bus.publish("t", event(number))
        await alone.until(number + 1)
        await member.until(number + 1)

    assert [0, 1, 2] == alone.data == member.data


@case("pubsub_and_lease", 87)
async def test_two_readers_make_a_lost_group_anew(
    open_bus: Callable[..., RedisPubSub], client: Redis, stream: Callable[[str], str]
) -> None:
    """Each event still goes to one of them."""
    async with open_bus() as one, open_bus() as other:
        seen, also = Seen(), Seen()
        await one.subscribe("t", seen, group="g")
        await other.subscribe("t", also, group="g")
        await client.delete(stream("t"))

        await asyncio.gather(*(one.publish("t", event(n)) for n in range(20)))

        async def all_came() -> bool:
            return len(seen.data) + len(also.data) >= 20

        await eventually(all_came)
        assert list(range(20)) == sorted(seen.data + also.data)


async def test_a_retry_of_node_that_we_settled_is_no_news(
    bus: RedisPubSub, client: Redis, stream: Callable[[str], str]
) -> None:
    """Its nack publishes the event again, for every group."""
    seen = Seen()
    await bus.subscribe("t", seen, group="g")
    await node_publish(client, stream("t"), id="same", data=1)
    await seen.until(1)
    await bus.flush()

    await node_publish(client, stream("t"), id="same", data=1, deliveryAttempt=2)
    await node_publish(client, stream("t"), id="new", data=2, deliveryAttempt=2)

    await seen.until(2)
    await bus.flush()
    assert [(1, 1), (2, 2)] == [(found.data, found.delivery_attempt) for found in seen.events]
    assert 0 == (await client.xpending(stream("t"), "g"))["pending"]


async def test_what_a_dead_peer_held_is_taken_over(
    bus: RedisPubSub, client: Redis, stream: Callable[[str], str]
) -> None:
    """A Node consumer that read and vanished; its delivery counts."""
    await bus.publish("t", event("left"))
    await client.xgroup_create(stream("t"), "g", id="0")
    await client.xreadgroup("g", "g-1234", {stream("t"): ">"})
    seen = Seen()

    await bus.subscribe("t", seen, group="g")

    [found] = await seen.until(1)
    assert ("left", 2) == (found.data, found.delivery_attempt)


async def test_who_leaves_after_a_nack_does_not_undo_the_attempt(url: str) -> None:
    """The next member gets it as the second attempt."""
    async with RedisPubSub(url) as bus, RedisPubSub(url) as other:
        failing, taking = Seen(lambda _: "nack"), Seen()
        await bus.subscribe("t", failing, group="g")
        await bus.publish("t", Event(type="x", data=1, run_id="r"))
        await failing.until(1)
        await bus.unsubscribe("t", failing)
        await other.subscribe("t", taking, group="g")
        await taking.until(1)

    assert [1] == [event.delivery_attempt for event in failing.events]
    assert [2] == [event.delivery_attempt for event in taking.events]


async def test_a_nack_lets_other_groups_alone(
    bus: RedisPubSub, client: Redis, stream: Callable[[str], str]
) -> None:
    """The stream grows by nothing, so Node sees no second event either."""
    seen = Seen(lambda found: "no" if found.delivery_attempt < 3 else "ack")
    await bus.subscribe("t", seen, group="g")
    await bus.publish("t", event(1))

    await seen.until(3)
    await bus.flush()

    assert [1, 2, 3] == [found.delivery_attempt for found in seen.events]
    assert 1 == await client.xlen(stream("t"))


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["lease:x", "lease-metadata:x"])
async def test_topics_whose_keys_are_leases_are_refused(bus: RedisPubSub, topic: str) -> None:
    with pytest.raises(PubSubError, match="lease"):
        await bus.publish(topic, event(1))
    with pytest.raises(PubSubError, match="lease"):
        await bus.subscribe(topic, Seen())
    with pytest.raises(PubSubError, match="lease"):
        await bus.subscribe(topic, Seen(), group="g")


async def test_what_has_no_json_form_is_refused(bus: RedisPubSub) -> None:
    with pytest.raises(WireEncodeError):
        await bus.publish("t", event(object()))

    assert [] == await bus.get_history("t")


async def test_an_owner_fenced_out_by_node_publishes_nothing(
    bus: RedisPubSub, client: Redis, namespace: str
) -> None:
    """Node took the key and knows no fences; its name in the key is enough."""
    lease = bus.get_lease_provider()
    grant = await lease.acquire_lease("k", "run-1", 10_000)
    assert grant.fence is not None
    await bus.publish("t", event(1), fence=("k", grant.fence))

    await client.set(f"{namespace}:mastra:topic:lease:k", "run-of-node", px=10_000)

    with pytest.raises(FencedOutError):
        await bus.publish("t", event(2), fence=("k", grant.fence))
    assert [1] == [found.data for found in await bus.get_history("t")]
    await client.delete(f"{namespace}:mastra:topic:lease:k")


# -- what stays ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "ttl_ms"),
    [
        ("workflows", 0),
        ("background-tasks:worker-1", 0),
        ("agent.stream.run-1", 3_600_000),
        ("agent.thread-stream.r%00t.idle-acceptance.1", 3_600_000),
        ("agent.thread-stream.r%00t", 7 * 24 * 3_600_000),
        ("anything", 7 * 24 * 3_600_000),
    ],
)
def test_how_long_a_silent_topic_stays(topic: str, ttl_ms: int) -> None:
    assert ttl_ms == idle_ttl_of(topic)


async def test_every_key_of_bus_and_lease_expires(
    open_bus: Callable[..., RedisPubSub], client: Redis, namespace: str
) -> None:
    """Also when the process is gone before it can clean up."""
    bus = open_bus(ack_wait_ms=200, retry_base_ms=1, max_delivery_attempts=2)
    refusing, settling = Seen(lambda _: "no"), Seen()
    await bus.subscribe("t", Seen())
    await bus.subscribe("t", refusing, group="refuses")
    await bus.subscribe("t", settling, group="settles")
    await bus.publish("t", event(1), dedupe_id="d1")
    await bus.get_lease_provider().acquire_lease("k", "o", 5_000)
    await refusing.until(2)
    await settling.until(1)

    async def is_buried() -> bool:
        return bool(await bus.list_dead("t"))

    await eventually(is_buried)
    [letter] = await bus.list_dead("t")
    assert await bus.requeue_dead("t", letter.id)
    await refusing.until(3)

    keys = [key async for key in client.scan_iter(f"*{namespace}:*")]
    kept = {key: await client.pttl(key) for key in keys}
    await bus.aclose()

    assert kept
    assert [] == [key for key, ttl_ms in kept.items() if ttl_ms == -1]


async def test_a_subscriber_leaves_nothing_at_the_server(
    bus: RedisPubSub, client: Redis, stream: Callable[[str], str]
) -> None:
    """Fan-out has no group; a consumer that leaves is deleted."""
    seen, member = Seen(), Seen()
    await bus.subscribe("t", seen)
    await bus.subscribe("t", member, group="g")
    await bus.publish("t", event(1))
    await seen.until(1)
    await member.until(1)
    await bus.unsubscribe("t", seen)
    await bus.unsubscribe("t", member)
    await bus.flush()

    assert [b"g"] == [group["name"] for group in await client.xinfo_groups(stream("t"))]

    async def nobody() -> bool:
        return not await client.xinfo_consumers(stream("t"), "g")

    await eventually(nobody)


@case("pubsub_and_lease", 61)
async def test_nothing_unsettled_is_trimmed(open_bus: Callable[..., RedisPubSub]) -> None:
    """A stream over its limit keeps what a group hasn't got yet."""
    async with open_bus(max_entries=20) as bus:
        held = Seen(lambda _: "nothing")
        await bus.subscribe("t", held, group="g", max_in_flight=1)
        for number in range(200):
            await bus.publish("t", event(number))

        assert list(range(200)) == [found.data for found in await bus.get_history("t")]
        await bus.unsubscribe("t", held)
        seen = Seen()
        await bus.subscribe("t", seen, group="g")
        await seen.until(200)
        assert list(range(200)) == sorted(seen.data)


async def test_a_stream_without_groups_keeps_its_limit(
    open_bus: Callable[..., RedisPubSub],
) -> None:
    async with open_bus(max_entries=20) as bus:
        for number in range(200):
            await bus.publish("t", event(number))

        kept = [found.data for found in await bus.get_history("t")]

    assert list(range(kept[0], 200)) == kept
    assert 20 <= len(kept) <= 22


@case("pubsub_and_lease", 60)
async def test_a_topic_that_vanished_by_age_is_followed_anew(
    open_bus: Callable[..., RedisPubSub], client: Redis, stream: Callable[[str], str]
) -> None:
    """Writes keep it; silence ends it; the next event reaches who still listens."""
    async with open_bus(idle_ttl_ms=400) as bus:
        alone, member = Seen(), Seen()
        await bus.subscribe("t", alone)
        await bus.subscribe("t", member, group="g")
        for number in range(6):
            await bus.publish("t", event(number))
            await alone.until(number + 1)
            await asyncio.sleep(0.1)
        assert 6 == await client.xlen(stream("t"))

        async def is_gone() -> bool:
            return not await client.exists(stream("t"))

        await eventually(is_gone)
        await bus.publish("t", event("after"))

        await alone.until(7)
        await member.until(7)


# -- the cache of CachingPubSub --------------------------------------------------------------------


async def test_the_cache_is_that_of_node(
    bus: RedisPubSub, url: str, client: Redis, namespace: str
) -> None:
    """Its keys, the number as first member, times that end; Node may count on."""
    context = AdapterContext(namespace=namespace)
    async with RedisCache(url, context) as cache:
        caching = CachingPubSub(bus, cache)
        await caching.publish("t", event("a"))
        base = f"{namespace}:mastra:cache:pubsub:t"
        first = (await client.lrange(base, 0, -1))[0]
        index = await client.incr(f"{base}:counter") - 1
        await client.rpush(base, b'{"index":%d,"type":"x","runId":"r","data":"node"}' % index)
        await caching.publish("t", event("b"))

        history = await caching.get_history("t")

        assert first.startswith(b'{"index":0,"type":"x"')
        assert [(0, "a"), (1, "node"), (2, "b")] == [(e.index, e.data) for e in history]
        assert 0 < await client.ttl(base) <= 300
        assert 0 < await client.ttl(f"{base}:counter") <= 300
        await cache.clear()
        assert [] == await caching.get_history("t")


async def test_the_cache_keeps_values_and_lists(url: str, namespace: str) -> None:
    async with RedisCache(url, AdapterContext(namespace=namespace)) as cache:
        assert None is await cache.get("v")
        await cache.set("v", {"a": [1, None]})
        await cache.set("short", 1, 50)
        await cache.list_push("l", 1)
        await cache.list_push("l", {"x": 2})

        assert {"a": [1, None]} == await cache.get("v")
        assert (1, 2) == (await cache.increment("n"), await cache.increment("n"))
        assert 2 == await cache.list_length("l")
        assert [{"x": 2}] == await cache.list_from_to("l", -1)
        assert 1 == await cache.list_remove("l", {"x": 2})
        await cache.delete("v")
        assert None is await cache.get("v")

        async def is_over() -> bool:
            return await cache.get("short") is None

        await eventually(is_over)
        await cache.clear()
        assert 0 == await cache.list_length("l")


# -- leases beside Node ----------------------------------------------------------------------------


@pytest.fixture
async def lease(url: str, namespace: str) -> AsyncIterator[RedisLease]:
    async with RedisLease(url, AdapterContext(namespace=namespace)) as opened:
        yield opened


async def test_a_lease_is_the_key_that_node_knows(
    lease: RedisLease, client: Redis, namespace: str
) -> None:
    """The raw NUL of a thread key stays; the value is the bare owner."""
    await lease.acquire_lease("r\0t", "run-1", 5_000)

    key = f"{namespace}:mastra:topic:lease:r\0t"
    assert b"run-1" == await client.get(key)
    assert 0 < await client.pttl(key) <= 5_000
    assert await client.hget(f"{{{key}}}:fence", "owner") == b"run-1"


@case("pubsub_and_lease", 125)
async def test_a_term_of_node_between_ours_raises_the_fence(
    lease: RedisLease, client: Redis, namespace: str
) -> None:
    """Though Node knows no fences; and what we held before is worth nothing."""
    key = f"{namespace}:mastra:topic:lease:k"
    first = await lease.acquire_lease("k", "ours", 5_000)
    assert first.fence is not None

    await client.set(key, "node", px=5_000)
    refused = await lease.acquire_lease("k", "ours", 5_000)
    renewed = await lease.renew_lease("k", "ours", 5_000)
    stale = await lease.check_lease("k", "ours", first.fence)
    await client.delete(key)
    second = await lease.acquire_lease("k", "ours", 5_000)

    assert (False, "node") == (refused.acquired, refused.owner)
    assert not renewed
    assert not stale
    assert second.fence is not None
    assert second.fence > first.fence


@case("pubsub_and_lease", 126)
async def test_a_key_that_node_hands_to_our_run_is_ours(
    lease: RedisLease, client: Redis, namespace: str
) -> None:
    """Node's transfer writes nothing but the new owner; renewing keeps it, acquiring fences it."""
    key = f"{namespace}:mastra:topic:lease:k"
    await client.set(key, "run-of-node", px=5_000)
    await client.set(key, "our-run", px=5_000)

    assert await lease.renew_lease("k", "our-run", 9_000)
    assert 5_000 < await client.pttl(key) <= 9_000
    grant = await lease.acquire_lease("k", "our-run", 5_000)
    assert grant.fence is not None
    back = await lease.transfer_lease("k", "our-run", "run-of-node", 5_000)

    assert back.acquired
    assert b"run-of-node" == await client.get(key)


async def test_a_takeover_by_node_is_noticed_by_looking(
    url: str, namespace: str, client: Redis
) -> None:
    """Node tells nobody, so a watcher looks now and then."""
    context = AdapterContext(namespace=namespace)
    key = f"{namespace}:mastra:topic:lease:k"
    async with RedisLease(url, context, watch_poll_ms=50) as lease:
        await lease.acquire_lease("k", "ours", 5_000)
        events = lease.watch_lease("k")
        await client.set(key, "node", px=5_000)

        async with asyncio.timeout(SOON):
            told = await anext(events)

        assert ("acquired", "node") == (told.kind, told.owner)
        await events.aclose()  # type: ignore[attr-defined] # it is a generator
        await client.delete(key)


async def test_a_grant_that_no_replica_has_is_none(url: str, namespace: str) -> None:
    """With ``wait_replicas`` and a server that has none."""
    context = AdapterContext(namespace=namespace)
    async with RedisLease(url, context, wait_replicas=1) as lease:
        grant = await lease.acquire_lease("k", "ours", 1_000)

        assert not grant.acquired
        assert None is await lease.get_lease_owner("k")


async def test_a_flush_asks_what_the_waiting_read_has_not_told_yet(
    open_bus: Callable[..., RedisPubSub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that is stored is handled, although the connection that waits is slow."""
    seen: list[int] = []

    async def note(event: Event) -> None:
        seen.append(event.data)

    async with open_bus() as bus:
        await bus.subscribe("t", note)
        await bus.publish("t", event(1))
        await bus.flush()
        taking = Tail._take

        async def late(*arguments: Any) -> Any:
            await asyncio.sleep(0.5)
            return await taking(*arguments)

        monkeypatch.setattr(Tail, "_take", late)
        await bus.publish("t", event(2))
        await bus.flush()

        assert [1, 2] == seen


async def test_a_flush_asks_also_after_what_the_waiting_read_has_told(
    open_bus: Callable[..., RedisPubSub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that just gets what was told before finds what was stored behind it, too."""
    seen = Seen()
    reading, taking = RedisDriver.read_after, Tail._take
    told, may_read = asyncio.Event(), asyncio.Event()
    may_read.set()

    async def read_after(driver: RedisDriver, *arguments: Any) -> Any:
        await may_read.wait()
        return await reading(driver, *arguments)

    async def take(*arguments: Any) -> Any:
        if told.is_set():
            await asyncio.sleep(0.5)
        topics = await taking(*arguments)
        if topics:
            told.set()
        return topics

    monkeypatch.setattr(RedisDriver, "read_after", read_after)
    monkeypatch.setattr(Tail, "_take", take)
    async with open_bus() as bus:
        await bus.subscribe("t", seen)
        await bus.publish("t", event({"n": 1}))
        await bus.flush()
        await asyncio.sleep(0.6)  # what told of it has told
        told.clear()
        may_read.clear()
        await bus.publish("t", event({"n": 2}))
        await told.wait()
        await bus.publish("t", event({"n": 3}))
        flushing = asyncio.create_task(bus.flush())
        await asyncio.sleep(0.05)
        may_read.set()
        await flushing

        assert [{"n": 1}, {"n": 2}, {"n": 3}] == seen.data


async def test_a_connection_that_never_answers_is_replaced(
    open_bus: Callable[..., RedisPubSub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others publish arrives over the next one."""
    real, is_first = streams._reply, True

    async def reply(connection: Any) -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            await asyncio.Event().wait()
        return await real(connection)

    monkeypatch.setattr(streams, "_reply", reply)
    monkeypatch.setattr(streams, "_LATE_S", 0.2)
    async with open_bus() as here, open_bus() as there:
        seen = Seen()
        await here.subscribe("t", seen, start_from="latest")
        # The first one may be found by the look with which a subscription begins.
        for number in (1, 2):
            await there.publish("t", event({"n": number}))
            await seen.until(number)

    assert [{"n": 1}, {"n": 2}] == seen.data
    assert not is_first
