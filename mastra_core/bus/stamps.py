"""Id and time of each published event, made as cheaply as possible."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids, UuidIds

__all__ = ("Stamps",)


class Stamps:
    """
    Ids and times for events.

    Event ids name events, they protect nothing. So where nobody injected ids of his own,
    they are a random UUID per open bus whose last 48 bits count; asking the operating
    system each time would be a fifth of the cost of a delivery in memory.
    """

    __slots__ = ("_clock", "_count", "_ids", "_ms", "_prefix", "_time")

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._prefix = ""
        self._count = 0
        self._ms = -1
        self._time = datetime.fromtimestamp(0, UTC)

    def seed(self) -> None:
        """Start a sequence of its own; after a fork, since a bus is opened where it is used."""
        if type(self._ids) is UuidIds:
            first = str(uuid.uuid4())  # the layout of version 4, random up to the last group
            self._prefix = first[:24]
            self._count = int(first[24:], 16) >> 1

    def new_id(self) -> str:
        """An id in the form of a UUID of version 4, or what the injected ids give."""
        if not self._prefix:
            return self._ids.new("event")
        self._count += 1
        return f"{self._prefix}{self._count:012x}"

    def now(self) -> datetime:
        """The wall clock in whole milliseconds; one object per millisecond."""
        ms = self._clock.now_ms()
        if ms != self._ms:
            self._ms = ms
            self._time = datetime.fromtimestamp(ms / 1000, UTC)
        return self._time
