"""One writer at a time per database file, inside this process.

SQLite itself keeps other processes out, by polling with waits. Inside one process a plain
lock is fairer and wakes at once, so every connection that writes to a file shares it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ("BusyWait", "WriteLock")

_FIRST_WAIT: Final = 0.0005
_LONGEST_WAIT: Final = 0.005
#: A wait doubles at most so often; a number that doubles for ever is no number at last.
_DOUBLINGS: Final = 16


class WriteLock:
    """The right to write to one file; held by a worker thread for one transaction."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, timeout: float) -> None:
        """
        Take the lock.

        Raises:
            TimeoutError: Others held it for longer than ``timeout`` seconds.
        """
        if not self._lock.acquire(timeout=timeout):
            raise TimeoutError("Another connection of this process kept the write lock.")

    def release(self) -> None:
        """Let the next one write."""
        self._lock.release()


class BusyWait:
    """SQLite's busy handler: bounded, growing and jittered waits for other processes.

    It runs in the worker thread, which has nothing else to do until the lock is free.
    """

    def __init__(self, timeout_ms: int, is_closing: Callable[[], bool]) -> None:
        self._timeout = timeout_ms / 1000
        self._is_closing = is_closing
        self._deadline = 0.0
        self._random = random.Random()  # noqa: S311 - jitter is no secret

    def __call__(self, attempt: int) -> bool:
        """Wait a little; False when it is time to give up."""
        now = time.monotonic()
        if attempt == 0:
            self._deadline = now + self._timeout
        if self._is_closing() or now >= self._deadline:
            return False
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(attempt, _DOUBLINGS))
        pause = self._random.uniform(longest / 2, longest)
        time.sleep(min(pause, max(0.0, self._deadline - now)))
        return True
