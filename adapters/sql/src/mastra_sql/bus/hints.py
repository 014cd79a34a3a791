"""Hints that something changed, and how often to look without one (pubsub_and_lease.md E1)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from mastra_core.base.clock import Clock
from mastra_core.bus.timers import within

__all__ = ("Doorbell", "Hints", "LocalDoorbell", "Pace")

#: More names than this are no better than "anything".
_MOST_NAMES: Final = 1_000


class Hints:
    """Names with news for one listener; it may be told from its own event loop only."""

    __slots__ = ("_changed", "_is_any", "_names", "wanted")

    def __init__(self) -> None:
        self.wanted: frozenset[str] = frozenset()
        self._names: set[str] = set()
        self._is_any = False
        self._changed = asyncio.Event()

    def tell(self, name: str) -> None:
        """There is news of this name."""
        if name in self.wanted:
            self._names.add(name)
            if len(self._names) > _MOST_NAMES:
                self.tell_any()
            self._changed.set()

    def tell_any(self) -> None:
        """There may be news of every name."""
        if self.wanted:
            self._is_any = True
            self._names.clear()
            self._changed.set()

    async def wait(self, clock: Clock, seconds: float) -> frozenset[str] | None:
        """The names with news; none if the time is over, None if it may be any."""
        if not self._changed.is_set():
            await within(clock, self._changed.wait(), seconds)
        self._changed.clear()
        names, self._names = frozenset(self._names), set()
        is_any, self._is_any = self._is_any, False
        return None if is_any else names


class Doorbell(Protocol):
    """Tells listeners here and elsewhere that a name has news; a ring may get lost."""

    async def follow(self, hints: Hints, names: Collection[str]) -> None:
        """From when this returns, the listener hears of exactly these names."""
        ...

    def leave(self, hints: Hints) -> None:
        """Tell it no more."""
        ...

    def ring(self, name: str, but: Hints | None = None) -> None:
        """There is news of a name, for everybody except one who knows."""
        ...


class LocalDoorbell:
    """Rings for the listeners of this process; those of others look from time to time."""

    def __init__(self) -> None:
        self._listeners: list[Hints] = []

    async def follow(self, hints: Hints, names: Collection[str]) -> None:
        hints.wanted = frozenset(names)
        if hints not in self._listeners:
            self._listeners.append(hints)

    def leave(self, hints: Hints) -> None:
        if hints in self._listeners:
            self._listeners.remove(hints)

    def ring(self, name: str, but: Hints | None = None) -> None:
        self.tell(name, but)

    def tell(self, name: str, but: Hints | None = None) -> None:
        """Tell the listeners of this process."""
        for hints in self._listeners:
            if hints is not but:
                hints.tell(name)

    def tell_any(self) -> None:
        """Let every listener of this process look."""
        for hints in self._listeners:
            hints.tell_any()


@dataclass(slots=True)
class Pace:
    """Seconds between two looks: short while there is news, longer and longer without."""

    shortest: float
    longest: float
    factor: float = 1.5
    current: float = 0.0

    def __post_init__(self) -> None:
        self.current = self.shortest

    def news(self) -> None:
        """Something happened: look often again."""
        self.current = self.shortest

    def nothing(self) -> None:
        """Nothing happened: take it easier."""
        self.current = min(self.longest, self.current * self.factor)
