"""Numbered history in a cache, for a bus that keeps none (pubsub_and_lease.md 4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core.base.ids import UuidIds
from mastra_core.bus import CachingPubSub, EventEngine, Indexed, ServerCache
from mastra_core.contracts.pubsub import PubSub
from mastra_core.errors import FencedOutError
from mastra_core.inmemory.cache import InMemoryCache
from mastra_core.inmemory.capabilities import PUBSUB_CAPABILITIES
from mastra_core.inmemory.hub import Hub
from mastra_core.inmemory.pubsub import InMemoryPubSub, MemoryDriver
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.wire.events import Event

pytestmark = pytest.mark.anyio


def event(data: Any, **more: Any) -> Event:
    """An event of which only the data matters."""
    return Event(type="t", run_id=more.pop("run_id", "r"), data=data, **more)


def plain_bus(clock: FakeClock) -> EventEngine:
    """A bus that counts nothing, as the Unix socket."""
    bare = replace(PUBSUB_CAPABILITIES, offsets=False, history=False, cursors=False)
    driver = MemoryDriver(clock, UuidIds(), Hub(clock), capabilities=bare)
    return EventEngine(driver, clock=clock)


class Seen:
    """A handler that remembers index and data."""

    def __init__(self) -> None:
        self.events: list[tuple[int | None, Any]] = []

    def __call__(self, event: Event) -> None:
        assert event.created_at is not None
        assert event.created_at.tzinfo is UTC
        assert "indexEpoch" not in event.extra
        self.events.append((event.index, event.data))


class BrokenCache(InMemoryCache):
    """Fails while told to."""

    is_broken = True

    async def list_push_indexed(
        self, key: str, counter_key: str, value: Mapping[str, Any], *, max_entries: int
    ) -> Indexed:
        if self.is_broken:
            raise ConnectionError("no cache")
        return await super().list_push_indexed(key, counter_key, value, max_entries=max_entries)


@pytest.fixture
def cache(clock: FakeClock) -> InMemoryCache:
    """A cache of its own."""
    return InMemoryCache(clock=clock)


@pytest.fixture
async def caching(clock: FakeClock, cache: InMemoryCache) -> AsyncIterator[CachingPubSub]:
    """The wrapper around a bus that counts nothing."""
    async with CachingPubSub(plain_bus(clock), cache, clock=clock) as opened:
        yield opened


async def test_it_is_a_bus_with_offsets(caching: CachingPubSub, cache: InMemoryCache) -> None:
    """Whatever the one inside can do."""
    assert isinstance(caching, PubSub)
    assert isinstance(cache, ServerCache)
    assert (True, True) == (caching.capabilities.offsets, caching.capabilities.history)
    assert not caching.get_inner().capabilities.offsets


@case("pubsub_and_lease", 49)
async def test_history_then_live_without_a_seam(caching: CachingPubSub) -> None:
    """Five events, from 2: 2, 3, 4, then what is published between subscribe and read."""
    for number in range(5):
        await caching.publish("t", event(number))
    seen = Seen()

    read = caching._cache.list_from_to
    published = False

    async def read_late(key: str, start: int, end: int = -1) -> list[Any]:
        nonlocal published
        if not published:
            published = True
            await caching.publish("t", event(5))
        return await read(key, start, end)

    caching._cache.list_from_to = read_late  # type: ignore[method-assign]  # injects at the seam
    await caching.subscribe_from_offset("t", 2, seen)
    await caching.publish("t", event(6))
    await caching.flush()

    assert [(number, number) for number in range(2, 7)] == seen.events


@case("pubsub_and_lease", 50)
async def test_overtaking_events_are_put_in_order(
    caching: CachingPubSub, cache: InMemoryCache, clock: FakeClock
) -> None:
    """Index 1 arrives before 0: both come, in order (W1)."""
    seen, inner = Seen(), caching.get_inner()
    await caching.subscribe_from_offset("t", 0, seen)
    slow, fast = event("slow"), event("fast")
    for one in (slow, fast):
        one.id, one.created_at = one.data, clock.now()
        await caching._number("t", one)

    await inner.publish("t", fast, dedupe_id="fast")
    await clock.settle()
    assert [] == seen.events
    await inner.publish("t", slow, dedupe_id="slow")
    await clock.settle()

    assert [(0, "slow"), (1, "fast")] == seen.events


async def test_a_gap_is_filled_from_the_cache(caching: CachingPubSub, clock: FakeClock) -> None:
    """A live copy that never comes is fetched when the window is over, and comes once."""
    seen, inner = Seen(), caching.get_inner()
    await caching.subscribe_from_offset("t", 0, seen)
    lost, later = event("lost"), event("later")
    for one in (lost, later):
        one.id, one.created_at = one.data, clock.now()
        await caching._number("t", one)

    await inner.publish("t", later, dedupe_id="later")
    await clock.advance(0.25)
    assert [(0, "lost"), (1, "later")] == seen.events
    await inner.publish("t", lost, dedupe_id="lost")
    await clock.advance(1)
    assert 2 == len(seen.events)


@case("pubsub_and_lease", 51)
async def test_one_handler_on_two_topics_can_leave_both(caching: CachingPubSub) -> None:
    """Replay subscriptions are known by topic and handler (W2)."""
    seen = Seen()
    await caching.subscribe_from_offset("a", 0, seen)
    await caching.subscribe_from_offset("b", 0, seen)
    await caching.unsubscribe("a", seen)
    await caching.publish("a", event("a"))
    await caching.publish("b", event("b"))
    await caching.flush()
    assert [(0, "b")] == seen.events

    await caching.unsubscribe("b", seen)
    await caching.publish("a", event("a"))
    await caching.publish("b", event("b"))
    await caching.flush()
    assert [(0, "b")] == seen.events


@case("pubsub_and_lease", 52)
async def test_an_expired_cache_makes_nobody_deaf(caching: CachingPubSub, clock: FakeClock) -> None:
    """Numbering starts anew, and the subscriber goes on (W3)."""
    seen = Seen()
    await caching.subscribe_from_offset("t", 0, seen)
    for number in range(3):
        await caching.publish("t", event(number))
    await caching.flush()

    await clock.advance(301)
    for number in range(3, 5):
        await caching.publish("t", event(number))
    await caching.flush()

    assert [(0, 0), (1, 1), (2, 2), (0, 3), (1, 4)] == seen.events
    assert [3, 4] == [one.data for one in await caching.get_history("t")]


@case("pubsub_and_lease", 53)
async def test_without_a_cache_events_go_out_unnumbered(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is logged and blocks nobody."""
    cache, seen = BrokenCache(clock=clock), Seen()
    async with CachingPubSub(plain_bus(clock), cache, clock=clock) as caching:
        await caching.subscribe_from_offset("t", 0, seen)
        await caching.publish("t", event("blind"))
        cache.is_broken = False
        await caching.publish("t", event("counted"))
        await caching.flush()

    assert [(None, "blind"), (0, "counted")] == seen.events
    assert any("not cached" in record.message for record in caplog.records)


