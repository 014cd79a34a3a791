"""What the engine adds to the contract: the suites hold the rest."""

from __future__ import annotations

import asyncio
import contextvars
from itertools import pairwise
from typing import Any

import pytest

from mastra_core.bus import BusSettings, EventEngine, Outgoing
from mastra_core.contracts.pubsub import DeadLetter, PubSub
from mastra_core.errors import (
    CapabilityNotSupportedError,
    ConfigError,
    PubSubConnectionError,
    PubSubError,
)
from mastra_core.inmemory.capabilities import PUBSUB_CAPABILITIES
from mastra_core.inmemory.hub import Hub
from mastra_core.inmemory.pubsub import InMemoryPubSub, MemoryDriver
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.wire.events import Event

pytestmark = pytest.mark.anyio

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


def event(data: Any) -> Event:
    """An event of which only the data matters."""
    return Event(type="t", run_id="r", data=data)


class SlowDriver(MemoryDriver):
    """Writes wait at a gate; nothing is direct."""

    append_now = None  # type: ignore[assignment]  # not a direct driver any more
    read_now = None  # type: ignore[assignment]  # the same

    def __init__(self, clock: FakeClock) -> None:
        from mastra_core.base.ids import UuidIds

        super().__init__(clock, UuidIds(), Hub(clock))
        self.gate = asyncio.Event()
        self.writes: list[list[Any]] = []
        self.fails = False

    async def append(self, topic: str, batch: Any) -> list[Exception | None]:
        self.writes.append([outgoing.event.data for outgoing in batch])
        await self.gate.wait()
        if self.fails:
            raise PubSubConnectionError("The line is cut.")
        errors: list[Exception | None] = []
        for outgoing in batch:
            error = self._append_one(topic, outgoing)
            errors.append(error)
        return errors

    async def read_after(self, topic: str, position: Any, limit: int) -> Any:
        return self.hub.existing(topic).read_after(position, limit)

    def _append_one(self, topic: str, outgoing: Outgoing) -> Exception | None:
        if outgoing.event.data == "bad":
            return PubSubError("No.")
        self.hub.topic(topic, 0).append(outgoing, 0)
        return None


async def test_waiting_writes_share_one_call(clock: FakeClock) -> None:
    """While a write is under way the next ones collect; each keeps its own error (E4)."""
    driver = SlowDriver(clock)
    async with EventEngine(driver, clock=clock) as bus:
        publishing = [
            asyncio.ensure_future(bus.publish("t", event(data))) for data in [1, 2, "bad", 3]
        ]
        await clock.settle()
        assert [[1]] == driver.writes
        driver.gate.set()
        results = await asyncio.gather(*publishing, return_exceptions=True)

        assert [[1], [2, "bad", 3]] == driver.writes
        assert [None, None, None] == [result for result in results if result is None]
        assert isinstance(results[2], PubSubError)
        assert [1, 2, 3] == [one.data for one in await bus.get_history("t")]


async def test_topics_do_not_wait_for_each_other(clock: FakeClock) -> None:
    """A slow write of one topic holds up that topic only."""
    driver = SlowDriver(clock)
    async with EventEngine(driver, clock=clock) as bus:
        publishing = [asyncio.ensure_future(bus.publish(topic, event(topic))) for topic in "ab"]
        await clock.settle()
        assert [["a"], ["b"]] == driver.writes
        driver.gate.set()
        await asyncio.gather(*publishing)


async def test_a_lost_connection_reaches_every_publisher(clock: FakeClock) -> None:
    """Nobody is told that an event was stored when nobody knows."""
    driver = SlowDriver(clock)
    driver.fails = True
    async with EventEngine(driver, clock=clock) as bus:
        publishing = [asyncio.ensure_future(bus.publish("t", event(data))) for data in (1, 2)]
        await clock.settle()
        driver.gate.set()
        results = await asyncio.gather(*publishing, return_exceptions=True)

    assert [PubSubConnectionError] * 2 == [type(result) for result in results]


async def test_closing_waits_for_writes(clock: FakeClock) -> None:
    """A publish that is under way completes."""
    driver = SlowDriver(clock)
    bus = EventEngine(driver, clock=clock)
    publishing = asyncio.ensure_future(bus.publish("t", event(1)))
    await clock.settle()
    closing = asyncio.ensure_future(bus.aclose())
    await clock.settle()
    assert not closing.done()
    driver.gate.set()
    await asyncio.gather(publishing, closing)


