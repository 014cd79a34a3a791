"""Hints: who hears of what, and how often to look without them."""

from __future__ import annotations

import asyncio

import pytest

from mastra_core.testing.fake_clock import FakeClock
from mastra_sql.bus import Hints, LocalDoorbell, Pace

pytestmark = pytest.mark.anyio


async def test_a_listener_hears_of_what_it_wants() -> None:
    """Once, and not of what it said itself."""
    bell, clock = LocalDoorbell(), FakeClock()
    one, two = Hints(), Hints()
    await bell.follow(one, ["t:a", "t:b"])
    await bell.follow(two, ["t:a"])

    bell.ring("t:a", one)
    bell.ring("t:b")
    bell.ring("t:c")

    assert frozenset({"t:b"}) == await one.wait(clock, 1)
    assert frozenset({"t:a"}) == await two.wait(clock, 1)
    bell.leave(two)
    bell.ring("t:a")
    waiting = asyncio.create_task(two.wait(clock, 1))
    await clock.advance(1)
    assert frozenset() == await waiting


async def test_too_many_names_are_any() -> None:
    """A listener that lags looks at everything; one that wants nothing isn't told."""
    clock, hints, idle = FakeClock(), Hints(), Hints()
    hints.wanted = frozenset(str(number) for number in range(2_000))
    for number in range(2_000):
        hints.tell(str(number))
    idle.tell_any()

    assert await hints.wait(clock, 1) is None
    waiting = asyncio.create_task(idle.wait(clock, 1))
    await clock.advance(1)
    assert frozenset() == await waiting


def test_a_pace_slows_down_without_news() -> None:
    """Up to its longest pause, and back at once."""
    pace = Pace(0.025, 1.0)
    for _ in range(20):
        pace.nothing()
    assert pace.current == 1.0

    pace.news()

    assert pace.current == 0.025
