"""Pauses, last attempts, and the queue of what comes again."""

from __future__ import annotations

import math
import random

import pytest

from mastra_core.bus import BusSettings
from mastra_core.bus.redelivery import RedeliveryPolicy, RetryQueue
from mastra_core.errors import ConfigError
from mastra_core.testing.fake_clock import FakeClock

pytestmark = pytest.mark.anyio


def test_pauses_double_up_to_the_cap() -> None:
    """100 · 2^(n-1), at most 30 s, ± 20 %."""
    policy = RedeliveryPolicy(BusSettings(), random.Random(1))

    for attempt, expected in [(1, 100), (2, 200), (5, 1_600), (12, 30_000), (10_000, 30_000)]:
        delays = [policy.delay_ms(attempt) for _ in range(200)]
        assert expected * 0.8 <= min(delays) < max(delays) <= expected * 1.2


@pytest.mark.parametrize(
    ("maximum", "attempt", "last", "spent"),
    [
        (3, 2, False, False),
        (3, 3, True, False),
        (3, 4, True, True),
        (math.inf, 10**6, False, False),
    ],
)
def test_when_it_is_given_up(maximum: float, attempt: int, last: bool, spent: bool) -> None:
    """At the last attempt; a delivery beyond it means that its holders died."""
    policy = RedeliveryPolicy(BusSettings(max_delivery_attempts=maximum), random.Random(1))

    assert (last, spent) == (policy.is_last(attempt), policy.is_spent(attempt))


def test_zero_attempts_mean_no_end() -> None:
    """As in the TypeScript system."""
    policy = RedeliveryPolicy(BusSettings(max_delivery_attempts=0), random.Random(1))

    assert math.inf == policy.max_attempts


@pytest.mark.parametrize("value", [-1, math.nan])
def test_impossible_budgets_are_refused(value: float) -> None:
    """Negative ones and those that are no number."""
    with pytest.raises(ConfigError):
        BusSettings(max_delivery_attempts=value)


async def test_retries_come_in_the_order_of_their_times(clock: FakeClock) -> None:
    """Whatever the order in which they were added."""
    done: list[tuple[int, str]] = []
    queue: RetryQueue[str] = RetryQueue(
        clock, lambda item: done.append((round(clock.monotonic() * 1000), item))
    )
    for item, delay_ms in [("c", 300), ("a", 100), ("b", 200), ("a2", 100)]:
        queue.add(item, delay_ms)

    await clock.advance(0.25)
    assert [(100, "a"), (100, "a2"), (200, "b")] == done
    assert ["c"] == queue.clear()
    await clock.advance(1)
    assert 3 == len(done)
