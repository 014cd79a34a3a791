"""Subscribing and unsubscribing (pubsub_and_lease.md P1-P3)."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from mastra_conformance import Suite, case, requires
from mastra_conformance.suites.pubsub.support import Recorder, eventually, make_event, publish_all
from mastra_core.contracts.pubsub import Cursor, PubSub
from mastra_core.wire.events import Event

__all__ = ("SubscribingSuite",)


class _Counter:
    """Has a bound method, which is a new object at each access."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def note(self, event: Event) -> None:
        """Handle an event."""
        self.seen.append(event.data)


class _Unhashable:
    """A handler that can't be a key."""

    __hash__ = None  # type: ignore[assignment]  # that is the point

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unhashable)

    def __call__(self, event: Event) -> None:
        self.seen.append(event.data)


class SubscribingSuite(Suite):
    """Subscriptions: barriers, identity, where they start."""

    role: ClassVar[str] = "pubsub"

    @case("pubsub_and_lease", 3)
    async def test_no_event_after_subscribe_is_missed(self, pubsub: PubSub) -> None:
        """200 times: subscribed, published at once, received."""
        for number in range(200):
            seen = Recorder()
            await pubsub.subscribe(f"t{number}", seen, start_from="latest")
            await pubsub.publish(f"t{number}", make_event(number))
            await seen.until(1)
            await pubsub.unsubscribe(f"t{number}", seen)
            assert [number] == seen.data

    @case("pubsub_and_lease", 4)
    async def test_subscribing_twice_is_once(self, pubsub: PubSub) -> None:
        """One delivery; one unsubscribe ends it."""
        seen, witness = Recorder(), Recorder()
        await pubsub.subscribe("t", seen)
        await asyncio.gather(pubsub.subscribe("t", seen), pubsub.subscribe("t", seen))
        await pubsub.subscribe("t", witness)

        await pubsub.publish("t", make_event(1))
        await seen.until(1)
        await pubsub.unsubscribe("t", seen)
        await pubsub.publish("t", make_event(2))

        await witness.until(2)
        await pubsub.flush()
        assert [1] == seen.data

    @case("pubsub_and_lease", 5)
    async def test_a_bound_method_is_found_again(self, pubsub: PubSub) -> None:
        """Handlers are compared by equality, not by identity."""
        counter, witness = _Counter(), Recorder()
        await pubsub.subscribe("t", counter.note)
        await pubsub.subscribe("t", counter.note)
        await pubsub.subscribe("t", witness)

        await pubsub.publish("t", make_event(1))
        await eventually(lambda: bool(counter.seen))
        await pubsub.unsubscribe("t", counter.note)
        await pubsub.publish("t", make_event(2))

        await witness.until(2)
        await pubsub.flush()
        assert [1] == counter.seen

    async def test_handlers_without_a_hash_are_told_apart(self, pubsub: PubSub) -> None:
        """They fall back to identity."""
        one, two = _Unhashable(), _Unhashable()
        await pubsub.subscribe("t", one)
        await pubsub.subscribe("t", two)
        await pubsub.unsubscribe("t", one)

        await pubsub.publish("t", make_event(1))

        await eventually(lambda: bool(two.seen))
        assert ([], [1]) == (one.seen, two.seen)

    @case("pubsub_and_lease", 6)
    async def test_one_handler_on_two_topics(self, pubsub: PubSub) -> None:
        """Leaving one topic keeps the other."""
        seen, witness = Recorder(), Recorder()
        await pubsub.subscribe("a", seen)
        await pubsub.subscribe("b", seen)
        await pubsub.subscribe("a", witness)
        await pubsub.unsubscribe("a", seen)

        await pubsub.publish("a", make_event("a"))
        await pubsub.publish("b", make_event("b"))

        await seen.until(1)
        await witness.until(1)
        await pubsub.flush()
        assert ["b"] == seen.data

    @case("pubsub_and_lease", 7)
    async def test_an_unknown_pair_may_be_unsubscribed(self, pubsub: PubSub) -> None:
        """Nothing happens."""
        seen = Recorder()
        await pubsub.unsubscribe("t", seen)
        await pubsub.subscribe("t", seen)

        await pubsub.unsubscribe("other", seen)
        await pubsub.publish("t", make_event(1))

        await seen.until(1)

    @case("pubsub_and_lease", 8)
    async def test_unsubscribe_wins_over_a_subscribe_in_flight(self, pubsub: PubSub) -> None:
        """Whenever it comes, nothing is delivered afterwards."""
        witness = Recorder()
        await pubsub.subscribe("t", witness)
        for delay in range(6):
            seen = Recorder()
            subscribing = asyncio.create_task(pubsub.subscribe("t", seen, start_from="latest"))
            for _ in range(delay + 1):
                await asyncio.sleep(0)
            await pubsub.unsubscribe("t", seen)
            await subscribing

            await pubsub.publish("t", make_event(delay))

            await witness.until(delay + 1)
            await pubsub.flush()
            assert [] == seen.data

    @case("pubsub_and_lease", 9)
    async def test_unsubscribe_inside_the_handler(self, pubsub: PubSub) -> None:
        """It returns, and nothing further comes."""
        done = asyncio.Event()
        seen: list[Any] = []

        async def once(event: Event) -> None:
            seen.append(event.data)
            await pubsub.unsubscribe("t", once)
            done.set()

        witness = Recorder()
        await pubsub.subscribe("t", once, max_in_flight=1)
        await pubsub.subscribe("t", witness)

        await publish_all(pubsub, "t", range(3))

        async with asyncio.timeout(60):
            await done.wait()
        await witness.until(3)
        await pubsub.flush()
        assert [0] == seen

    async def test_handlers_get_what_they_accept(self, pubsub: PubSub) -> None:
        """One to four arguments, sync or async, also a builtin."""
        counts: set[int] = set()
        plain: list[Event] = []

        async def two(event: Event, ack: Any) -> None:
            counts.add(2)

        def three(event: Event, ack: Any, nack: Any) -> None:
            counts.add(3)

        async def many(*arguments: Any) -> None:
            counts.add(len(arguments))

        for handler in (plain.append, two, three, many):
            await pubsub.subscribe("t", handler)

        await pubsub.publish("t", make_event(1))

        await eventually(lambda: counts == {2, 3, 4} and bool(plain))

    @case("pubsub_and_lease", 18)
    @requires("pubsub.history")
    async def test_where_a_subscription_starts(self, pubsub: PubSub) -> None:
        """Earliest gets what was there before; latest gets the next one."""
        await pubsub.publish("t", make_event(1))
        early, late = Recorder(), Recorder()

        await pubsub.subscribe("t", early, start_from="earliest")
        await pubsub.subscribe("t", late, start_from="latest")
        await pubsub.publish("t", make_event(2))

        await early.until(2)
        await late.until(1)
        await pubsub.flush()
        assert [1, 2] == early.data
        assert [2] == late.data

    @requires("pubsub.cursors")
    async def test_a_cursor_resumes_after_its_event(self, pubsub: PubSub) -> None:
        """Exactly the later ones, in order."""
        seen = Recorder()
        await pubsub.subscribe("t", seen)
        await publish_all(pubsub, "t", range(5))
        events = await seen.until(5)
        cursor = events[2].cursor
        assert cursor is not None

        resumed = Recorder()
        await pubsub.subscribe("t", resumed, start_from=Cursor(cursor))
        await pubsub.publish("t", make_event(5))

        await resumed.until(3)
        assert [3, 4, 5] == resumed.data

    @requires("pubsub.groups")
    async def test_another_group_moves_the_subscription(self, pubsub: PubSub) -> None:
        """The same topic and handler: it leaves the old group."""
        seen = Recorder()
        await pubsub.subscribe("t", seen)
        await pubsub.subscribe("t", seen, group="g", start_from="latest")

        await pubsub.publish("t", make_event(1))

        await seen.until(1)
        await pubsub.flush()
        assert [1] == seen.data
