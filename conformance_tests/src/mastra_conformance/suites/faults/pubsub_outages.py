"""Buses whose server or network breaks (pubsub_and_lease.md 11, resilience)."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar, Final

import pytest

from mastra_conformance import Suite, case, needs_server, requires
from mastra_conformance.faults.notebook import Notebook
from mastra_conformance.faults.outcomes import CALL_S, attempt, recovers, until
from mastra_conformance.faults.proxy import Direction
from mastra_conformance.faults.site import Site
from mastra_conformance.processes import Processes
from mastra_conformance.suites.faults.publishing import (
    GroupReaderLog,
    Publisher,
    once_in_order,
)
from mastra_conformance.suites.faults.storage_outages import OUTAGES
from mastra_conformance.suites.faults.workers import publish_last_words
from mastra_conformance.suites.pubsub.support import (
    Recorder,
    make_event,
    open_bus,
    publish_all,
)
from mastra_core.contracts.pubsub import PubSub
from mastra_core.errors import PubSubConnectionError

__all__ = ("PubSubOutageSuite",)

#: A work queue, so never less than durable; and a stream log, which may be relaxed (8.1).
_DURABLE: Final = "workflows"
_RELAXED: Final = "agent.stream.run1"
_TRAFFIC_S: Final = 0.5
_CUT_S: Final = 5.0
#: Longer than any test.
_NEVER_S: Final = 600.0
#: Ten times the second between two looks without a hint.
_LOOKED_S: Final = 10.0
#: How often it is asked whether a request has arrived.
_ASKED_AT_MOST: Final = 200
_ASK_EVERY_S: Final = 0.005
#: Without a byte for so long, everything is answered.
_QUIET_S: Final = 0.2
#: One for the reader, one for the wake-ups, one for the group (P17).
_MOST_WARNINGS: Final = 3


@needs_server()
class PubSubOutageSuite(Suite):
    """Subscribers notice nothing but delays; publishers are told the truth."""

    role: ClassVar[str] = "pubsub"
    capabilities: ClassVar[tuple[str, ...]] = ("pubsub.durable",)
    tier: ClassVar[int] = 4

    @requires("pubsub.groups")
    @pytest.mark.parametrize(
        "how",
        [
            pytest.param("clean", marks=case("pubsub_and_lease", 63)),
            pytest.param("crash", marks=case("pubsub_and_lease", 64)),
        ],
    )
    async def test_a_restart_loses_no_accepted_event(
        self, site: Site, how: str, rng: random.Random, notebook: Notebook
    ) -> None:
        """Two restarts under traffic: fan-out and group get everything, in order."""
        seen, group, is_over = Recorder(), GroupReaderLog(), False
        async with open_bus(site.quick("pubsub"), max_delivery_attempts="inf") as bus:
            await bus.subscribe(_DURABLE, seen, start_from="latest")
            await bus.subscribe(_DURABLE, group, group="g")
            publisher = Publisher(bus, _DURABLE)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(publisher.run(lambda: is_over))
                for _ in range(2):
                    await asyncio.sleep(_TRAFFIC_S * (0.5 + rng.random()))
                    await site.server.restart(immediate=how == "crash")
                    before = len(publisher.accepted)
                    await until(lambda: len(publisher.accepted) > before + 5)  # noqa: B023 – awaited at once
                is_over = True
            accepted = publisher.accepted
            notebook.note("Accepted", f"{len(accepted)}, errors {Counter(publisher.errors)}")
            await _have_come(lambda: seen.data, accepted)
            await _have_come(lambda: group.acked, accepted)
            await bus.flush()

        assert accepted == once_in_order(seen.events)
        assert [] == group.faults(accepted, after_crash=how == "crash")

    @case("pubsub_and_lease", 64)
    async def test_after_a_crash_a_relaxed_log_goes_on(
        self, site: Site, rng: random.Random
    ) -> None:
        """Its tail may be gone; what is accepted afterwards reaches who was subscribed before."""
        seen, is_over = Recorder(), False
        async with open_bus(site.quick("pubsub")) as bus:
            await bus.subscribe(_RELAXED, seen, start_from="latest")
            publisher = Publisher(bus, _RELAXED)
            crashed: list[int] = []
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(publisher.run(lambda: is_over))
                await asyncio.sleep(_TRAFFIC_S * (0.5 + rng.random()))
                await site.server.kill()
                crashed += publisher.accepted
                await site.server.start()
                await until(lambda: len(publisher.accepted) > len(crashed) + 30)
                is_over = True
            later = [number for number in publisher.accepted if number > max(crashed) + 1]
            await _have_come(lambda: seen.data, later)
            await bus.flush()

        in_order = once_in_order(seen.events)
        assert in_order == sorted(in_order)
        assert later == [number for number in in_order if number in set(later)]

    @case("pubsub_and_lease", 65)
    @pytest.mark.parametrize("outage", ["cut", "blackhole", "half-open"])
    async def test_a_reader_that_was_cut_off_catches_up(
        self, site: Site, outage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nothing is lost, nobody shouts, and there is one warning per connection."""
        seconds = _CUT_S if outage == "cut" else 1.0
        seen = Recorder()
        caplog.set_level(logging.WARNING)
        async with open_bus(site.quick("pubsub")) as bus, open_bus(site.direct) as writer:
            await bus.subscribe("t", seen, start_from="latest")
            await publish_all(writer, "t", range(20))
            await seen.until(20)
            caplog.clear()
            OUTAGES[outage](site.network)
            await publish_all(writer, "t", range(20, 120))
            await asyncio.sleep(seconds)
            await site.network.heal()
            await publish_all(writer, "t", range(120, 140))
            await _have_come(lambda: seen.data, range(140))
            await bus.flush()

        assert list(range(140)) == once_in_order(seen.events)
        assert [] == [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
        warnings = Counter(one.getMessage() for one in caplog.records)
        assert warnings.total() <= _MOST_WARNINGS, warnings

    @case("pubsub_and_lease", 66)
    @requires("pubsub.history")
    async def test_a_publish_whose_answer_is_lost_is_stored_once(self, site: Site) -> None:
        """Nobody knows whether it arrived; repeating it with its dedupe_id is safe."""
        async with open_bus(site.quick("pubsub")) as bus, open_bus(site.direct) as judge:
            for number in range(5):
                site.network.lose_replies()
                publish = partial(_publish, bus, number)
                publishing = asyncio.create_task(attempt("pubsub", publish))
                await asyncio.wait([publishing], timeout=0.3)
                await site.network.heal()
                error = await publishing
                if error is not None:
                    assert error.retryable or isinstance(error, PubSubConnectionError)
                    await recovers("pubsub", publish)
            stored = [event.data for event in await judge.get_history("t")]

        assert [0, 1, 2, 3, 4] == stored

    @case("pubsub_and_lease", 67)
    async def test_a_slow_way_keeps_the_order(self, site: Site) -> None:
        """Two seconds one way: everything comes, as it was published."""
        seen = Recorder()
        async with open_bus(site.opener) as bus, open_bus(site.direct) as other:
            await other.subscribe("t", seen, start_from="latest")
            await bus.publish("t", make_event(0))
            site.network.delay(2.0, Direction.TO_SERVER)
            async with asyncio.TaskGroup() as tasks:
                for number in range(1, 6):
                    tasks.create_task(bus.publish("t", make_event(number)))
            await seen.until(6)
            await site.network.heal()

        assert [0, 1, 2, 3, 4, 5] == seen.data

    @case("pubsub_and_lease", 68)
    @requires("pubsub.history")
    @pytest.mark.parametrize("outage", ["cut", "blackhole"])
    async def test_closing_during_a_publish_tells_the_truth(self, site: Site, outage: str) -> None:
        """It is stored, or whoever published it hears that it may not be."""
        async with open_bus(site.direct) as judge:
            async with open_bus(site.quick("pubsub"), drain_timeout_ms=1_000) as bus:
                await bus.publish("t", make_event("before"))
                OUTAGES[outage](site.network)
                publishing = asyncio.create_task(
                    attempt("pubsub", lambda: bus.publish("t", make_event("late")))
                )
                await asyncio.sleep(0.05)
                closing = asyncio.create_task(bus.aclose())
                await asyncio.sleep(0.2)
                await site.network.heal()
                error = await publishing
                async with asyncio.timeout(2 * CALL_S):
                    await closing
            stored = [event.data for event in await judge.get_history("t")]

        assert stored.count("late") <= 1
        assert error is not None or "late" in stored

    @case("pubsub_and_lease", 72)
    @requires("pubsub.groups", "pubsub.history")
    async def test_an_event_whose_publisher_died_before_the_wake_up_comes(self, site: Site) -> None:
        """
        Its append arrives, the answer never does: the publisher dies without having woken anybody.

        Subscribers find it by looking.
        """
        seen, member = Recorder(), Recorder()
        async with open_bus(site.direct) as bus, open_bus(site.direct) as judge:
            await bus.subscribe("t", seen)
            await bus.subscribe("t", member, group="g")
            # A driver that needs a further connection gets none: then another publisher tries.
            while not await _has_last_words(judge):
                await _publish_and_die(site, judge)
            died_at = time.monotonic()
            for reader in (seen, member):
                await until(lambda: "last words" in reader.data)  # noqa: B023 – awaited at once
            took = time.monotonic() - died_at

        assert seen.data.count("last words") == member.data.count("last words") == 1
        assert took < _LOOKED_S

    @case("pubsub_and_lease", 59)
    @requires("pubsub.history")
    async def test_clearing_never_raises(
        self, site: Site, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An unknown topic, twice, and with the store down, which is logged."""
        caplog.set_level(logging.WARNING)
        async with open_bus(site.quick("pubsub")) as bus:
            await bus.clear_topic("unknown")
            await bus.clear_topic("unknown")
            quiet = [one.getMessage() for one in caplog.records]
            await bus.publish("t", make_event(1))
            await site.server.kill()
            async with asyncio.timeout(2 * CALL_S):
                await bus.clear_topic("t")
                await bus.trim_topic("t", run_id="run")
            loud = [one.getMessage() for one in caplog.records]
            await site.server.start()
            await recovers("pubsub", lambda: bus.publish("t", make_event(2)))
            await bus.clear_topic("t")
            assert [] == await bus.get_history("t")

        assert [] == quiet
        assert loud

    async def test_a_subscribe_that_fails_leaves_nothing(self, site: Site) -> None:
        """It raises in time or waits; and asking again makes one subscription (P1)."""
        seen = Recorder()
        async with open_bus(site.quick("pubsub")) as bus, open_bus(site.direct) as writer:
            await bus.publish("t", make_event(0))
            site.network.cut()
            error = await attempt("pubsub", lambda: bus.subscribe("t", seen, start_from="latest"))
            await publish_all(writer, "t", [1])
            await site.network.heal()
            if error is not None:
                await recovers("pubsub", lambda: bus.subscribe("t", seen, start_from="latest"))
            await publish_all(writer, "t", [2])
            await until(lambda: 2 in seen.data)
            await bus.flush()

        assert 1 == seen.data.count(2)
        assert error is None or (1 not in seen.data)

    async def test_nobody_there_is_said_when_it_is_opened(self, site: Site) -> None:
        """Typed, in time, worth another try; and then it can be opened."""

        async def open_and_use() -> None:
            async with open_bus(site.quick("pubsub")) as bus:
                await bus.publish("t", make_event(1))

        site.network.cut()
        error = await attempt("pubsub", open_and_use, deadline_s=2 * CALL_S)
        await site.network.heal()
        await recovers("pubsub", open_and_use)

        assert error is not None
        assert error.retryable

    @requires("pubsub.groups")
    async def test_a_paused_server_hangs_nobody(self, site: Site) -> None:
        """Publishing ends in time while it stands still; then everything goes on."""
        seen, group = Recorder(), GroupReaderLog()
        async with open_bus(site.quick("pubsub"), max_delivery_attempts="inf") as bus:
            await bus.subscribe("t", seen, start_from="latest")
            await bus.subscribe("t", group, group="g")
            publisher = Publisher(bus, "t")
            await publisher.publish(0)
            await site.server.pause()
            waiting = asyncio.create_task(publisher.publish(1))
            await asyncio.wait([waiting], timeout=3.0)
            await site.server.resume()
            await waiting
            await recovers("pubsub", lambda: publisher.publish(2))
            await _have_come(lambda: seen.data, [0, 1, 2])
            await _have_come(lambda: group.acked, [0, 1, 2])

        assert [0, 1, 2] == once_in_order(seen.events)
        assert [] == group.faults([0, 1, 2])


async def _publish(bus: PubSub, number: int) -> None:
    await bus.publish("t", make_event(number), dedupe_id=f"e{number}")


async def _publish_and_die(site: Site, judge: PubSub) -> None:
    """A publisher that hears no answers any more dies, if possible with its event stored."""
    async with Processes(site.opener).start(publish_last_words) as publisher:
        await publisher.reached("connected")
        await _until_quiet(site)
        site.network.delay(_NEVER_S, Direction.TO_CLIENT)
        await publisher.go()
        for _ in range(_ASKED_AT_MOST):
            if await _has_last_words(judge):
                break
            await asyncio.sleep(_ASK_EVERY_S)
        await publisher.kill()
    await site.network.heal()


async def _until_quiet(site: Site) -> None:
    """Until what was asked before is answered."""
    before = -1
    while True:
        carried = sum(site.network.carried.values())
        if carried == before:
            return
        before = carried
        await asyncio.sleep(_QUIET_S)


async def _has_last_words(judge: PubSub) -> bool:
    return "last words" in [event.data for event in await judge.get_history("t")]


async def _have_come(got: Callable[[], Iterable[int]], wanted: Iterable[int]) -> None:
    """Wait until all of these have arrived."""
    await until(
        lambda: set(wanted) <= set(got()),
        why=lambda: f"Missing: {sorted(set(wanted) - set(got()))[:20]}",
    )
