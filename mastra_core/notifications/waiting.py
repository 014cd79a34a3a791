"""Records that wait for a thread to become free, so that they needn't wait for a timer.

Only a hint inside this process: the stored due time is what counts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Final

__all__ = ("WaitingRecords",)

_MAX_THREADS: Final = 10_000


class WaitingRecords:
    """Per thread: which records we put off, and until when."""

    def __init__(self) -> None:
        self._threads: OrderedDict[str, dict[str, datetime]] = OrderedDict()

    def add(self, thread_id: str, notification_id: str, due_at: datetime) -> None:
        """This record was put off until then, for its thread was busy."""
        self._threads.setdefault(thread_id, {})[notification_id] = due_at
        self._threads.move_to_end(thread_id)
        while len(self._threads) > _MAX_THREADS:
            self._threads.popitem(last=False)

    def take(self, thread_id: str) -> Mapping[str, datetime]:
        """What waits for this thread; it is forgotten here."""
        return self._threads.pop(thread_id, {})

    def __contains__(self, thread_id: str) -> bool:
        return thread_id in self._threads
