"""A sorted set of keys: cheap to change, to count and to read from any place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Generic, TypeVar

__all__ = ("SortedKeys",)

K = TypeVar("K", bound="tuple[Any, ...]")

_CHUNK = 512


class SortedKeys(Generic[K]):
    """
    Unique tuples in ascending order.

    They lie in chunks of bounded size, so that adding one moves a bounded number of others
    and reading from a position passes over whole chunks.
    """

    __slots__ = ("_chunks", "_lasts", "_size")

    def __init__(self) -> None:
        self._chunks: list[list[K]] = []
        #: The last key of each chunk.
        self._lasts: list[K] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._chunks)

    def __reversed__(self) -> Iterator[K]:
        return chain.from_iterable(map(reversed, reversed(self._chunks)))

    def add(self, key: K) -> None:
        """Put a key in; one that is there stays."""
        if not self._chunks:
            self._chunks.append([])
            self._lasts.append(key)
        if key > self._lasts[-1]:  # most come in order
            place = len(self._chunks) - 1
            chunk = self._chunks[place]
            chunk.append(key)
        else:
            place = bisect_left(self._lasts, key)
            chunk = self._chunks[place]
            at = bisect_left(chunk, key)
            if at < len(chunk) and chunk[at] == key:
                return
            chunk.insert(at, key)
        self._lasts[place] = chunk[-1]
        self._size += 1
        if len(chunk) > 2 * _CHUNK:
            self._split(place)

    def _split(self, place: int) -> None:
        chunk = self._chunks[place]
        self._chunks.insert(place + 1, chunk[_CHUNK:])
        del chunk[_CHUNK:]
        self._lasts.insert(place, chunk[-1])

    def discard(self, key: K) -> None:
        """Take a key out, if it is there."""
        place = bisect_left(self._lasts, key)
        if place == len(self._chunks):
            return
        chunk = self._chunks[place]
        at = bisect_left(chunk, key)
        if chunk[at] != key:
            return
        del chunk[at]
        self._size -= 1
        if chunk:
            self._lasts[place] = chunk[-1]
        else:
            del self._chunks[place]
            del self._lasts[place]

    def rank(self, key: tuple[Any, ...]) -> int:
        """How many keys are smaller; ``key`` may be a shorter tuple, such as a bound."""
        place = bisect_left(self._lasts, key)
        before = sum(map(len, islice(self._chunks, place)))
        if place < len(self._chunks):
            before += bisect_left(self._chunks[place], key)
        return before

    def ascending(self, start: int = 0, stop: int | None = None) -> Iterator[K]:
        """The keys of the positions ``start`` … ``stop - 1``."""
        stop = self._size if stop is None else min(stop, self._size)
        skip = start
        for place, chunk in enumerate(self._chunks):
            if skip < len(chunk):
                rest = chain.from_iterable(islice(self._chunks, place, None))
                return islice(rest, skip, max(skip, skip + stop - start))
            skip -= len(chunk)
        return iter(())

    def descending(self, start: int = 0, stop: int | None = None) -> Iterator[K]:
        """The keys of the positions ``stop - 1`` … ``start``, backwards."""
        stop = self._size if stop is None else min(stop, self._size)
        skip = self._size - stop
        for place in range(len(self._chunks) - 1, -1, -1):
            chunk = self._chunks[place]
            if skip < len(chunk):
                backwards = map(reversed, reversed(self._chunks[: place + 1]))
                rest = chain.from_iterable(backwards)
                return islice(rest, skip, max(skip, skip + stop - start))
            skip -= len(chunk)
        return iter(())
