"""Queues with a limit in items and bytes, and an answer when they are full."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ("BoundedQueue", "QueueClosedError", "QueueFullError")

T = TypeVar("T")


class QueueFullError(Exception):
    """The item doesn't fit; the queue is as before. Owners translate this into their own error."""


class QueueClosedError(Exception):
    """The queue takes nothing more, and nothing is left in it."""


class BoundedQueue(Generic[T]):
    """
    First in, first out, up to so many items and so many bytes.

    An item is taken whole or not at all. One that is larger than the whole
    byte budget never fits. Meant for one event loop.
    """

    def __init__(self, *, max_items: int, max_bytes: int | None = None) -> None:
        if max_items < 1 or (max_bytes is not None and max_bytes < 1):
            raise ValueError("a bounded queue needs room for at least one item and one byte")
        self.max_items = max_items
        #: None for no limit.
        self.max_bytes = max_bytes
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter([item for item, _ in self._items])

    @property
    def size_bytes(self) -> int:
        """The bytes of all waiting items."""
        return self._bytes

    @property
    def is_closed(self) -> bool:
        """True after ``close``; what is left can still be taken."""
        return self._closed

    def fits(self, size: int = 0) -> bool:
        """True if an item of this size could be put now."""
        if self._closed or len(self._items) >= self.max_items:
            return False
        return self.max_bytes is None or self._bytes + size <= self.max_bytes

    def put_nowait(self, item: T, *, size: int = 0) -> None:
        """
        Add an item at the end.

        Raises:
            QueueClosedError: The queue was closed.
            QueueFullError: There is no room.
        """
        if self._closed:
            raise QueueClosedError
        if not self.fits(size):
            raise QueueFullError
        self._items.append((item, size))
        self._bytes += size
        self._notify()

    async def put(self, item: T, *, size: int = 0) -> None:
        """
        Add an item, waiting for room.

        Raises:
            QueueClosedError: The queue was or is closed while waiting.
            QueueFullError: The item is larger than the whole budget.
        """
        if self.max_bytes is not None and size > self.max_bytes:
            raise QueueFullError
        while not self._closed and not self.fits(size):
            await self._changed.wait()
        self.put_nowait(item, size=size)

    def get_nowait(self) -> T | None:
        """Take the first item; None if there is none."""
        if not self._items:
            return None
        item, size = self._items.popleft()
        self._bytes -= size
        self._notify()
        return item

    async def get(self) -> T:
        """
        Take the first item, waiting for one.

        Raises:
            QueueClosedError: Closed, and nothing is left.
        """
        while not self._items:
            if self._closed:
                raise QueueClosedError
            await self._changed.wait()
        item, size = self._items.popleft()
        self._bytes -= size
        self._notify()
        return item

    def drain(self) -> list[T]:
        """Take everything that waits, in order."""
        items = [item for item, _ in self._items]
        self._items.clear()
        self._bytes = 0
        self._notify()
        return items

    def close(self) -> None:
        """Take nothing more; waiting putters and, once it is empty, getters are told."""
        self._closed = True
        self._notify()

    def _notify(self) -> None:
        # Whoever waits looks again; the next waiter waits for the next change.
        self._changed.set()
        self._changed = asyncio.Event()
