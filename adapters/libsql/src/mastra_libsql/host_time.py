"""The time of one host, as all its processes see it, whatever happens to the wall clock.

A database in this process has no server whose clock could decide. Its processes run on one
kernel, though, whose boot clock never jumps. So time is that clock plus a base that the first
process after a start of the machine writes down for all (pubsub_and_lease.md 8.5).
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from mastra_core.base.clock import Clock, SystemClock

__all__ = ("HostTime", "boot_id")

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """Which start of the machine this is; None where nobody tells."""
    with suppress(OSError, ValueError):
        return str(UUID(_BOOT_ID.read_text(encoding="ascii").strip()))
    return None


class HostTime:
    """
    Tells a database what time it is; called in its worker threads.

    Args:
        clock: The system's clock, or one that tests move; then that one decides.
        boot: Which start of the machine this is; without one the wall clock is all there is.
    """

    def __init__(self, clock: Clock, boot: str | None = None) -> None:
        self.boot = boot if boot is not None else boot_id()
        self._clock = clock
        self._is_system = type(clock) is SystemClock
        #: What the boot clock lacks to the time since 1970; None until it was agreed upon.
        self._base_us: int | None = None

    @property
    def is_agreed(self) -> bool:
        """Whether all processes of this database count from the same base."""
        return self._base_us is not None or self.boot is None

    def agree(self, base_us: int) -> None:
        """Count from this base, which is written in the database."""
        self._base_us = base_us

    def proposal_us(self) -> int:
        """The base that would make the boot clock show what the wall clock shows now."""
        return self._clock.now_ms() * 1000 - self._ticks_us()

    def now_us(self) -> int:
        """Microseconds since 1970, never going back while the machine runs."""
        if self._base_us is None:
            return self._clock.now_ms() * 1000
        return self._base_us + self._ticks_us()

    def now_ms(self) -> int:
        """The same in milliseconds."""
        return self.now_us() // 1000

    def _ticks_us(self) -> int:
        if self._is_system and hasattr(time, "CLOCK_BOOTTIME"):
            # It goes on while the machine sleeps.
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
        return int(self._clock.monotonic() * 1_000_000)
