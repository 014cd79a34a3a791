"""The buffer of one subscription, moment by moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import pytest

from mastra_core.bus.batching import BatchBuffer, check_policy
from mastra_core.contracts.pubsub import BatchPolicy
from mastra_core.errors import ConfigError
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.wire.events import Event

pytestmark = pytest.mark.anyio


@dataclass(eq=False)
class Item:
    event: Event


class Bench:
    """A buffer whose deliveries, acks and returns are written down with their times."""

    def __init__(self, policy: BatchPolicy, clock: FakeClock) -> None:
        self.clock = clock
        self.delivered: list[tuple[int, Any]] = []
        self.acked: list[Any] = []
        self.given_back: list[Any] = []
        self.gate: asyncio.Event | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.buffer: BatchBuffer[Item] = BatchBuffer(
            policy,
            clock=clock,
            deliver=self.deliver,
            ack=lambda item: self.acked.append(item.event.data),
            give_back=lambda item: self.given_back.append(item.event.data),
            spawn=self.spawn,
        )

    async def deliver(self, item: Item) -> None:
        self.delivered.append((round(self.clock.monotonic() * 1000), item.event.data))
        if self.gate is not None:
            await self.gate.wait()

    def spawn(self, work: Awaitable[None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    def add(self, *data: Any) -> None:
        for one in data:
            self.buffer.add(Item(Event(type="t", run_id="r", data=one)))

    async def after(self, milliseconds: int) -> list[tuple[int, Any]]:
        await self.clock.advance(milliseconds / 1000)
        return self.delivered


async def test_the_deadline_starts_with_the_first_event(clock: FakeClock) -> None:
    """Later events don't move it."""
    bench = Bench(BatchPolicy(max_wait_ms=50), clock)
    bench.add("a")
    await bench.after(30)
    bench.add("b")

    assert [] == await bench.after(19)
    assert [(50, "a"), (50, "b")] == await bench.after(1)


async def test_the_deadline_never_undercuts_the_floor(clock: FakeClock) -> None:
    """The later of the two decides."""
    bench = Bench(BatchPolicy(max_wait_ms=10, min_interval_ms=100), clock)
    bench.add("a")
    await bench.after(10)
    bench.add("b")

    assert [(10, "a")] == await bench.after(99)
    assert [(10, "a"), (110, "b")] == await bench.after(1)


async def test_size_waits_for_the_floor(clock: FakeClock) -> None:
    """``max_size`` flushes at once or at the floor."""
    bench = Bench(BatchPolicy(max_size=2, min_interval_ms=100), clock)
    bench.add(1, 2)
    await bench.after(0)
    bench.add(3, 4)

    assert [(0, 1), (0, 2)] == await bench.after(99)
    assert [(0, 1), (0, 2), (100, 3), (100, 4)] == await bench.after(1)


async def test_a_full_buffer_ignores_the_floor(clock: FakeClock) -> None:
    """``max_buffer_size`` flushes at once."""
    bench = Bench(BatchPolicy(max_buffer_size=2, min_interval_ms=1_000), clock)
    bench.add(1, 2)
    await bench.after(0)
    bench.add(3, 4)

    assert [(0, 1), (0, 2), (0, 3), (0, 4)] == await bench.after(0)


async def test_an_event_after_an_immediate_one_keeps_its_timer(clock: FakeClock) -> None:
    """The floor that an immediate event waits for isn't moved by a patient one."""
    policy = BatchPolicy(
        max_wait_ms=1_000, min_interval_ms=100, is_immediate=lambda event: event.data == "now"
    )
    bench = Bench(policy, clock)
    bench.add("now")
    await bench.after(0)
    await bench.after(10)
    bench.add("now", "patient")

    await bench.after(200)
    assert [(0, "now"), (100, "now"), (100, "patient")] == bench.delivered


async def test_a_raising_predicate_is_a_no(clock: FakeClock) -> None:
    """``is_immediate`` can't break the buffer."""

    def explode(event: Event) -> bool:
        raise ValueError(event)

    bench = Bench(BatchPolicy(max_wait_ms=10, is_immediate=explode), clock)
    bench.add("a")

    assert [(10, "a")] == await bench.after(10)


async def test_an_empty_flush_keeps_the_floor(clock: FakeClock) -> None:
    """It changes nothing."""
    bench = Bench(BatchPolicy(min_interval_ms=100, is_immediate=lambda event: True), clock)
    bench.add(1)
    await bench.after(0)
    await bench.after(90)
    await bench.buffer.flush()
    bench.add(2)

    assert [(0, 1), (100, 2)] == await bench.after(10)


async def test_a_flush_during_a_burst_runs_once_more(clock: FakeClock) -> None:
    """Without a timer, and only once."""
    bench = Bench(BatchPolicy(min_interval_ms=10_000), clock)
    bench.gate = asyncio.Event()
    bench.add(1)
    first = asyncio.ensure_future(bench.buffer.flush())
    await bench.after(0)
    bench.add(2)
    second = asyncio.ensure_future(bench.buffer.flush())
    third = asyncio.ensure_future(bench.buffer.flush())
    await bench.after(0)
    bench.gate.set()
    await asyncio.gather(first, second, third)

    assert [(0, 1), (0, 2)] == bench.delivered
    assert 1 == len(bench.tasks)


async def test_coalescing_comes_before_the_budget(clock: FakeClock) -> None:
    """What coalescing removed isn't dropped a second time."""
    policy = BatchPolicy(
        max_buffer_size=3, coalesce=lambda events: [event for event in events if event.data % 2]
    )
    bench = Bench(policy, clock)
    bench.gate = asyncio.Event()
    bench.add(1, 3, 5)
    await bench.after(0)
    bench.add(0, 1, 2, 3, 4, 5)
    bench.gate.set()
    await bench.after(0)
    await bench.buffer.flush()

    assert [1, 3, 5, 1, 3, 5] == [data for _, data in bench.delivered]
    assert [0, 2, 4] == bench.acked


async def test_disposing_gives_back(clock: FakeClock) -> None:
    """What waits and what the running burst hasn't reached yet."""
    bench = Bench(BatchPolicy(max_size=2), clock)
    bench.gate = asyncio.Event()
    bench.add(1, 2, 3)
    await bench.after(0)

    bench.buffer.dispose()
    bench.gate.set()
    await bench.after(0)

    assert [(0, 1)] == bench.delivered
    assert [2, 3] == sorted(bench.given_back)


async def test_forgetting_drops_without_delivery(clock: FakeClock) -> None:
    """A cleared topic: neither the buffer nor the rest of a burst is delivered."""
    bench = Bench(BatchPolicy(max_size=2), clock)
    bench.gate = asyncio.Event()
    bench.add(1, 2, 3)
    await bench.after(0)

    bench.buffer.forget()
    bench.gate.set()
    await bench.after(0)
    bench.add(4)
    await bench.buffer.flush()

    assert [1, 4] == [data for _, data in bench.delivered]
    assert [2, 3] == sorted(bench.acked)


@pytest.mark.parametrize(
    "policy",
    [
        BatchPolicy(max_size=0),
        BatchPolicy(max_wait_ms=-1),
        BatchPolicy(min_interval_ms=-1),
        BatchPolicy(max_buffer_size=0),
    ],
)
def test_impossible_policies_are_refused(policy: BatchPolicy) -> None:
    """Each with the name of the number."""
    with pytest.raises(ConfigError, match="Batch"):
        check_policy(policy)
