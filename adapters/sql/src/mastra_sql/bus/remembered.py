"""What this process appended last to a topic, so that its own subscribers needn't ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mastra_core.bus import Position

__all__ = ("Remembered",)

_MOST: Final = 256
_MOST_CHARACTERS: Final = 1_000_000


class Remembered:
    """The end of one topic's log, as far as this process wrote it without anybody between."""

    __slots__ = ("_characters", "_epoch", "_first", "_payloads")

    def __init__(self) -> None:
        self._epoch = 0
        self._first = 1
        self._payloads: list[str] = []
        self._characters = 0

    def append(self, epoch: int, last: int, payloads: Sequence[str]) -> bool:
        """These were stored at places that end with the last one; whether they follow it."""
        first = last - len(payloads) + 1
        follows = (epoch, first) == (self._epoch, self._first + len(self._payloads))
        if not follows:
            self._epoch, self._first = epoch, first
            self._payloads, self._characters = [], 0
        self._payloads += payloads
        self._characters += sum(map(len, payloads))
        while len(self._payloads) > _MOST or self._characters > _MOST_CHARACTERS:
            # Half at once, so that the cost is shared by many appends.
            half = (len(self._payloads) + 1) // 2
            self._characters -= sum(map(len, self._payloads[:half]))
            del self._payloads[:half]
            self._first += half
        return follows

    def after(self, position: Position, limit: int) -> list[tuple[int, str]]:
        """Places and payloads right behind a position; none if they aren't all here."""
        epoch, after = position
        start = after + 1 - self._first
        if epoch != self._epoch or not 0 <= start < len(self._payloads):
            return []
        return list(enumerate(self._payloads[start : start + limit], after + 1))

    @property
    def last(self) -> int:
        """The place of the newest one."""
        return self._first + len(self._payloads) - 1