async def test_what_is_not_declared_is_refused(clock: FakeClock) -> None:
    """Groups, cursors, history, offsets, dead letters, fencing: each by its name."""
    from dataclasses import replace

    from mastra_core.base.ids import UuidIds
    from mastra_core.contracts.pubsub import Cursor

    bare = replace(
        PUBSUB_CAPABILITIES,
        groups=False,
        history=False,
        cursors=False,
        offsets=False,
        dead_letter=False,
        fencing=False,
    )
    driver = MemoryDriver(clock, UuidIds(), Hub(clock), capabilities=bare)

    def handler(event: Event) -> None: ...

    async with EventEngine(driver, clock=clock) as bus:
        for name, call in {
            "groups": lambda: bus.subscribe("t", handler, group="g"),
            "cursors": lambda: bus.subscribe("t", handler, start_from=Cursor("1:1")),
            "history": lambda: bus.get_history("t"),
            "offsets": lambda: bus.subscribe_from_offset("t", 0, handler),
            "dead_letter": lambda: bus.list_dead("t"),
            "fencing": lambda: bus.publish("t", event(1), fence=("k", 1)),
        }.items():
            with pytest.raises(CapabilityNotSupportedError) as caught:
                await call()  # type: ignore[no-untyped-call]  # lambdas of several kinds
            assert f"pubsub.{name}" == caught.value.capability


async def test_handlers_do_not_see_the_publishers_context(bus: InMemoryPubSub) -> None:
    """A trace or a request of the publisher ends at the bus."""
    seen: list[str] = []

    async def handler(event: Event) -> None:
        seen.append(WHO.get())

    await bus.subscribe("t", handler)
    await bus.subscribe("t", lambda event: seen.append(WHO.get()))
    token = WHO.set("publisher")
    await bus.publish("t", event(1))
    await bus.flush()
    WHO.reset(token)

    assert ["nobody", "nobody"] == seen


async def test_a_failing_fanout_subscriber_gets_it_again(
    bus: InMemoryPubSub, clock: FakeClock
) -> None:
    """Only this one, with pauses, five times; then the hook hears of it."""
    attempts: list[tuple[int, int]] = []
    others: list[int] = []
    dead: list[DeadLetter] = []
    object.__setattr__(bus.settings, "on_dead", dead.append)

    def failing(event: Event) -> None:
        attempts.append((round(clock.monotonic() * 1000), event.delivery_attempt))
        raise ValueError("no")

    await bus.subscribe("t", failing)
    await bus.subscribe("t", lambda event: others.append(event.delivery_attempt))
    await bus.publish("t", event(1))
    await clock.advance(10)

    assert [1, 2, 3, 4, 5] == [attempt for _, attempt in attempts]
    pauses = [later[0] - earlier[0] for earlier, later in pairwise(attempts)]
    for pause, expected in zip(pauses, [100, 200, 400, 800], strict=True):
        assert expected * 0.8 <= pause <= expected * 1.2 + 1
    assert [1] == others
    assert [("t", None, 5, "ValueError: no")] == [
        (letter.topic, letter.group, letter.attempts, letter.last_error) for letter in dead
    ]


async def test_an_always_failing_subscriber_stops_reading(
    bus: InMemoryPubSub, clock: FakeClock
) -> None:
    """Retries keep their slots, so memory is bounded."""
    seen: list[int] = []

    def failing(event: Event) -> None:
        seen.append(event.data)
        raise ValueError

    await bus.subscribe("t", failing, max_in_flight=3)
    for number in range(100):
        await bus.publish("t", event(number))
    await clock.settle()

    assert [0, 1, 2] == seen


async def test_a_poison_event_does_not_kill_a_fourth_worker(clock: FakeClock) -> None:
    """Crashes count: after three lost holders the event is buried without being delivered (R-8)."""
    from mastra_core.inmemory.pubsub import InMemoryPubSubSettings
    from mastra_core.plugins import AdapterContext, SharedResources

    resources = SharedResources()
    context = AdapterContext(clock=clock, resources=resources)
    settings = InMemoryPubSubSettings(
        max_delivery_attempts=3, ack_wait_ms=1_000, max_processing_ms=0, drain_timeout_ms=0
    )
    deliveries: list[int] = []

    async def hangs(event: Event, ack: Any) -> None:
        deliveries.append(event.delivery_attempt)
        await asyncio.Event().wait()

    async with InMemoryPubSub(settings, context) as keeper:
        await keeper.subscribe("t", hangs, group="g")
        await keeper.publish("t", event("poison"))
        await clock.advance(10)

        assert [1, 2, 3] == deliveries
        (letter,) = await keeper.list_dead("t")
        assert letter.attempts == 4


