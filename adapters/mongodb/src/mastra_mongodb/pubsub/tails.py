"""The newest events of watched topics in memory, so that most reads need no database."""

from __future__ import annotations

from collections import deque

from mastra_core.bus import Page, Position
from mastra_mongodb.pubsub.envelope import Row

__all__ = ("Tail",)

_MAX_BYTES = 8 * 1024 * 1024


class Tail:
    """
    The end of one log, without a hole.

    Args:
        limit: Rows to keep; not more than the log itself keeps.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows: deque[Row] = deque()
        self._bytes = 0
        self.epoch = 0
        #: The last place that is known to be taken; 0 in an epoch without events.
        self.last = 0

    @property
    def is_known(self) -> bool:
        """Whether anything is known about the end of the log."""
        return self.epoch > 0

    def forget(self) -> None:
        """Something may have been missed."""
        self._rows.clear()
        self._bytes = 0
        self.epoch = 0
        self.last = 0

    def push(self, row: Row) -> None:
        """One more row; older ones are known already."""
        epoch, seq = row.position
        if epoch < self.epoch or (epoch == self.epoch and seq <= self.last):
            return
        if epoch != self.epoch or seq != self.last + 1:
            self._rows.clear()
            self._bytes = 0
        self.epoch, self.last = epoch, seq
        if row.next_epoch is not None:
            self._rows.clear()
            self._bytes = 0
            self.epoch, self.last = row.next_epoch, 0
            return
        self._rows.append(row)
        self._bytes += row.size
        while len(self._rows) > self._limit or self._bytes > _MAX_BYTES:
            self._bytes -= self._rows.popleft().size

    def reached(self, position: Position) -> None:
        """A read found nothing behind this place."""
        epoch, seq = position
        if epoch > self.epoch or (epoch == self.epoch and seq > self.last):
            self._rows.clear()
            self._bytes = 0
            self.epoch, self.last = epoch, seq

    def is_end(self, position: Position) -> bool:
        """Whether nothing is known behind this place."""
        return position[0] == self.epoch and position[1] >= self.last

    def read(self, position: Position, limit: int) -> Page | None:
        """The rows behind this place; None if they aren't all here."""
        epoch, after = position
        if epoch != self.epoch or not self._rows or after >= self.last:
            return None
        first = self._rows[0].position[1]
        if after < first - 1:
            return None
        start = after - first + 1
        rows = [self._rows[place] for place in range(start, min(start + limit, len(self._rows)))]
        if not rows:
            return None
        return Page([row.entry for row in rows if row.entry is not None], rows[-1].position)

    def row(self, position: Position) -> Row | None:
        """One row, if it is here."""
        if position[0] != self.epoch or not self._rows:
            return None
        place = position[1] - self._rows[0].position[1]
        return self._rows[place] if 0 <= place < len(self._rows) else None
