"""The clock that goes, and jumps."""

from __future__ import annotations

import asyncio

import pytest

from mastra_conformance.clock import ShiftedClock
from mastra_core.base.clock import Clock

__all__ = ()


def test_it_is_a_clock() -> None:
    """It fulfils the protocol that adapters get."""
    assert isinstance(ShiftedClock(), Clock)


def test_advancing_moves_all_of_its_times() -> None:
    """Wall clock, milliseconds and the monotonic time jump together."""
    clock = ShiftedClock()
    now, now_ms, monotonic = clock.now(), clock.now_ms(), clock.monotonic()

    clock.advance(60_000)

    assert (clock.now() - now).total_seconds() >= 60
    assert clock.now_ms() - now_ms >= 60_000
    assert clock.monotonic() - monotonic >= 60
    assert clock.ahead_ms == 60_000
    with pytest.raises(ValueError, match="Can't go back"):
        clock.advance(-1)


@pytest.mark.anyio
async def test_a_sleeper_wakes_when_the_clock_jumps() -> None:
    """Nobody waits an hour because a test says so."""
    clock = ShiftedClock()
    sleeping = asyncio.create_task(clock.sleep(3600))
    await asyncio.sleep(0)

    clock.advance(1_800_000)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(1_800_000)

    async with asyncio.timeout(60):
        await sleeping


@pytest.mark.anyio
async def test_it_goes_by_itself() -> None:
    """A short wait ends without any jump."""
    async with asyncio.timeout(60):
        await ShiftedClock().sleep(0.01)
        await ShiftedClock().sleep(0)
