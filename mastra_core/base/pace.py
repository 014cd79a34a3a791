"""Short turns: however many calls come at once, the event loop gets around quickly.

asyncio runs everything that is ready before it looks at timers and sockets again. A thousand
calls of 50 µs that become ready together are one stretch of 50 ms for all others. A store
asks its pace before it works; when there were enough calls in one round of the loop the
others wait for the next rounds, in their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

__all__ = ("BYTES_OF_A_UNIT", "Pace", "in_turns")

T = TypeVar("T")
R = TypeVar("R")

#: Units of work in one round; a usual call is one, of some 40 µs. A number and not a time, so
#: that the order of calls depends on nothing but the calls.
_AT_ONCE: Final = 32
#: So few calls aren't worth a look at when the round ends, which takes the loop a round.
_FEW: Final = 8

BYTES_OF_A_UNIT: Final = 16_384
"""So much JSON is written or read in the time of one unit."""


class Pace:
    """Whose turn it is among the calls of one store; each event loop has its own turns."""

    __slots__ = ("_rounds",)

    def __init__(self) -> None:
        #: Of the loop that asked last.
        self._rounds: _Rounds | None = None

    async def turn(self) -> None:
        """Return at once, unless there were enough calls in this round of the loop."""
        loop = asyncio.get_running_loop()
        rounds = self._rounds
        if rounds is None or rounds.loop is not loop:
            rounds = self._rounds = _Rounds(loop)
        if rounds.is_watched and (rounds.waiting or rounds.units >= _AT_ONCE):
            turn = loop.create_future()
            rounds.waiting.append(turn)
            await turn
        else:
            rounds.count(1)

    def spent(self, units: int) -> None:
        """The call whose turn it is was more work than others, by so many units."""
        if units > 0 and self._rounds is not None:
            self._rounds.units += units


class _Rounds:
    """The rounds of one event loop."""

    __slots__ = ("calls", "is_watched", "loop", "units", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        #: Calls whose turn comes in a later round.
        self.waiting: deque[asyncio.Future[None]] = deque()
        #: How many calls there were in this round, or in some with a few calls, and how much
        #: work.
        self.calls = self.units = 0
        #: Whether ``_end`` is called when the next round comes.
        self.is_watched = False

    def count(self, calls: int) -> None:
        """So many more in this round."""
        self.calls += calls
        self.units += calls
        if self.calls >= _FEW and not self.is_watched:
            self.is_watched = True
            self.loop.call_soon(self._end)

    def _end(self) -> None:
        """The next round has come; those whose turn it is go on in it."""
        # As heavy as the calls of this round will be those of the next.
        wanted = max(1, _AT_ONCE * self.calls // max(self.units, 1))
        self.calls = self.units = woken = 0
        self.is_watched = False
        while self.waiting and woken < wanted:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                woken += 1
        if self.waiting:
            self.is_watched = True
            self.loop.call_soon(self._end)
        self.count(woken)


async def in_turns(
    items: Sequence[T], convert: Callable[[Sequence[T]], Sequence[R]], *, at_once: int
) -> list[R]:
    """Convert many items, ``at_once`` of them in one round of the loop."""
    if len(items) <= at_once:
        return list(convert(items))
    converted: list[R] = []
    for start in range(0, len(items), at_once):
        if start:
            await asyncio.sleep(0)
        converted += convert(items[start : start + at_once])
    return converted