@case("pubsub_and_lease", 54)
async def test_what_is_not_cached_takes_no_index(clock: FakeClock, cache: InMemoryCache) -> None:
    """``local_only`` and ``should_cache`` leave numbers dense and the cache clean."""
    async with CachingPubSub(
        plain_bus(clock), cache, clock=clock, should_cache=lambda topic: topic != "raw"
    ) as caching:
        for number in range(3):
            await caching.publish("t", event(number))
            await caching.publish("t", event("local"), local_only=True)
            await caching.publish("raw", event("raw"))

        assert [(0, 0), (1, 1), (2, 2)] == [
            (one.index, one.data) for one in await caching.get_history("t")
        ]
        assert [] == await caching.get_history("raw")
        assert 0 == await cache.list_length("pubsub:raw")
        assert 3 == await cache.list_length("pubsub:t")


@case("pubsub_and_lease", 55)
async def test_a_redelivery_passes(caching: CachingPubSub, clock: FakeClock) -> None:
    """Attempt 2 of an old index isn't taken for a duplicate."""
    seen: list[tuple[int | None, int]] = []

    async def failing(event: Event) -> None:
        seen.append((event.index, event.delivery_attempt))
        if event.delivery_attempt == 1 and event.index == 0:
            raise ValueError

    await caching.subscribe_from_offset("t", 0, failing)
    await caching.publish("t", event("a"))
    await caching.publish("t", event("b"))
    await clock.advance(1)

    assert [(0, 1), (1, 1), (0, 2)] == seen


async def test_history_is_filtered_by_index(caching: CachingPubSub, cache: InMemoryCache) -> None:
    """When the list was lost but the counter wasn't, places aren't indexes (W4)."""
    for number in range(5):
        await caching.publish("t", event(number))
    await cache.delete("pubsub:t")
    for number in range(5, 8):
        await caching.publish("t", event(number))

    assert [(6, 6), (7, 7)] == [(one.index, one.data) for one in await caching.get_history("t", 6)]


async def test_the_history_is_bounded(clock: FakeClock, cache: InMemoryCache) -> None:
    """The last ``max_entries`` are kept (W5)."""
    async with CachingPubSub(plain_bus(clock), cache, clock=clock, max_entries=3) as caching:
        for number in range(10):
            await caching.publish("t", event(number))
        assert [7, 8, 9] == [one.data for one in await caching.get_history("t")]


