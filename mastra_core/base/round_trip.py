"""How long a server takes to answer, and how far its clock is from ours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from mastra_core.base.clock import Clock

__all__ = ("ROUND_TRIPS", "RoundTrip", "measure_round_trip")

ROUND_TRIPS: Final = 5
"""How often is asked; the quickest answer counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip:
    """The quickest of a few questions."""

    latency_ms: float
    #: The server's clock minus ours; None if the server told no time.
    skew_ms: float | None


async def measure_round_trip(
    ask: Callable[[], Awaitable[float | None]], clock: Clock, *, times: int = ROUND_TRIPS
) -> RoundTrip:
    """
    Ask a server a few times for its time, in ms since 1970; None if it tells none.

    Its clock is compared with ours in the middle of the quickest round trip, so the skew is
    exact to half of the latency.
    """
    found: list[RoundTrip] = []
    for _ in range(times):
        begun, ours = clock.monotonic(), clock.now_ms()
        told = await ask()
        latency_ms = (clock.monotonic() - begun) * 1000
        skew_ms = None if told is None else told - (ours + latency_ms / 2)
        found.append(RoundTrip(latency_ms=latency_ms, skew_ms=skew_ms))
    return min(found, key=lambda trip: trip.latency_ms)
