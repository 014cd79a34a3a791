"""Remembers for a while which ids were seen (pubsub_and_lease.md P10)."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ("DedupeWindow",)


class DedupeWindow:
    """Ids with the time of their first use; bounded by time and by number."""

    __slots__ = ("_limit", "_seen", "_window_ms")

    def __init__(self, window_ms: int, *, limit: int = 10_000) -> None:
        self._window_ms = window_ms
        self._limit = limit
        self._seen: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def is_known(self, id: str, now_ms: int) -> bool:
        """Whether the id was added within the window."""
        self._forget_old(now_ms)
        return id in self._seen

    def add(self, id: str, now_ms: int) -> bool:
        """Remember the id; False if it is known already, which doesn't prolong its time."""
        if self.is_known(id, now_ms):
            return False
        self._seen[id] = now_ms
        if len(self._seen) > self._limit:
            self._seen.popitem(last=False)
        return True

    def clear(self) -> None:
        """Forget all."""
        self._seen.clear()

    def _forget_old(self, now_ms: int) -> None:
        oldest = now_ms - self._window_ms
        while self._seen and next(iter(self._seen.values())) <= oldest:
            self._seen.popitem(last=False)
