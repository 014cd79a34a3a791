"""What the suites of leases share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count

from mastra_core.contracts.lease import LeaseEvent, LeaseProvider

__all__ = ("DEADLINE_S", "TTL_MS", "Elapse", "Watching", "fence_of", "watching")

Elapse = Callable[[int], Awaitable[None]]

#: Short, so that adapters with a clock of their own are tested in reasonable time.
TTL_MS = 300
#: How long a test waits for something that must happen.
DEADLINE_S = 60

_FIRST_TTL_MS = 60_000
_FIRST_LOOK_S = 1.0


def fence_of(grant: object) -> int:
    """The fence of something that was granted."""
    fence = getattr(grant, "fence", None)
    assert isinstance(fence, int), f"no fence in {grant!r}"
    assert 0 < fence < 2**53
    return fence


class Watching:
    """Collects what a watch reports."""

    def __init__(self) -> None:
        self.events: list[LeaseEvent] = []
        self._arrived = asyncio.Condition()

    @property
    def kinds(self) -> list[tuple[str, str | None]]:
        """Kind and owner of each event; renewals, which are optional, left out."""
        return [(event.kind, event.owner) for event in self.events if event.kind != "renewed"]

    async def follow(self, provider: LeaseProvider, key: str, started: asyncio.Event) -> None:
        """Collect until cancelled."""
        events = provider.watch_lease(key)
        started.set()
        async for event in events:
            async with self._arrived:
                self.events.append(event)
                self._arrived.notify_all()

    async def begin(self, provider: LeaseProvider, key: str) -> None:
        """
        Let the watch of a free key begin: it tells what follows its first look, and nothing else.

        That look takes as long as the way to the server.
        """
        for attempt in count():
            owner = f"first-{attempt}"
            await provider.acquire_lease(key, owner, _FIRST_TTL_MS)
            has_begun = await self._hears("acquired", owner, within_s=_FIRST_LOOK_S)
            await provider.release_lease(key, owner)
            if has_begun:
                break
        assert await self._hears("released", owner, within_s=DEADLINE_S), self.kinds
        self.events.clear()

    async def until(self, number: int) -> None:
        """Wait for so many events that aren't renewals."""
        has_come = await self._come(lambda: len(self.kinds) >= number, within_s=DEADLINE_S)
        assert has_come, f"only {self.kinds!r}"

    async def _hears(self, kind: str, owner: str, *, within_s: float) -> bool:
        return await self._come(lambda: (kind, owner) in self.kinds, within_s=within_s)

    async def _come(self, condition: Callable[[], bool], *, within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s), self._arrived:
                return await self._arrived.wait_for(condition)
        except TimeoutError:
            return False


@asynccontextmanager
async def watching(provider: LeaseProvider, key: str) -> AsyncIterator[Watching]:
    """Follow a key within the block."""
    seen, started = Watching(), asyncio.Event()
    task = asyncio.create_task(seen.follow(provider, key, started))
    try:
        await started.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])
