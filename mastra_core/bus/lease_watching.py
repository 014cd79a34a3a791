"""Following keys (L7): events that are told, and events concluded from two looks at a key."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar
from weakref import WeakSet

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.bus.leasing import EXPIRY_GRACE_S, HeldLeases, LeaseBase
from mastra_core.bus.timers import within
from mastra_core.contracts.lease import LeaseCapabilities, LeaseEvent, LeaseGrant, LeaseRecord
from mastra_core.errors import PubSubClosedError

__all__ = (
    "NOTHING",
    "LeaseWatch",
    "Sight",
    "WatchedLease",
    "Watcher",
    "events_between",
)

#: Events of one key that wait for a slow reader.
_MAX_EVENTS: Final = 1_000


@dataclass(slots=True, eq=False, weakref_slot=True)
class Watcher:
    """The events of one key that somebody follows, as they are told."""

    key: str
    events: deque[LeaseEvent] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, event: LeaseEvent) -> None:
        """Queue the event; a reader that lags misses renewals first, then the oldest."""
        if len(self.events) >= _MAX_EVENTS:
            if event.kind == "renewed":
                return
            self.events.popleft()
        self.events.append(event)
        self.arrived.set()


# -- two looks --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """How a key looked at one moment."""

    owner: str | None = None
    holder: str | None = None
    fence: int = 0
    origin: Literal["acquired", "transferred"] = "acquired"
    left_ms: int = 0
    #: Whether somebody holds the key.
    lives: bool = False
    #: The server's time of the look, if it tells.
    now_ms: int = 0


NOTHING: Final = Sight()
"""A key that nobody ever had."""


def events_between(key: str, before: Sight, now: Sight, *, is_over: bool) -> Iterator[LeaseEvent]:
    """
    What must have happened; terms that came and went between two looks aren't told.

    Args:
        key: For the events.
        before: The last look.
        now: This look.
        is_over: Whether the time of the term that was seen before has passed.
    """

    def event(kind: Any, owner: str | None, fence: int) -> LeaseEvent:
        return LeaseEvent(kind=kind, key=key, owner=owner, fence=fence)

    def end(sight: Sight, *, released: bool) -> LeaseEvent:
        return event("released" if released else "expired", sight.owner, sight.fence)

    if now.fence <= before.fence:
        if before.lives and not now.lives:
            yield end(before, released=now.owner is None)
        return
    was_handed_on = now.origin == "transferred" or now.owner == before.owner
    if before.lives and not was_handed_on:
        yield end(before, released=not is_over)
    if now.owner is None:
        # A whole term was missed; that it ended is what a waiter wants to know.
        yield event("released", None, now.fence)
        return
    yield event(now.origin, now.owner, now.fence)
    if not now.lives:
        yield end(now, released=False)


@dataclass(slots=True, eq=False, weakref_slot=True)
class LeaseWatch:
    """Somebody who follows a key that is looked at."""

    key: str
    #: None until it was looked at for the first time.
    seen: Sight | None = None
    seen_at: float = 0.0
    events: deque[LeaseEvent] = field(default_factory=deque)
    hinted: asyncio.Event = field(default_factory=asyncio.Event)
    first_look: asyncio.Task[None] | None = None
    #: Whether somebody was refused a key that was free when it was looked at.
    owes_end: bool = False

    def saw(self, sight: Sight, now: float) -> bool:
        """Conclude what happened since the last look; True if anything did."""
        before = self.seen
        if before is not None and sight.fence < before.fence:
            # A late answer to an early question.
            return False
        known = len(self.events)
        if before is not None:
            is_over = now - self.seen_at >= before.left_ms / 1000
            self.events.extend(events_between(self.key, before, sight, is_over=is_over))
        self.seen, self.seen_at = sight, now
        return len(self.events) > known

    def pay_end(self) -> None:
        """
        Tell of the end of a term that nobody saw, if somebody was refused because of it.

        It ended between the refusal and the look, or is kept from others for a while (L13).
        Whoever waits for it would otherwise wait for an end that has been.
        """
        if not self.owes_end:
            return
        self.owes_end = False
        if not self.events and self.seen is not None and not self.seen.lives:
            kind: Literal["released", "expired"] = (
                "released" if self.seen.owner is None else "expired"
            )
            self.events.append(
                LeaseEvent(kind=kind, key=self.key, owner=self.seen.owner, fence=self.seen.fence)
            )

    def patience_s(self, now: float, poll_s: float) -> float:
        """Until the next look: when the term must have expired, at the latest."""
        sight = self.seen
        if sight is None or not sight.lives:
            return poll_s
        left_s = self.seen_at + sight.left_ms / 1000 - now
        return min(poll_s, max(0.0, left_s) + EXPIRY_GRACE_S)

    def wake(self) -> None:
        """There may be news."""
        self.hinted.set()

    async def wait(self, clock: Clock, seconds: float) -> None:
        """Until there may be news, or the time is over."""
        if not self.hinted.is_set():
            await within(clock, self.hinted.wait(), seconds)
        self.hinted.clear()


P = TypeVar("P")
W = TypeVar("W", bound=LeaseWatch)


class WatchedLease(LeaseBase[P], Generic[P, W]):
    """
    A provider on a database that is looked at, when a hint comes or time is up.

    Args:
        capabilities: How far it keeps others out.
        clock: Measures pauses; it decides about no lease.
        ids: Makes the name of this instance.
        watch_poll_ms: How stale a watch may be.
    """

    def __init__(
        self, *, capabilities: LeaseCapabilities, clock: Clock, ids: Ids, watch_poll_ms: int
    ) -> None:
        super().__init__(capabilities=capabilities, clock=clock, ids=ids)
        self._held = HeldLeases(clock, self._holder)
        self._watch_poll_s = watch_poll_ms / 1000
        #: Weak, so that a watch that nobody reads any more is forgotten.
        self._watches: WeakSet[W] = WeakSet()

    @abstractmethod
    async def _look(self, key: str) -> Sight:
        """How a key looks now."""

    async def _glance(self, key: str) -> Sight:
        """How a key looks; may be a moment old."""
        return await self._look(key)

    @abstractmethod
    def _new_watch(self, key: str) -> W: ...

    @abstractmethod
    async def _look_first(self, watch: W) -> None:
        """Begin to follow its hints, and see how it looks."""

    def _unfollow(self, watch: W) -> None:
        """Nobody reads it any more."""

    # -- asking ----------------------------------------------------------------------------

    async def get_lease(self, key: str) -> LeaseRecord | None:
        """The live lease; None if there is none."""
        sight = await self._look(key)
        if not sight.lives or sight.owner is None:
            return None
        return LeaseRecord(
            owner=sight.owner,
            holder=sight.holder,
            fence=sight.fence,
            ttl_remaining_ms=sight.left_ms,
        )

    async def check_lease(self, key: str, owner: str, fence: int) -> bool:
        """Is this term still the current one, by the server's judgement?"""
        sight = await self._look(key)
        return sight.lives and (sight.owner, sight.fence) == (owner, fence)

    def _refused(self, key: str, sight: Sight) -> LeaseGrant:
        """The answer to who asked for a key of somebody else."""
        for watch in self._watches:
            # A waiter must hear of the end of what it was refused for.
            if watch.key == key:
                watch.owes_end = watch.owes_end or not sight.lives
                if self._saw(watch, sight):
                    watch.wake()
        if not sight.lives:
            # Over by now, or kept from others for a while (L13).
            return LeaseGrant(acquired=False, owner=None)
        return LeaseGrant(
            acquired=False,
            owner=sight.owner,
            fence=sight.fence,
            ttl_remaining_ms=sight.left_ms,
        )

    async def _not_handed_on(self, key: str) -> LeaseGrant:
        """The answer to who wanted to hand on what isn't his."""
        sight = await self._look(key)
        return LeaseGrant(
            acquired=False,
            owner=sight.owner if sight.lives else None,
            fence=sight.fence if sight.lives else None,
        )

    # -- watching --------------------------------------------------------------------------

    def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        """Follow a key, from now on and not only from the first read."""
        if self._is_closed:
            raise PubSubClosedError
        watch = self._new_watch(key)
        self._watches.add(watch)
        watch.first_look = asyncio.get_running_loop().create_task(
            self._look_first(watch), name=f"lease-watch:{key}"
        )
        return self._follow(watch)

    def _end_watches(self) -> None:
        for watch in list(self._watches):
            watch.wake()
            if watch.first_look is not None:
                watch.first_look.cancel()

    async def _follow(self, watch: W) -> AsyncIterator[LeaseEvent]:
        try:
            while True:
                while watch.events:
                    yield watch.events.popleft()
                if watch.first_look is not None:
                    await self._first_look(watch)
                    continue
                patience_s = watch.patience_s(self._clock.monotonic(), self._watch_poll_s)
                await watch.wait(self._clock, patience_s)
                if self._is_closed:
                    raise PubSubClosedError
                self._saw(watch, await self._glance(watch.key))
                watch.pay_end()
        finally:
            self._watches.discard(watch)
            if watch.first_look is not None:
                watch.first_look.cancel()
            self._unfollow(watch)

    async def _first_look(self, watch: W) -> None:
        first_look = watch.first_look
        if first_look is not None:
            await asyncio.wait([first_look])
            watch.first_look = None
            if first_look.cancelled() or self._is_closed:
                raise PubSubClosedError
            first_look.result()

    def _saw(self, watch: W, sight: Sight) -> bool:
        return watch.saw(sight, self._clock.monotonic())
