"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from datetime import UTC, datetime, timedelta

__all__ = ("FakeClock",)

#: Turns of the event loop in which everything that was woken settles down.
_TURNS = 20
#: Binary fractions leave crumbs: 90 and 10 ms shall make 100 ms.
_GRAIN_S = 1e-9


class FakeClock:
    """
    Time by hand; implements ``base.clock.Clock``.

    ``await clock.advance(seconds)`` moves on from sleeper to sleeper in the order of
    their times, and lets the woken tasks run before it goes on, so whoever sleeps again
    within the stretch is woken again at the right time.

    Args:
        start: The wall clock at the beginning.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = 0.0
        self._jumped = timedelta()
        self._count = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    @property
    def sleepers(self) -> int:
        """How many tasks sleep."""
        return sum(not waiter.done() for _, _, waiter in self._sleepers)

    def now(self) -> datetime:
        """The wall clock, in whole milliseconds."""
        elapsed = timedelta(milliseconds=round(self._elapsed * 1000))
        return self._start + self._jumped + elapsed

    def now_ms(self) -> int:
        """The wall clock as milliseconds since 1970."""
        return round(self.now().timestamp() * 1000)

    def monotonic(self) -> float:
        """Seconds since the beginning; a jump of the wall clock doesn't show."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until ``advance`` has come so far; zero and less only let others run."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Time moves on with every sleep, however short, or a loop around it would never end.
        at = max(self._elapsed + seconds, math.nextafter(self._elapsed, math.inf))
        heapq.heappush(self._sleepers, (at, next(self._count), waiter))
        await waiter

    async def advance(self, seconds: float) -> None:
        """Let so much time pass, and everything happen that is due in it."""
        end = self._elapsed + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end + _GRAIN_S:
            at, _, waiter = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, at)
            if not waiter.done():
                waiter.set_result(None)
                await self.settle()
        self._elapsed = max(self._elapsed, end)
        await self.settle()

    async def settle(self) -> None:
        """Let all tasks run that can, without moving the time."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator would."""
        self._jumped += timedelta(seconds=seconds)
