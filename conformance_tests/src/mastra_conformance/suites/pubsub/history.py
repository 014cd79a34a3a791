"""What is kept: history, offsets, clearing, trimming (pubsub_and_lease.md 3.8, 3.9)."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from mastra_conformance import Suite, case, requires
from mastra_conformance.opening import Opener
from mastra_conformance.suites.pubsub.support import (
    Elapse,
    Recorder,
    eventually,
    make_event,
    open_bus,
    publish_all,
)
from mastra_core.contracts.pubsub import Cursor, PubSub
from mastra_core.wire.events import Event

__all__ = ("HistorySuite",)


async def _refuse(event: Event, ack: Any, nack: Any, extend: Any) -> None:
    await nack("no")


class HistorySuite(Suite):
    """The log of a topic."""

    role: ClassVar[str] = "pubsub"
    capabilities: ClassVar[tuple[str, ...]] = ("pubsub.history",)

    @requires("pubsub.offsets")
    async def test_history_is_dense_and_ordered(self, pubsub: PubSub) -> None:
        """Index from 0, also for who never subscribed; an unknown topic is empty."""
        await publish_all(pubsub, "t", "abcde")

        history = await pubsub.get_history("t")
        tail = await pubsub.get_history("t", 3)

        assert [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e")] == [
            (event.index, event.data) for event in history
        ]
        assert ["d", "e"] == [event.data for event in tail]
        assert [] == await pubsub.get_history("t", 5)
        assert [] == await pubsub.get_history("unknown")

    @case("pubsub_and_lease", 49)
    @requires("pubsub.offsets")
    async def test_from_offset_has_no_seam(self, pubsub: PubSub) -> None:
        """2, 3, 4, then what is published while the subscription is made, each once."""
        await publish_all(pubsub, "t", range(5))
        seen = Recorder()

        await asyncio.gather(
            pubsub.subscribe_from_offset("t", 2, seen),
            publish_all(pubsub, "t", range(5, 30)),
        )
        await pubsub.publish("t", make_event(30))

        await seen.until(29)
        await pubsub.flush()
        assert list(range(2, 31)) == seen.data
        assert seen.data == [event.index for event in seen.events]

    @requires("pubsub.offsets")
    async def test_an_offset_in_the_future_waits(self, pubsub: PubSub) -> None:
        """Earlier events are left out."""
        await publish_all(pubsub, "t", [0, 1])
        seen = Recorder()

        await pubsub.subscribe_from_offset("t", 4, seen)
        # Its reader has looked, and found nothing, before anything comes.
        await pubsub.flush()
        await publish_all(pubsub, "t", [2, 3, 4, 5])

        await seen.until(2)
        await pubsub.flush()
        assert [4, 5] == seen.data
        assert list(range(6)) == [event.index for event in await pubsub.get_history("t")]

    async def test_replay_is_everything_then_live(self, pubsub: PubSub) -> None:
        """Without a gap or a duplicate."""
        await publish_all(pubsub, "t", range(5))
        seen = Recorder()

        await pubsub.subscribe_with_replay("t", seen)
        await publish_all(pubsub, "t", range(5, 8))

        await seen.until(8)
        await pubsub.flush()
        assert list(range(8)) == seen.data

    @case("pubsub_and_lease", 56)
    @requires("pubsub.offsets")
    async def test_a_trimmed_log_reports_the_gap(self, opener: Opener) -> None:
        """Of 100 events the last ones are there; ``on_gap`` is called once, then they come."""
        gaps: list[tuple[int, int]] = []
        async with open_bus(opener, max_entries=10) as bus:
            await publish_all(bus, "t", range(100))
            kept = [event.data for event in await bus.get_history("t")]
            seen = Recorder()

            await bus.subscribe_from_offset(
                "t", 0, seen, on_gap=lambda missing, available: gaps.append((missing, available))
            )
            await seen.until(len(kept))
            await bus.publish("t", make_event(100))
            await eventually(lambda: 100 in seen.data)
            await bus.flush()

        assert 1 <= len(kept) <= 10
        assert list(range(kept[0], 100)) == kept
        assert [(0, kept[0])] == gaps
        assert [*kept, 100] == seen.data

    async def test_a_slow_subscriber_costs_no_memory(self, opener: Opener) -> None:
        """What it leaves in the log is trimmed there; it hears of the gap and goes on."""
        gaps: list[tuple[int, int]] = []
        go_on = asyncio.Event()

        async with open_bus(opener, max_entries=20) as bus:
            seen = Recorder(lambda *_: go_on.wait())
            await bus.subscribe(
                "t",
                seen,
                max_in_flight=5,
                on_gap=lambda missing, available: gaps.append((missing, available)),
            )
            await bus.publish("t", make_event(0))
            await seen.until(1)
            await publish_all(bus, "t", range(1, 500))
            go_on.set()
            await eventually(lambda: 499 in seen.data)
            await bus.flush()

        assert seen.data == sorted(set(seen.data))
        assert 1 == len(gaps)
        assert len(seen.data) < 60

    @case("pubsub_and_lease", 58)
    @requires("pubsub.offsets", "pubsub.cursors")
    async def test_a_cleared_topic_starts_anew(self, pubsub: PubSub) -> None:
        """Attached subscribers go on; the index is 0; an old cursor means the new start."""
        seen = Recorder()
        await pubsub.subscribe("t", seen)
        await publish_all(pubsub, "t", [1, 2, 3])
        await seen.until(3)
        cursor = seen.events[1].cursor
        assert cursor is not None

        await pubsub.clear_topic("t")
        assert [] == await pubsub.get_history("t")
        await publish_all(pubsub, "t", [4, 5])

        await seen.until(5)
        assert [1, 2, 3, 4, 5] == seen.data
        assert [0, 1] == [event.index for event in seen.events[3:]]
        resumed = Recorder()
        await pubsub.subscribe("t", resumed, start_from=Cursor(cursor))
        await resumed.until(2)
        assert [4, 5] == resumed.data

    @requires("pubsub.groups")
    async def test_a_cleared_group_goes_on(self, pubsub: PubSub) -> None:
        """Its members get everything published afterwards and nothing from before."""
        seen = Recorder(lambda *_: None)
        await pubsub.subscribe("t", seen, group="g")
        await publish_all(pubsub, "t", [1, 2])
        await seen.until(2)

        await pubsub.clear_topic("t")
        await publish_all(pubsub, "t", [3, 4])

        await seen.until(4)
        await pubsub.unsubscribe("t", seen)
        again = Recorder()
        await pubsub.subscribe("t", again, group="g")
        await again.until(2)
        await pubsub.flush()
        assert [3, 4] == again.data

    async def test_clearing_never_raises(self, pubsub: PubSub) -> None:
        """An unknown topic, twice, without being awaited, and after closing."""
        await pubsub.clear_topic("unknown")
        await pubsub.clear_topic("unknown")
        await pubsub.publish("t", make_event(1))
        clearing = asyncio.create_task(pubsub.clear_topic("t"))
        await clearing
        assert [] == await pubsub.get_history("t")
        await pubsub.aclose()
        await pubsub.clear_topic("t")
        await pubsub.trim_topic("t", run_id="r")

    @case("pubsub_and_lease", 62)
    async def test_trimming_a_run(self, pubsub: PubSub) -> None:
        """Only what belongs to the run, was produced until then, and isn't pinned."""

        async def publish(name: str, run_id: str, **data: object) -> None:
            await pubsub.publish("t", make_event({"name": name, **data}, run_id=run_id))

        async def names() -> list[str]:
            return [event.data["name"] for event in await pubsub.get_history("t")]

        await publish("old", "a", producedAt=10)
        await publish("pinned", "a", producedAt=10, pinned=True)
        await publish("late", "a", producedAt=30)
        await publish("untimed", "a")
        await publish("other", "b", producedAt=10)

        await pubsub.trim_topic("t", run_id="a", produced_before_ms=20)
        assert ["pinned", "late", "untimed", "other"] == await names()
        await pubsub.trim_topic("t", run_id="a")
        assert ["other"] == await names()
        await publish("next", "b")
        assert ["other", "next"] == await names()

    async def test_dead_letters_survive_a_clear(self, opener: Opener, elapse: Elapse) -> None:
        """P16: they stay until they are purged."""
        async with open_bus(opener, max_delivery_attempts=1) as bus:
            if not bus.capabilities.dead_letter or not bus.capabilities.groups:
                return
            seen = Recorder(_refuse)
            await bus.subscribe("t", seen, group="g")
            await bus.publish("t", make_event(1))
            await seen.until(1)
            await bus.flush()
            await bus.clear_topic("t")

            assert ["no"] == [letter.last_error for letter in await bus.list_dead("t")]
