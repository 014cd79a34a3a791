"""Many publishers and members at once (pubsub_and_lease.md 3.7)."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import Any, ClassVar

from mastra_conformance import Suite, case, requires
from mastra_conformance.fixtures import OpenPubSub
from mastra_conformance.histories.log_checker import Delivered, Published, check_log
from mastra_conformance.histories.queue_checker import Handled, check_queue
from mastra_conformance.opening import Opener
from mastra_conformance.suites.pubsub.support import (
    Elapse,
    Recorder,
    eventually,
    make_event,
    open_bus,
)
from mastra_core.contracts.pubsub import PubSub
from mastra_core.wire.events import Event

__all__ = ("PubSubConcurrencySuite",)


class PubSubConcurrencySuite(Suite):
    """Histories of many tasks, checked afterwards."""

    role: ClassVar[str] = "pubsub"
    tier: ClassVar[int] = 2

    async def test_all_instances_see_one_order(self, open_pubsub: OpenPubSub) -> None:
        """Four instances publish and subscribe: everybody gets everything, in order."""
        per_publisher, published = 200, []
        async with AsyncExitStack() as stack:
            buses = [await stack.enter_async_context(open_pubsub()) for _ in range(4)]
            readers = [Recorder() for _ in buses]
            for bus, reader in zip(buses, readers, strict=True):
                await bus.subscribe("t", reader, start_from="latest")

            async def publish(name: int, bus: PubSub) -> None:
                for number in range(per_publisher):
                    await bus.publish("t", make_event([name, number]))
                    published.append(Published(publisher=name, number=number))
                    if number % 7 == name:
                        await asyncio.sleep(0)

            async with asyncio.TaskGroup() as group:
                for name, bus in enumerate(buses):
                    group.create_task(publish(name, bus))
            for reader in readers:
                await reader.until(4 * per_publisher)
            ordering = buses[0].capabilities.ordering

        delivered = {
            f"reader {place}": [Delivered(*event.data) for event in reader.events]
            for place, reader in enumerate(readers)
        }
        assert [] == check_log(published, delivered, ordering=ordering)

    @requires("pubsub.offsets")
    async def test_indexes_stay_dense_under_load(self, pubsub: PubSub) -> None:
        """32 publishers: no number is missing or used twice, for live and late readers."""
        seen = Recorder()
        await pubsub.subscribe("t", seen, max_in_flight=0)

        async def publish(name: int) -> None:
            for number in range(20):
                await pubsub.publish("t", make_event([name, number]))
                await asyncio.sleep(0)

        await asyncio.gather(*(publish(name) for name in range(32)))
        await seen.until(640)

        assert list(range(640)) == [event.index for event in seen.events]
        history = await pubsub.get_history("t")
        assert [event.data for event in history] == seen.data

    @requires("pubsub.groups")
    @case("pubsub_and_lease", 40)
    async def test_members_come_and_go(
        self, opener: Opener, rng: random.Random, elapse: Elapse
    ) -> None:
        """2 000 events while members join and leave: none lost, duplicates have attempt > 1."""
        total, handled, accepted = 2_000, [], []

        async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            handled.append(Handled(event.data, event.delivery_attempt))
            chance = rng.random()
            if chance < 0.02:
                raise ValueError(event.data)
            if chance < 0.3:
                await asyncio.sleep(0)
            await ack()
            accepted.append(event.data)

        # The test's time passes faster than a busy store can answer; nobody shall lose an event.
        async with (
            open_bus(opener, ack_wait_ms=3_000) as bus,
            open_bus(opener, ack_wait_ms=3_000) as other,
        ):
            steady = Recorder(act)
            await bus.subscribe("t", steady, group="g")

            async def come_and_go() -> None:
                while len(set(accepted)) < total:
                    passing = Recorder(act)
                    await other.subscribe("t", passing, group="g", max_in_flight=8)
                    for _ in range(rng.randrange(20)):
                        await asyncio.sleep(0)
                    await other.unsubscribe("t", passing)
                    await elapse(5)

            passers = asyncio.create_task(come_and_go())
            for number in range(total):
                await bus.publish("t", make_event(number))
                if number % 10 == 0:
                    await asyncio.sleep(0)
            await eventually(lambda: len(set(accepted)) >= total, elapse)
            await passers
            await bus.flush()

        assert [] == check_queue(range(total), handled, accepted)

    @requires("pubsub.groups")
    async def test_ordered_groups_keep_order_over_members(
        self, opener: Opener, rng: random.Random, elapse: Elapse
    ) -> None:
        """Three members on two instances, failures now and then: strictly one after the other."""
        acked: list[int] = []
        running = 0

        async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            nonlocal running
            running += 1
            assert running == 1
            await asyncio.sleep(0)
            running -= 1
            if rng.random() < 0.1:
                await nack()
            else:
                acked.append(event.data)
                await ack()

        async with open_bus(opener, max_delivery_attempts="inf") as bus, open_bus(opener) as other:
            for target in (bus, bus, other):
                await target.subscribe("t", Recorder(act), group="g", ordered=True)
            for number in range(60):
                await bus.publish("t", make_event(number))
            await eventually(lambda: len(acked) >= 60, elapse, step_ms=10)

        assert list(range(60)) == acked
