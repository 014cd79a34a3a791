"""Telling other processes what a run says, while the bus comes and goes (signals.md 17.3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_core.base.ids import UuidIds
from mastra_core.errors import PubSubConnectionError
from mastra_core.messages.message_list import MessageList
from mastra_core.streaming.output import ModelOutput
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.threads.announce import RunAnnouncer
from mastra_core.wire.events import Event

__all__ = ()

pytestmark = pytest.mark.anyio


class Bus:
    """A bus that is away for some calls."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.away = 0

    async def publish(self, event: Event) -> None:
        if self.away:
            self.away -= 1
            raise PubSubConnectionError("The line is cut.")
        self.told.append(dict(event.data))

    def numbers(self) -> list[int]:
        return [one["seq"] for one in self.told if one["type"] == "stream-part"]


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture
def output(clock: FakeClock) -> ModelOutput:
    messages = MessageList(clock=clock, ids=UuidIds())
    made = ModelOutput(run_id="r1", agent_id="a", message_list=messages)
    for kind in ("start", "step-start", "finish"):
        made.buffer.append({"type": kind, "runId": "r1"})
    made.buffer.close()
    made.settle("success", finish_reason="stop")
    return made


def announcer(output: ModelOutput, bus: Bus, clock: FakeClock) -> RunAnnouncer:
    return RunAnnouncer(
        output, bus.publish, stream_id="s1", stream_seq=1, source_id="us", clock=clock
    )


async def test_an_outage_that_passes_costs_time_alone(
    output: ModelOutput, bus: Bus, clock: FakeClock
) -> None:
    """Everything is told, in order."""
    telling = announcer(output, bus, clock)
    bus.away = 3
    running = asyncio.ensure_future(telling.run())
    for _ in range(5):
        await clock.advance(0.2)
    await running
    await telling.finish(persisted=True)

    assert [0, 1, 2] == bus.numbers()
    assert ("run-registered", "run-completed") == (bus.told[0]["type"], bus.told[-1]["type"])
    assert 3 == bus.told[-1]["parts"]


async def test_an_outage_that_lasts_does_not_hold_up_the_run(
    output: ModelOutput, bus: Bus, clock: FakeClock
) -> None:
    """The end is told alone, with the number of parts that are missing."""
    telling = announcer(output, bus, clock)
    bus.away = 1_000
    running = asyncio.ensure_future(telling.run())
    for _ in range(60):
        await clock.advance(0.2)
    await running
    bus.away = 0
    await telling.finish(persisted=True)

    assert ["run-completed"] == [one["type"] for one in bus.told]
    assert 3 == bus.told[-1]["parts"]


async def test_who_lost_the_thread_says_nothing_more(
    output: ModelOutput, bus: Bus, clock: FakeClock
) -> None:
    """Not even what waited for the bus (G3)."""
    telling = announcer(output, bus, clock)
    bus.away = 1
    running = asyncio.ensure_future(telling.run())
    await clock.advance(0)
    telling.silence()
    await clock.advance(0.2)
    await running
    await telling.finish(persisted=True)

    assert [] == bus.told


async def test_what_is_stored_of_a_run_that_goes_on_is_told(bus: Bus, clock: FakeClock) -> None:
    """Up to the end of a step, and nothing that was produced behind it (17.8)."""
    messages = MessageList(clock=clock, ids=UuidIds())
    output = ModelOutput(run_id="r1", agent_id="a", message_list=messages)
    stored: list[int] = []
    here = RunAnnouncer(
        output,
        bus.publish,
        stream_id="s1",
        stream_seq=1,
        source_id="us",
        clock=clock,
        on_stored=stored.append,
    )
    telling = asyncio.ensure_future(here.run())

    async def say(kind: str, seconds: float) -> int:
        """When it was said."""
        await clock.advance(seconds)
        output.buffer.append({"type": kind, "runId": "r1"})
        await clock.settle()
        return clock.now_ms()

    await say("start", 1)
    first = await say("step-finish", 1)
    await say("text-delta", 1)
    before = list(stored)
    output.buffer.covered = 2
    await say("text-delta", 1)
    second = await say("step-finish", 1)
    # It is stored, but nobody knows yet what else is said in this millisecond.
    output.buffer.covered = 5
    in_between = list(stored)
    await say("text-delta", 0)
    output.buffer.close()
    await telling

    assert ([], [first], [first, second - 1]) == (before, in_between, stored)


async def test_what_follows_is_no_older_when_the_clock_was_put_back(
    output: ModelOutput, bus: Bus, clock: FakeClock
) -> None:
    """Else it would leave the bus with what is stored (17.8)."""
    messages = MessageList(clock=clock, ids=UuidIds())
    output = ModelOutput(run_id="r1", agent_id="a", message_list=messages)
    telling = asyncio.ensure_future(announcer(output, bus, clock).run())
    for kind in ("start", "step-finish", "text-delta"):
        output.buffer.append({"type": kind, "runId": "r1"})
        await clock.settle()
        clock.jump_wall(-3600)
    output.buffer.close()
    await telling

    times = [one["producedAt"] for one in bus.told if one["type"] == "stream-part"]
    assert times == sorted(times)
