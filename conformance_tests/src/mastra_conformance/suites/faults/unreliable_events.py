"""What the runtime guarantees on a bus that repeats, swaps, delays and loses events.

Whoever reads with replay sees each event once and in order, as long as the history has it
(pubsub_and_lease.md 4, W1).
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, ClassVar, Final, cast

import pytest

from mastra_conformance import Suite
from mastra_conformance.faults.events import Mischief, UnreliableBus
from mastra_conformance.faults.notebook import Notebook
from mastra_conformance.suites.pubsub.support import Recorder, make_event
from mastra_core.bus import CachingPubSub
from mastra_core.contracts.pubsub import PubSub
from mastra_core.errors import PubSubConnectionError
from mastra_core.inmemory.cache import InMemoryCache

__all__ = ("UnreliableEventsSuite",)

_EVENTS: Final = 60
_CALM: Final = {Mischief.NONE: 6.0}


class UnreliableEventsSuite(Suite):
    """A history around a bad bus makes a good one."""

    role: ClassVar[str] = "pubsub"
    tier: ClassVar[int] = 4

    @pytest.mark.parametrize(
        "mischief", [Mischief.TWICE, Mischief.SWAPPED, Mischief.LATE, Mischief.LOST, "all"]
    )
    async def test_a_replay_is_complete_and_in_order(
        self, pubsub: PubSub, mischief: str, rng: random.Random, notebook: Notebook
    ) -> None:
        """From the first event to the last, each once, whatever happened on the way."""
        kinds = [*Mischief][1:-1] if mischief == "all" else [Mischief(mischief)]
        bad = UnreliableBus(pubsub, rng, {**_CALM, **dict.fromkeys(kinds, 4.0 / len(kinds))})
        bus = CachingPubSub(cast("PubSub", bad), InMemoryCache(), reorder_window_ms=40)
        early, late = Recorder(), Recorder()
        await bus.subscribe_with_replay("t", early)
        for number in range(_EVENTS):
            await bus.publish("t", make_event(number))
            if number == _EVENTS // 2:
                await bus.subscribe_with_replay("t", late)
        await bad.release()
        # What was lost at the very end is noticed with the next event that comes.
        bad.calm()
        await bus.publish("t", make_event("end"))
        await early.until(_EVENTS + 1)
        await late.until(_EVENTS + 1)
        notebook.note("Mischief", dict(bad.done))
        await bus.unsubscribe("t", early)
        await bus.unsubscribe("t", late)

        assert [*range(_EVENTS), "end"] == early.data
        assert [*range(_EVENTS), "end"] == late.data

    async def test_a_doubted_publish_may_be_repeated(
        self, pubsub: PubSub, rng: random.Random
    ) -> None:
        """With the same ``dedupe_id`` it is one event for everybody (P10)."""
        bad = UnreliableBus(pubsub, rng, {Mischief.NONE: 1.0, Mischief.DOUBTED: 1.0})
        seen = Recorder()
        await pubsub.subscribe("t", seen, start_from="latest")
        for number in range(_EVENTS):
            await _insist(bad, number)
        await seen.until(_EVENTS)
        await pubsub.flush()

        assert list(range(_EVENTS)) == seen.data
        assert bad.done[Mischief.DOUBTED]


async def _insist(bus: UnreliableBus, number: int) -> Any:
    """Publish until it is said to be accepted."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await bus.publish("t", make_event(number), dedupe_id=f"e{number}")
            except PubSubConnectionError:
                continue
