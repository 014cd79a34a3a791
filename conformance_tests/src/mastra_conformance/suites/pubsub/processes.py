"""Several processes on one bus: order, crashes, pauses, cursors (pubsub_and_lease.md 11)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any, ClassVar, Final

import pytest

from mastra_conformance import Suite, case, requires, several_processes
from mastra_conformance import tier as in_tier
from mastra_conformance.histories.log_checker import Delivered, Published, check_log
from mastra_conformance.opening import Opener
from mastra_conformance.processes import Processes, WorkerDiedError
from mastra_conformance.suites.pubsub.support import (
    ACK_WAIT_MS,
    Recorder,
    make_event,
    open_bus,
    publish_all,
)
from mastra_conformance.suites.pubsub.workers import (
    count_while_paused,
    die_handling,
    fail_until_budget,
    handle_late,
    hold,
    resume_from,
    trade,
)

__all__ = ("PubSubProcessSuite",)

_ACK_WAIT_S: Final = ACK_WAIT_MS / 1000
#: What the specification allows beside ``ack_wait`` until a sibling has the event.
_TAKEOVER_S: Final = 1.0
#: A loaded machine is slower than the specification; more isn't slowness but a fault.
_SLACK_S: Final = 1.0
_MEMORY_MIB: Final = 64


@several_processes()
class PubSubProcessSuite(Suite):
    """Two to four processes that know each other only through the bus."""

    role: ClassVar[str] = "pubsub"
    capabilities: ClassVar[tuple[str, ...]] = ("pubsub.cross_process",)
    tier: ClassVar[int] = 2

    @case("pubsub_and_lease", 16, 17)
    async def test_all_processes_see_everything(self, processes: Processes, opener: Opener) -> None:
        """Four processes publish 500 each: all get 2 000, their own once, in one order."""
        count, names = 500, range(4)
        async with AsyncExitStack() as stack:
            workers = [
                await stack.enter_async_context(
                    processes.start(trade, name=name, count=count, total=count * len(names))
                )
                for name in names
            ]
            for point in ("ready", "done"):
                await asyncio.gather(*(worker.reached(point) for worker in workers))
                await asyncio.gather(*(worker.go() for worker in workers))
            results = await asyncio.gather(*(worker.result() for worker in workers))
        async with opener.pubsub() as bus:
            ordering = bus.capabilities.ordering

        published = [Published(name, number) for name in names for number in range(count)]
        delivered = {
            f"process {name}": [Delivered(*pair) for pair in result]
            for name, result in zip(names, results, strict=True)
        }
        assert [] == check_log(published, delivered, ordering=ordering)

    @case("pubsub_and_lease", 33)
    @requires("pubsub.groups", "pubsub.durable")
    async def test_a_killed_worker_is_replaced(self, processes: Processes, opener: Opener) -> None:
        """A sibling gets its event within ack_wait and a second, as the second attempt."""
        seen = Recorder()
        async with open_bus(opener) as bus, processes.start(hold) as worker:
            await worker.reached("member")
            await bus.publish("t", make_event("work"))
            await worker.reached("holding")
            await bus.subscribe("t", seen, group="g")
            await worker.kill()
            killed_at = time.monotonic()
            await seen.until(1)
            took = time.monotonic() - killed_at
            await bus.flush()

        assert [("work", 2)] == [(event.data, event.delivery_attempt) for event in seen.events]
        assert took <= _ACK_WAIT_S + _TAKEOVER_S + _SLACK_S

    @case("pubsub_and_lease", 34)
    @requires("pubsub.groups", "pubsub.durable", "pubsub.dead_letter")
    async def test_poison_dies_before_everybody_has(
        self, processes: Processes, opener: Opener
    ) -> None:
        """An event that kills its worker is a dead letter after three of them (R-8)."""
        attempts = []
        async with open_bus(opener, max_delivery_attempts=3) as bus:
            await bus.publish("t", make_event("poison"))
            for _ in range(3):
                async with processes.start(die_handling) as worker:
                    await worker.reached("member")
                    attempts.append(await worker.reached("poisoned"))
                    with pytest.raises(WorkerDiedError):
                        await worker.result()
            async with processes.start(die_handling) as survivor:
                await survivor.reached("member")
                letters: list[Any] = []
                async with asyncio.timeout(60):
                    while not letters:
                        letters = await bus.list_dead("t")
                        await asyncio.sleep(0.05)
                await bus.publish("t", make_event("food"))
                await asyncio.sleep(_ACK_WAIT_S)
                await survivor.go()
                handled = await survivor.result()

        assert [1, 2, 3] == attempts
        assert ["poison"] == [one.event.data for one in letters]
        # The claim that found it spent counts as a delivery, too.
        assert letters[0].attempts in {3, 4}
        assert ["food"] == handled

    @case("pubsub_and_lease", 35)
    @requires("pubsub.groups", "pubsub.durable")
    async def test_a_late_ack_does_nothing(self, processes: Processes, opener: Opener) -> None:
        """A worker that slept past ack_wait comes too late: its sibling has done the work."""
        seen = Recorder()
        async with open_bus(opener) as bus, processes.start(handle_late) as worker:
            await bus.publish("t", make_event("work"))
            await worker.reached("holding")
            worker.pause()
            await bus.subscribe("t", seen, group="g")
            await seen.until(1)
            worker.resume()
            await worker.reached("acked")
            await asyncio.sleep(_ACK_WAIT_S)
            await worker.go()
            attempts = await worker.result()
            await bus.publish("t", make_event("more"))
            await seen.until(2)
            await bus.flush()

        assert [1] == attempts
        assert [("work", 2), ("more", 1)] == [
            (event.data, event.delivery_attempt) for event in seen.events
        ]

    @case("pubsub_and_lease", 37)
    @requires("pubsub.groups", "pubsub.durable")
    async def test_processes_share_one_budget(self, processes: Processes, opener: Opener) -> None:
        """Three workers fail with one event: the end is published once, at the third attempt."""
        ends = Recorder()
        async with open_bus(opener) as bus, AsyncExitStack() as stack:
            await bus.subscribe("out", ends)
            workers = [
                await stack.enter_async_context(processes.start(fail_until_budget))
                for _ in range(3)
            ]
            for worker in workers:
                await worker.reached("member")
            await publish_all(bus, "t", range(5))
            await ends.until(5)
            await asyncio.sleep(2 * _ACK_WAIT_S)
            for worker in workers:
                await worker.go()
            attempts = [attempt for worker in workers for attempt in await worker.result()]

        assert 5 == len(ends.events)
        assert {1: 5, 2: 5, 3: 5} == Counter(attempts)

    @case("pubsub_and_lease", 57)
    @requires("pubsub.cursors", "pubsub.durable")
    async def test_a_cursor_outlives_its_process(
        self, processes: Processes, opener: Opener
    ) -> None:
        """The next process reads exactly what came later, and what comes then."""
        async with open_bus(opener) as bus:
            await publish_all(bus, "t", range(5))
            async with processes.start(resume_from, cursor=None, count=5) as worker:
                first = await worker.result()
            await publish_all(bus, "t", range(5, 8))
            async with processes.start(resume_from, cursor=first["cursor"], count=5) as worker:
                await asyncio.sleep(0)
                await publish_all(bus, "t", range(8, 10))
                second = await worker.result()

        assert [0, 1, 2, 3, 4] == first["data"]
        assert [5, 6, 7, 8, 9] == second["data"]

    @case("pubsub_and_lease", 73)
    @requires("pubsub.durable", "pubsub.history")
    @in_tier(4)
    async def test_a_paused_reader_catches_up(self, processes: Processes, opener: Opener) -> None:
        """5 000 events while it is stopped: it gets all that are retained, in bounded memory."""
        total, text = 5_000, "x" * 200
        async with (
            open_bus(opener) as bus,
            processes.start(count_while_paused, total=total) as reader,
        ):
            await reader.reached("reading")
            reader.pause()
            for first in range(0, total, 100):
                await asyncio.gather(
                    *(
                        bus.publish("t", make_event({"n": number, "text": text}))
                        for number in range(first, first + 100)
                    )
                )
            reader.resume()
            result = await reader.result()

        assert list(range(total)) == result["numbers"]
        assert [] == result["gaps"]
        assert result["mib"] < _MEMORY_MIB
