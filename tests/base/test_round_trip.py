"""Latency and clock skew of a server."""

from __future__ import annotations

import pytest

from mastra_core.base.round_trip import measure_round_trip
from mastra_core.testing.fake_clock import FakeClock

__all__ = ()

pytestmark = pytest.mark.anyio


async def test_the_quickest_answer_counts() -> None:
    """Its middle is when the server looked at its clock."""
    clock = FakeClock()
    delays = iter((30, 10, 50))

    async def ask() -> float:
        delay = next(delays)
        told = clock.now_ms() + delay / 2 + 2000
        await clock.advance(delay / 1000)
        return told

    trip = await measure_round_trip(ask, clock, times=3)

    assert trip.latency_ms == pytest.approx(10)
    assert trip.skew_ms == pytest.approx(2000)


async def test_a_server_without_a_clock_has_no_skew() -> None:
    """Latency is told all the same."""

    async def ask() -> None:
        return None

    trip = await measure_round_trip(ask, FakeClock())

    assert trip.skew_ms is None
    assert trip.latency_ms == 0
