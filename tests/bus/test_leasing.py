"""What all lease providers have in common: times to live, and what one holds."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.bus.leasing import Held, HeldLeases, check_ttl
from mastra_core.testing.fake_clock import FakeClock

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("ttl_ms", [49, 86_400_001, 100.0, True, None])
def test_a_time_to_live_out_of_range_is_refused(ttl_ms: Any) -> None:
    with pytest.raises(ValueError, match=r"not an integer in 50"):
        check_ttl(ttl_ms)


async def test_what_is_over_is_not_taken(clock: FakeClock) -> None:
    held = HeldLeases(clock, "me")
    held.hold("short", "a", 1, clock.monotonic() + 1)
    held.hold("long", "a", 2, clock.monotonic() + 9)
    await clock.advance(2)

    taken = held.take()

    assert [("long", 2)] == [(key, one.fence) for key, one in taken]
    assert isinstance(taken[0][1], Held)
    assert ([], 0) == (held.take(), len(held))


async def test_a_term_is_new_only_once(clock: FakeClock) -> None:
    held = HeldLeases(clock, "me")

    told = [held.hold("k", "a", fence, 9e9) for fence in (1, 1, 2)]

    assert [True, False, True] == told
    assert 2 == held.fence_of("k")


async def test_only_the_owner_lets_go(clock: FakeClock) -> None:
    held = HeldLeases(clock, "me")
    held.hold("k", "a", 1, 9e9)

    held.forget("k", "b")
    assert 1 == held.fence_of("k")
    held.forget("k", "a")
    assert held.fence_of("k") is None


async def test_who_acquired_is_who_asks_later(clock: FakeClock) -> None:
    """A holder that was named when acquiring need not be named again until it lets go."""
    held = HeldLeases(clock, "me")
    held.acquired_as("k", "a", "twin")

    assert ["twin", "me", "other"] == [
        held.holder_of("k", "a", None),
        held.holder_of("k", "b", None),
        held.holder_of("k", "a", "other"),
    ]
    held.forget("k", "a")
    assert "me" == held.holder_of("k", "a", None)
