"""The clock that stores under test are opened with: real time that a test can jump in.

A clock that stands still would hang adapters that wait between retries, and one
that can't jump would make tests of expiry slow.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from mastra_core.base.clock import Clock, SystemClock

__all__ = ("ShiftedClock",)


class ShiftedClock:
    """A clock that goes as another one does, ahead of it by what ``advance`` added."""

    def __init__(self, base: Clock | None = None, *, ahead_ms: int = 0) -> None:
        self._base = base if base is not None else SystemClock()
        self._ahead_ms = ahead_ms
        self._moved = asyncio.Event()

    @property
    def ahead_ms(self) -> int:
        """How far it is ahead."""
        return self._ahead_ms

    def advance(self, milliseconds: int) -> None:
        """Jump forward; whoever sleeps until then wakes up."""
        if milliseconds < 0:
            raise ValueError(f"Can't go back by {milliseconds!r} ms.")
        self._ahead_ms += milliseconds
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def now(self) -> datetime:
        """The wall clock as an aware UTC time in whole milliseconds."""
        return self._base.now() + timedelta(milliseconds=self._ahead_ms)

    def now_ms(self) -> int:
        """The wall clock as milliseconds since 1970."""
        return self._base.now_ms() + self._ahead_ms

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return self._base.monotonic() + self._ahead_ms / 1000

    async def sleep(self, seconds: float) -> None:
        """Wait until so much time has passed, by itself or by ``advance``."""
        end = self.monotonic() + seconds
        while (remaining := end - self.monotonic()) > 0:
            try:
                async with asyncio.timeout(remaining):
                    await self._moved.wait()
            except TimeoutError:
                continue
        await asyncio.sleep(0)
