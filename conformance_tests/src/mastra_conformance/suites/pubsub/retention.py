"""What is forgotten, and what must not be (pubsub_and_lease.md 3.9)."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from mastra_conformance import Suite, case, requires
from mastra_conformance.faults.tuning import knows_option
from mastra_conformance.opening import Opener
from mastra_conformance.suites.pubsub.support import (
    DEADLINE_S,
    Elapse,
    Recorder,
    make_event,
    open_bus,
    publish_all,
)
from mastra_core.wire.events import Event

__all__ = ("RetentionSuite",)

_IDLE_MS = 300
_LIMIT = 20


class RetentionSuite(Suite):
    """Idle topics, full work queues."""

    role: ClassVar[str] = "pubsub"
    capabilities: ClassVar[tuple[str, ...]] = ("pubsub.history", "pubsub.durable")
    tier: ClassVar[int] = 2

    @case("pubsub_and_lease", 60)
    async def test_an_idle_topic_is_forgotten_a_busy_one_is_not(
        self, opener: Opener, elapse: Elapse
    ) -> None:
        """Writes keep it; without them it goes, and its subscriber hears the next event."""
        options = {"idle_ttl_ms": _IDLE_MS}
        if knows_option(opener.subject.spec("pubsub"), "sweep_interval_ms"):
            # Where somebody has to look for what is idle, he looks often.
            options["sweep_interval_ms"] = 50
        seen = Recorder()
        async with open_bus(opener, **options) as bus:
            await bus.subscribe("t", seen, start_from="latest")
            for number in range(8):
                await bus.publish("t", make_event(number))
                await elapse(100)
            await seen.until(8)
            busy = [event.data for event in await bus.get_history("t")]
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    await elapse(100)
                    if not await bus.get_history("t"):
                        break
            await bus.publish("t", make_event("again"))
            await seen.until(9)

        assert list(range(8)) == busy
        assert "again" == seen.data[-1]
        assert 9 == len(seen.data)

    @case("pubsub_and_lease", 61)
    @requires("pubsub.groups")
    async def test_no_unread_work_is_trimmed(self, opener: Opener) -> None:
        """More work than the limit of a topic, and a group that lags: it gets everything."""
        go_on = asyncio.Event()
        worker = Recorder()

        async def act(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            await go_on.wait()
            await ack()

        slow = Recorder(act)
        async with open_bus(opener, max_entries=_LIMIT, ack_wait_ms=10_000) as bus:
            await bus.subscribe("workflows", slow, group="slow", max_in_flight=1)
            await bus.subscribe("workflows", worker, group="quick")
            await publish_all(bus, "workflows", range(10 * _LIMIT))
            await worker.until(10 * _LIMIT)
            go_on.set()
            await slow.until(10 * _LIMIT)
            await bus.flush()

        assert list(range(10 * _LIMIT)) == sorted(slow.data)
        assert list(range(10 * _LIMIT)) == sorted(worker.data)
