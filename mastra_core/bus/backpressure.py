"""How much may be under way for one subscriber (pubsub_and_lease.md 3.6)."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

__all__ = ("Backlog", "Slots")

T = TypeVar("T")

_PLENTY = 1_000_000


class Slots:
    """Counts what is under way; a limit of 0 is no limit."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def free(self) -> int:
        """How many more may start."""
        return max(0, self.limit - self.used) if self.limit else _PLENTY

    @property
    def is_full(self) -> bool:
        """Whether nothing more may start."""
        return 0 < self.limit <= self.used


class Backlog(Generic[T]):
    """A queue that lets the oldest go when it is full, and counts what it let go."""

    __slots__ = ("_items", "_limit", "dropped")

    def __init__(self, limit: int) -> None:
        self._items: deque[T] = deque()
        self._limit = limit
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> bool:
        """Queue it; False if another one had to go for it."""
        self._items.append(item)
        if len(self._items) <= self._limit:
            return True
        self._items.popleft()
        self.dropped += 1
        return False

    def pop(self) -> T | None:
        """The oldest; None if there is none."""
        return self._items.popleft() if self._items else None

    def clear(self) -> None:
        """Forget all."""
        self._items.clear()