async def test_cached_and_live_copies_are_equal(caching: CachingPubSub) -> None:
    """Id, time as a time, run, data, unknown members (W6)."""
    live: list[Event] = []
    await caching.subscribe("t", live.append)
    await caching.publish("t", event({"a": 1}, extra={"odd": True}))
    await caching.flush()

    (cached,) = await caching.get_history("t")
    live[0].extra.pop("indexEpoch")
    assert replace(live[0], cursor=None) == cached


async def test_clearing_restarts_at_zero(caching: CachingPubSub) -> None:
    """For attached replay subscribers, too."""
    seen = Seen()
    await caching.subscribe_from_offset("t", 0, seen)
    for number in range(2):
        await caching.publish("t", event(number))
    await caching.flush()
    await caching.clear_topic("t")
    await caching.publish("t", event("new"))
    await caching.flush()

    assert [(0, 0), (1, 1), (0, "new")] == seen.events
    assert ["new"] == [one.data for one in await caching.get_history("t")]


async def test_trimming_a_run_reaches_the_cache(caching: CachingPubSub) -> None:
    """Indexes of the others stay."""
    for number in range(4):
        await caching.publish("t", event(number, run_id="ab"[number % 2]))

    await caching.trim_topic("t", run_id="a")

    assert [(1, 1), (3, 3)] == [(one.index, one.data) for one in await caching.get_history("t")]


async def test_fenced_out_events_leave_no_trace(clock: FakeClock, cache: InMemoryCache) -> None:
    """What was refused is in no history."""
    bare = replace(PUBSUB_CAPABILITIES, offsets=False, history=False, cursors=False)
    hub = Hub(clock)
    inner = EventEngine(MemoryDriver(clock, UuidIds(), hub, capabilities=bare), clock=clock)
    async with CachingPubSub(inner, cache, clock=clock) as caching:
        hub.leases.see_fence("k", 5)
        await caching.publish("t", event("good"), fence=("k", 5))
        with pytest.raises(FencedOutError):
            await caching.publish("t", event("bad"), fence=("k", 4))

        assert ["good"] == [one.data for one in await caching.get_history("t")]


async def test_a_raising_handler_ends_the_replay(caching: CachingPubSub) -> None:
    """The subscription fails as a whole, and nothing stays registered."""
    await caching.publish("t", event(1))
    calls: list[Any] = []

    def explode(event: Event) -> None:
        calls.append(event.data)
        raise ValueError

    with pytest.raises(ValueError):
        await caching.subscribe_from_offset("t", 0, explode)
    await caching.publish("t", event(2))
    await caching.flush()

    assert [1] == calls


async def test_a_bus_with_offsets_is_passed_through(clock: FakeClock, cache: InMemoryCache) -> None:
    """One layer owns the history."""
    async with CachingPubSub(InMemoryPubSub(), cache, clock=clock) as caching:
        seen = Seen()
        await caching.publish("t", event(0))
        await caching.subscribe_from_offset("t", 0, seen)
        await caching.publish("t", event(1))
        await caching.flush()

        assert [(0, 0), (1, 1)] == seen.events
        assert [0, 1] == [one.data for one in await caching.get_history("t")]
        assert 0 == len(cache)


async def test_the_cache_is_bounded_and_expires(clock: FakeClock) -> None:
    """Over the limit the key that expires next goes; writing starts the time anew."""
    cache = InMemoryCache(ttl_ms=1_000, max_keys=2, clock=clock)
    await cache.set("a", 1, 500)
    await cache.set("b", 2)
    await cache.set("c", 3, 0)
    assert (None, 2, 3) == (await cache.get("a"), await cache.get("b"), await cache.get("c"))
    await clock.advance(0.8)
    await cache.list_push("l", 1)
    await clock.advance(0.9)
    await cache.list_push("l", 2)
    await clock.advance(0.9)
    assert [1, 2] == await cache.list_from_to("l", 0)
    assert [2] == await cache.list_from_to("l", -1)
    assert 3 == await cache.get("c")
    with pytest.raises(TypeError):
        await cache.increment("l")
    with pytest.raises(TypeError):
        await cache.list_push("c", 1)
    assert [1, 2] == [await cache.increment("n"), await cache.increment("n")]
    await cache.clear()
    assert 0 == len(cache)


async def test_no_task_is_left(caching: CachingPubSub, clock: FakeClock) -> None:
    """Waiting for a turn ends with the subscription."""
    before = len(asyncio.all_tasks())
    seen = Seen()
    await caching.subscribe_from_offset("t", 0, seen)
    await caching.publish("t", event(1))
    await caching.flush()
    await caching.unsubscribe("t", seen)
    await clock.settle()

    assert before == len(asyncio.all_tasks())
