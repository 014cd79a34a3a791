"""When an event is delivered again, and when it is given up (pubsub_and_lease.md 3.5)."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from typing import Generic, TypeVar

from mastra_core.base.clock import Clock
from mastra_core.bus.settings import BusSettings
from mastra_core.bus.timers import Alarm

__all__ = ("RedeliveryPolicy", "RetryQueue")

T = TypeVar("T")


class RedeliveryPolicy:
    """Pauses that double, with jitter, up to a cap; and a last attempt."""

    __slots__ = ("_random", "_settings", "max_attempts")

    def __init__(self, settings: BusSettings, rng: random.Random) -> None:
        self._settings = settings
        self._random = rng
        #: 0 means that nobody ever gives up, as in the TypeScript system.
        self.max_attempts: float = settings.max_delivery_attempts or math.inf

    def is_last(self, attempt: int) -> bool:
        """Whether a failure of this attempt is the end."""
        return attempt >= self.max_attempts

    def is_spent(self, attempt: int) -> bool:
        """Whether the event must not even be tried: its last holder died with it."""
        return attempt > self.max_attempts

    def delay_ms(self, attempt: int) -> int:
        """How long to wait after this failed attempt."""
        settings = self._settings
        doubled = settings.retry_base_ms * 2.0 ** min(attempt - 1, 30)
        jitter = self._random.uniform(-settings.retry_jitter, settings.retry_jitter)
        return max(0, round(min(settings.retry_cap_ms, doubled) * (1 + jitter)))


class RetryQueue(Generic[T]):
    """Things to do again at their time; for retries that no store keeps for us."""

    __slots__ = ("_alarm", "_clock", "_count", "_heap", "_retry")

    def __init__(self, clock: Clock, retry: Callable[[T], None]) -> None:
        self._clock = clock
        self._retry = retry
        self._heap: list[tuple[float, int, T]] = []
        self._count = itertools.count()
        self._alarm = Alarm(clock, self._ring, name="bus-retry")

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T, delay_ms: int) -> None:
        """Do it again after the delay."""
        due = self._clock.monotonic() + delay_ms / 1000
        heapq.heappush(self._heap, (due, next(self._count), item))
        self._alarm.set_earlier(due)

    def clear(self) -> list[T]:
        """Forget all; what was waiting."""
        self._alarm.stop()
        waiting = [item for _, _, item in self._heap]
        self._heap.clear()
        return waiting

    def _ring(self) -> None:
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            self._retry(heapq.heappop(self._heap)[2])
        if self._heap:
            self._alarm.set_earlier(self._heap[0][0])
