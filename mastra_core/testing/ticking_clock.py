"""A clock that tests move, and that is later at every reading."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ("TickingClock",)


class TickingClock:
    """
    Goes on by one millisecond with every look; implements ``Clock``.

    Waiting takes no time: whoever sleeps finds the clock moved on. For stores, whose order of
    events can be read off stored times, where ``LogicalClock`` would wait.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """A millisecond after the last look."""
        self._now += timedelta(milliseconds=1)
        return self._now

    def now_ms(self) -> int:
        """The same in milliseconds since 1970."""
        return round(self.now().timestamp() * 1000)

    def monotonic(self) -> float:
        """Seconds; a look doesn't move them."""
        return self._now.timestamp()

    def advance(self, **by: float) -> None:
        """Move it on, by what a ``timedelta`` takes."""
        self._now += timedelta(**by)

    async def sleep(self, seconds: float) -> None:
        """Move it on; nobody waits."""
        self.advance(seconds=seconds)
