"""Time, injected: what the runtime asks instead of the operating system."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from mastra_core.base.isotime import truncate_ms

__all__ = ("Clock", "SystemClock")


@runtime_checkable
class Clock(Protocol):
    """Tells the time and waits; tests move it by hand."""

    def now(self) -> datetime:
        """The wall clock as an aware UTC time in whole milliseconds."""
        ...

    def now_ms(self) -> int:
        """The wall clock as milliseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards; only differences mean something."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero and less only let other tasks run."""
        ...


class SystemClock:
    """The time of this machine."""

    __slots__ = ()

    def now(self) -> datetime:
        # Stored times have milliseconds; a value must equal its stored self.
        return truncate_ms(datetime.now(UTC))

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
