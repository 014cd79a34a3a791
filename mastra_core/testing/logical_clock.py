"""A clock that is later at every reading."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from mastra_core.base.isotime import truncate_ms

__all__ = ("LogicalClock",)


class LogicalClock:
    """
    Wall time that goes on by one millisecond with every reading; implements ``Clock``.

    Two readings never coincide, so the order of events can be read off stored times. Waiting
    and ``monotonic`` are real time.

    Args:
        start: The first reading; the present if not given.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._start = truncate_ms(start or datetime.now(UTC))
        self.readings = 0

    def now(self) -> datetime:
        """A millisecond after the last reading."""
        self.readings += 1
        return self._start + timedelta(milliseconds=self.readings - 1)

    def now_ms(self) -> int:
        """A millisecond after the last reading, since 1970."""
        return round(self.now().timestamp() * 1000)

    def monotonic(self) -> float:
        """Seconds that really passed."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Really wait."""
        await asyncio.sleep(max(0.0, seconds))
