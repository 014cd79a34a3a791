"""One replay subscription of the caching wrapper: history first, then live, by index.

Indexes are given before the live publish, so live events may overtake each other. They are
put in order within a window and told apart by a set, never by a watermark alone (W1, W3).
"""

from __future__ import annotations

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.bus.handlers import accepted_arguments
from mastra_core.bus.timers import within
from mastra_core.contracts.pubsub import EventHandler
from mastra_core.wire.events import Event

__all__ = (
    "EPOCH",
    "GetHistory",
    "Replay",
)

#: The member of an event that tells one numbering from the next.
EPOCH: Final = "indexEpoch"

_REMEMBERED: Final = 10_000

GetHistory = Callable[[int], Awaitable[list[Event]]]


async def _settled() -> None:
    """Ack and nack of what comes from the history: nobody waits for it."""


class Replay:
    """
    Stands between the inner bus and a handler.

    Args:
        handler: Who gets the events.
        offset: The first index that it wants.
        window_s: How long an event waits for those before it.
        clock: Measures that.
        get_history: Reads the cache from an index on.
    """

    def __init__(
        self,
        handler: EventHandler,
        offset: int,
        *,
        window_s: float,
        clock: Clock,
        get_history: GetHistory,
    ) -> None:
        self._handler = handler
        self._arguments = accepted_arguments(handler)
        self._offset = offset
        self._window_s = window_s
        self._clock = clock
        self._get_history = get_history
        self._next = offset
        self._epoch: int | None = None
        self._seen: OrderedDict[tuple[int | None, object], None] = OrderedDict()
        self._is_live = asyncio.Event()
        self._moved = asyncio.Event()

    async def replay(self) -> None:
        """Deliver the history, then let the live events through; raises what the handler raises."""
        for event in await self._get_history(self._offset):
            if self._is_news(event):
                await self._call(event, _settled, _settled, _settled)
        self._is_live.set()

    async def on_event(self, event: Event, ack: Any, nack: Any, extend: Any) -> None:
        """What the inner bus calls; a raise is a nack there."""
        await self._is_live.wait()
        if event.index is not None and event.delivery_attempt == 1:
            self._start_epoch(event)
            await self._wait_for_turn(event)
        if event.delivery_attempt == 1 and not self._is_news(event):
            await ack()
            return
        event.extra.pop(EPOCH, None)
        await self._call(event, ack, nack, extend)

    def _is_news(self, event: Event) -> bool:
        """Whether it is wanted and wasn't seen; remembers it."""
        epoch = event.extra.get(EPOCH)
        if event.index is not None and self._epoch is None:
            self._epoch = epoch
        if event.index is not None and epoch == self._epoch and event.index < self._offset:
            return False
        key = (epoch, event.id if event.index is None else event.index)
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        if event.index is not None and epoch == self._epoch and event.index >= self._next:
            self._next = event.index + 1
            self._tell()
        return True

    def _start_epoch(self, event: Event) -> None:
        """The numbering began anew, since the cache expired or was cleared (W3)."""
        epoch = event.extra.get(EPOCH)
        if self._epoch is None:
            self._epoch = epoch
        elif epoch is not None and epoch > self._epoch:
            self._epoch = epoch
            self._offset = self._next = 0
            self._tell()
        elif epoch is None and event.index == 0 and self._next > 1:
            # A peer that knows no epochs started at 0 again.
            self._offset = self._next = 0
            self._seen.clear()
            self._tell()

    async def _wait_for_turn(self, event: Event) -> None:
        """Until its predecessors were delivered, or the window is over."""
        if not self._must_wait(event):
            return

        async def wait() -> None:
            while self._must_wait(event):
                self._moved.clear()
                await self._moved.wait()

        if not await within(self._clock, wait(), self._window_s):
            await self._fetch_gap(event)

    def _must_wait(self, event: Event) -> bool:
        return (
            event.index is not None
            and event.extra.get(EPOCH) == self._epoch
            and event.index > self._next
        )

    async def _fetch_gap(self, event: Event) -> None:
        """Take what is missing from the cache; what isn't there either is given up."""
        for missing in await self._get_history(self._next):
            if missing.index is None or event.index is None or missing.index >= event.index:
                return
            if self._is_news(missing):
                await self._call(missing, _settled, _settled, _settled)

    def _tell(self) -> None:
        self._moved.set()

    async def _call(self, event: Event, *settle: Any) -> None:
        event.extra.pop(EPOCH, None)
        result = self._handler(*(event, *settle)[: self._arguments])
        if inspect.isawaitable(result):
            await result