async def test_impossible_subscriptions_are_refused(bus: InMemoryPubSub) -> None:
    """Before anything is registered."""
    with pytest.raises(ConfigError):
        await bus.subscribe("t", lambda event: None, max_in_flight=-1)
    with pytest.raises(ConfigError):
        BusSettings(ack_wait_ms=0)


async def test_a_failed_opening_is_tried_anew(clock: FakeClock) -> None:
    """The first call raises, the second one opens."""
    from mastra_core.base.ids import UuidIds

    class ShyDriver(MemoryDriver):
        calls = 0

        async def open(self) -> None:
            self.calls += 1
            if self.calls == 1:
                raise PubSubConnectionError("Not yet.")
            await super().open()

    bus = EventEngine(ShyDriver(clock, UuidIds(), Hub(clock)), clock=clock)
    with pytest.raises(PubSubConnectionError):
        await bus.publish("t", event(1))
    await bus.publish("t", event(2))
    assert [2] == [one.data for one in await bus.get_history("t")]
    await bus.aclose()


async def test_an_unused_bus_may_be_closed() -> None:
    """Nothing was opened, nothing is."""
    bus = InMemoryPubSub()
    await bus.aclose()
    assert isinstance(bus, PubSub)


async def test_nothing_is_left_of_a_topic(bus: InMemoryPubSub, clock: FakeClock) -> None:
    """After the last unsubscribe the engine forgets the topic and its tasks."""

    async def handler(event: Event, ack: Any) -> None:
        await ack()

    before = len(asyncio.all_tasks())
    for number in range(20):
        await bus.subscribe(f"t{number}", handler)
        await bus.subscribe(f"g{number}", handler, group="g")
        await bus.publish(f"g{number}", event(1))
    await bus.flush()
    for number in range(20):
        await bus.unsubscribe(f"t{number}", handler)
        await bus.unsubscribe(f"g{number}", handler)
    await clock.settle()

    assert before == len(asyncio.all_tasks())
    assert {} == bus._topics._topics
    assert {} == bus._subscriptions


class FarDriver(MemoryDriver):
    """Claims arrive at the store when a test lets them, also those whose caller has gone."""

    def __init__(self, clock: FakeClock, hub: Hub) -> None:
        from mastra_core.base.ids import UuidIds

        super().__init__(clock, UuidIds(), hub)
        self.has_asked, self.may_arrive = asyncio.Event(), asyncio.Event()
        self.may_arrive.set()
        self.on_the_way: list[asyncio.Task[Any]] = []

    async def claim(self, *arguments: Any, **options: Any) -> Any:
        task = asyncio.create_task(self._arrive(*arguments, **options))
        self.on_the_way.append(task)
        return await asyncio.shield(task)

    async def _arrive(self, *arguments: Any, **options: Any) -> Any:
        self.has_asked.set()
        await self.may_arrive.wait()
        return await super().claim(*arguments, **options)


@pytest.mark.parametrize("leaving", ["unsubscribes", "closes"])
async def test_who_leaves_while_it_claims_gives_back_what_it_gets(
    clock: FakeClock, leaving: str
) -> None:
    """Nobody waits until the time of that claim is over."""
    hub, seen = Hub(clock), []
    driver = FarDriver(clock, hub)

    async def never(event: Event) -> None:
        raise AssertionError

    async with EventEngine(FarDriver(clock, hub), clock=clock) as stays:
        async with EventEngine(driver, clock=clock) as leaves:
            await leaves.subscribe("t", never, group="g")
            await leaves.flush()
            driver.may_arrive.clear()
            driver.has_asked.clear()
            await stays.publish("t", event("x"))
            await driver.has_asked.wait()
            asyncio.get_running_loop().call_later(0.05, driver.may_arrive.set)
            if leaving == "unsubscribes":
                await leaves.unsubscribe("t", never)
                await asyncio.gather(*driver.on_the_way)
        await stays.subscribe("t", lambda event: seen.append(event.data), group="g")
        await stays.flush()

    assert ["x"] == seen
