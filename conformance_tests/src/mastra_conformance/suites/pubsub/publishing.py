"""What becomes of a published event (pubsub_and_lease.md 3.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from mastra_conformance import Suite, case, requires
from mastra_conformance.fixtures import OpenPubSub
from mastra_conformance.suites.pubsub.support import Elapse, Recorder, make_event, publish_all
from mastra_core.contracts.pubsub import PubSub
from mastra_core.errors import (
    EventTooLargeError,
    FencedOutError,
    MastraError,
    PubSubError,
    WireEncodeError,
)
from mastra_core.wire.events import Event

__all__ = ("PublishingSuite",)


class PublishingSuite(Suite):
    """Publishing: stamps, isolation, refusals, dedupe, local events."""

    role: ClassVar[str] = "pubsub"

    @case("pubsub_and_lease", 1)
    async def test_every_subscriber_gets_the_event_once(self, pubsub: PubSub) -> None:
        """Two fan-out subscribers, equal content, attempt 1, fresh id, UTC time."""
        first, second = Recorder(), Recorder()
        await pubsub.subscribe("t", first)
        await pubsub.subscribe("t", second)

        await pubsub.publish("t", make_event({"n": 1, "deep": [{"a": "ü"}]}))
        await pubsub.flush()

        (one,), (two,) = await first.until(1), await second.until(1)
        assert {"n": 1, "deep": [{"a": "ü"}]} == one.data == two.data
        assert (1, 1) == (one.delivery_attempt, two.delivery_attempt)
        assert one.id
        assert one.id == two.id
        assert one.topic == "t"
        assert one.created_at is not None
        assert timedelta() == one.created_at.utcoffset()

    @case("pubsub_and_lease", 2)
    async def test_the_transport_sets_id_time_and_attempt(self, pubsub: PubSub) -> None:
        """A caller's values are replaced, his index is kept where nobody counts, and so is
        what we don't know."""
        seen = Recorder()
        await pubsub.subscribe("t", seen)
        then = datetime(2001, 1, 1, tzinfo=UTC)
        given = make_event(
            1, id="mine", created_at=then, delivery_attempt=7, index=7, extra={"odd": [1]}
        )

        await pubsub.publish("t", given)

        (event,) = await seen.until(1)
        assert event.id != "mine"
        assert event.created_at is not None
        assert event.created_at > then
        assert event.delivery_attempt == 1
        assert event.index == (0 if pubsub.capabilities.offsets else 7)
        assert {"odd": [1]} == event.extra
        assert (given.id, given.created_at, given.delivery_attempt) == ("mine", then, 7)

    async def test_ids_differ_and_times_have_milliseconds(self, pubsub: PubSub) -> None:
        """No two events have one id; a time equals its stored self."""
        seen = Recorder()
        await pubsub.subscribe("t", seen)

        await publish_all(pubsub, "t", range(50))

        events = await seen.until(50)
        assert 50 == len({event.id for event in events})
        assert all(
            event.created_at and event.created_at.microsecond % 1000 == 0 for event in events
        )

    @case("pubsub_and_lease", 10)
    async def test_a_raising_subscriber_harms_nobody(self, pubsub: PubSub) -> None:
        """Neither the publisher nor other subscribers hear of it."""

        def explode(event: Event) -> None:
            raise ValueError(event.data)

        seen = Recorder()
        await pubsub.subscribe("t", explode)
        await pubsub.subscribe("t", seen)

        await publish_all(pubsub, "t", [1, 2])

        await seen.until(2)
        assert [1, 2] == seen.data
        await pubsub.unsubscribe("t", explode)

    @case("pubsub_and_lease", 11)
    async def test_changing_an_event_is_private(self, pubsub: PubSub) -> None:
        """Every subscriber has an envelope of its own, and the history, too."""

        def spoil(event: Event) -> None:
            event.type = "spoiled"
            event.data = None
            event.extra["x"] = 1

        seen = Recorder()
        await pubsub.subscribe("t", spoil)
        await pubsub.subscribe("t", seen)

        await pubsub.publish("t", make_event({"n": 1}))

        (event,) = await seen.until(1)
        assert ("test", {"n": 1}, {}) == (event.type, event.data, event.extra)

    async def test_the_data_is_that_of_the_publish(self, pubsub: PubSub) -> None:
        """What the publisher changes afterwards stays with him."""
        seen = Recorder()
        await pubsub.subscribe("t", seen)
        data: dict[str, Any] = {"list": [1]}

        await pubsub.publish("t", make_event(data))
        data["list"].append(2)
        data["more"] = True

        (event,) = await seen.until(1)
        assert {"list": [1]} == event.data

    @case("pubsub_and_lease", 12)
    async def test_a_publish_inside_a_handler_queues_behind(self, pubsub: PubSub) -> None:
        """B is published while A is handled: everybody sees A, then B."""

        async def answer(event: Event) -> None:
            if event.data == "A":
                await pubsub.publish("t", make_event("B"))

        before, after = Recorder(), Recorder()
        await pubsub.subscribe("t", before)
        await pubsub.subscribe("t", answer)
        await pubsub.subscribe("t", after)

        await pubsub.publish("t", make_event("A"))

        await before.until(2)
        await after.until(2)
        assert ["A", "B"] == before.data
        assert ["A", "B"] == after.data

    @case("pubsub_and_lease", 13)
    @pytest.mark.parametrize(
        "topic",
        ["error", "lease:x", "🦊 ü", "k" * 1024, "a\0b", "%20 '()*!~/"],
        ids=["error", "lease", "emoji", "long", "nul", "odd"],
    )
    async def test_odd_topics_work(self, pubsub: PubSub, topic: str) -> None:
        """Names are opaque; an adapter may only refuse those that its keys need."""
        seen = Recorder()
        try:
            await pubsub.subscribe(topic, seen)
        except PubSubError:
            assert topic.startswith("lease:")
            return

        await pubsub.publish(topic, make_event(1))

        (event,) = await seen.until(1)
        assert topic == event.topic

    @pytest.mark.parametrize("topic", ["", "k" * 1025, "a\ud800"], ids=["empty", "long", "broken"])
    async def test_impossible_topics_are_refused(self, pubsub: PubSub, topic: str) -> None:
        """Publishing and subscribing raise, and nothing stays registered."""
        with pytest.raises(PubSubError):
            await pubsub.publish(topic, make_event(1))
        with pytest.raises(PubSubError):
            await pubsub.subscribe(topic, Recorder())

    async def test_names_of_topics_are_not_normalised(self, pubsub: PubSub) -> None:
        """Case and composition matter."""
        seen = Recorder()
        await pubsub.subscribe("Thread-\u00e9", seen)

        for topic in ("thread-\u00e9", "Thread-e\u0301", "Thread-\u00e9"):
            await pubsub.publish(topic, make_event(topic))
        await pubsub.flush()

        assert ["Thread-\u00e9"] == seen.data

    @case("pubsub_and_lease", 14)
    @pytest.mark.parametrize("kind", ["object", "function", "naive", "cycle", "key"])
    async def test_what_has_no_wire_form_is_refused(self, pubsub: PubSub, kind: str) -> None:
        """The publisher gets the error before any subscriber sees the event."""
        cycle: list[Any] = []
        cycle.append(cycle)
        data = {
            "object": object(),
            "function": make_event,
            "naive": datetime(2026, 1, 1),  # noqa: DTZ001 – that is the point
            "cycle": cycle,
            "key": {1: 2},
        }[kind]
        seen = Recorder()
        await pubsub.subscribe("t", seen)

        with pytest.raises(WireEncodeError):
            await pubsub.publish("t", make_event({"x": data}))
        await pubsub.publish("t", make_event("after"))

        await seen.until(1)
        assert ["after"] == seen.data

    @case("pubsub_and_lease", 15)
    async def test_local_events_stay_here(self, pubsub: PubSub, open_pubsub: OpenPubSub) -> None:
        """The very object reaches this instance's subscribers, nobody else and no history."""
        seen, far, witness = Recorder(), Recorder(), object()
        await pubsub.subscribe("t", seen)
        async with open_pubsub() as other:
            await other.subscribe("t", far)

            await pubsub.publish("t", make_event({"live": witness}), local_only=True)
            await seen.until(1)
            await pubsub.publish("t", make_event("public"))

            await seen.until(2)
            if pubsub.capabilities.cross_process or far.events:
                await far.until(1)
                assert ["public"] == far.data
        assert seen.events[0].data["live"] is witness
        if pubsub.capabilities.history:
            assert ["public"] == [event.data for event in await pubsub.get_history("t")]

    @requires("pubsub.groups")
    async def test_one_member_of_each_group_gets_a_local_event(self, pubsub: PubSub) -> None:
        """And a nack of it does nothing."""

        async def refuse(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            await nack()

        members = [Recorder(refuse), Recorder(refuse)]
        for member in members:
            await pubsub.subscribe("t", member, group="g")

        for number in range(4):
            await pubsub.publish("t", make_event(number), local_only=True)
        await members[0].until(2)
        await members[1].until(2)
        await pubsub.flush()

        assert [0, 1, 2, 3] == sorted(members[0].data + members[1].data)

    @case("pubsub_and_lease", 20)
    async def test_the_size_limit_is_exact(self, pubsub: PubSub) -> None:
        """The limit counts the bytes of the data as JSON; without one a large event passes."""
        limit = pubsub.capabilities.max_event_bytes
        fits = "x" * ((limit or 1_048_576) - 2)
        seen = Recorder()
        await pubsub.subscribe("t", seen)

        await pubsub.publish("t", make_event(fits))
        if limit is not None:
            with pytest.raises(EventTooLargeError):
                await pubsub.publish("t", make_event(fits + "x"))
        await pubsub.publish("t", make_event("after"))

        await seen.until(2)
        assert [len(fits), len("after")] == [len(data) for data in seen.data]

    async def test_a_repeated_publish_is_stored_once(self, pubsub: PubSub, elapse: Elapse) -> None:
        """The same ``dedupe_id`` is the event's id and stores one copy (P10)."""
        seen = Recorder()
        await pubsub.subscribe("t", seen)

        for _ in range(3):
            await pubsub.publish("t", make_event("once"), dedupe_id="d-1")
        await pubsub.publish("t", make_event("other"), dedupe_id="d-2")

        await seen.until(2)
        await pubsub.flush()
        assert ["once", "other"] == seen.data
        assert ["d-1", "d-2"] == [event.id for event in seen.events]

    @requires("pubsub.fencing")
    async def test_an_old_fence_cannot_publish(self, pubsub: PubSub) -> None:
        """Whoever lost the lease can't write after the new owner has it."""
        provider = pubsub.get_lease_provider()
        assert provider is not None
        seen = Recorder()
        await pubsub.subscribe("t", seen)
        old = await provider.acquire_lease("k", "a", 10_000)
        new = await provider.transfer_lease("k", "a", "b", 10_000)
        assert old.fence is not None
        assert new.fence is not None

        await pubsub.publish("t", make_event("new"), fence=("k", new.fence))
        with pytest.raises(FencedOutError):
            await pubsub.publish("t", make_event("old"), fence=("k", old.fence))
        await pubsub.publish("t", make_event("again"), fence=("k", new.fence))

        await seen.until(2)
        assert ["new", "again"] == seen.data

    async def test_a_refused_event_is_a_typed_error(self, pubsub: PubSub) -> None:
        """Whatever is wrong with an event, the error has a name of ours."""
        with pytest.raises(MastraError):
            await pubsub.publish("t", make_event({"x": {1, 2}}))
