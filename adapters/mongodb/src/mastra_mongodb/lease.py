"""Leases in a MongoDB database: implements ``contracts.lease.LeaseProvider``.

Every decision is one command that uses the clock of the server. What is kept here is only
what this instance holds, so that closing can let it go (L12). After a failover the clock is
that of the new primary: a lease may then end earlier or later by the skew between the two,
while fences keep growing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal, Self

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern

from mastra_core.base.isotime import epoch_ms
from mastra_core.base.redact import redact_url
from mastra_core.bus.timers import within
from mastra_core.contracts.lease import LeaseCapabilities, LeaseEvent, LeaseGrant, LeaseRecord
from mastra_core.errors import LeaseError, LeaseUnavailableError, PubSubClosedError
from mastra_core.inmemory.lease import check_ttl
from mastra_core.plugins.context import AdapterContext
from mastra_mongodb.capabilities import LEASE_CAPABILITIES
from mastra_mongodb.errors import lease_errors
from mastra_mongodb.home import Home, bus_ddl, plan_bus, share_home
from mastra_mongodb.leases import (
    SIGHT,
    acquire_stages,
    own_filter,
    release_stages,
    renew_stages,
    transfer_stages,
)
from mastra_mongodb.migrate import MigrationPlan
from mastra_mongodb.settings import MongoSettings

__all__ = ("Document", "MongoLease")

#: How long after its time an expiry is reported (L7).
_EXPIRY_GRACE_MS: Final = 20
#: From so many on, those that are over are looked for and forgotten.
_MAX_HELD: Final = 10_000
_TRIES: Final = 5

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sight:
    """How a key looked at one moment."""

    owner: str | None = None
    holder: str | None = None
    fence: int = 0
    origin: Literal["acquired", "transferred"] = "acquired"
    #: Milliseconds; not positive if its time is over.
    left_ms: int = 0
    #: The server's time of the look.
    now_ms: int = 0

    @property
    def lives(self) -> bool:
        """Whether somebody holds the key."""
        return self.owner is not None and self.left_ms > 0


_NOTHING: Final = _Sight()


@dataclass(slots=True)
class _Held:
    """What was acquired here."""

    owner: str
    fence: int
    until: float


@dataclass(slots=True, eq=False)
class _Watch:
    """Somebody who follows a key."""

    key: str
    #: When it began, and the newest fence that this instance knew then.
    began_at: float = 0.0
    known_fence: int = 0
    #: None until it was looked at for the first time.
    seen: _Sight | None = None
    seen_at: float = 0.0
    events: deque[LeaseEvent] = field(default_factory=deque)
    hinted: asyncio.Event = field(default_factory=asyncio.Event)
    first_look: asyncio.Task[None] | None = None


class MongoLease:
    """
    A lease provider; opens itself with the first call.

    Example::

        async with MongoLease("mongodb://localhost/app") as leases:
            grant = await leases.acquire_lease("thread-1", "run-1", 15_000)

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    def __init__(
        self,
        settings: MongoSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = MongoSettings(url=settings, **options)
        context = context or AdapterContext()
        self.lease_capabilities: LeaseCapabilities = LEASE_CAPABILITIES
        self._settings = settings
        self._where = redact_url(settings.address)
        self._clock = context.clock
        self._namespace = f"{context.namespace}:" if context.namespace else ""
        #: Tells this incarnation from others that use the same owner (L3).
        self._holder = context.ids.new("holder")
        self._shared: AbstractAsyncContextManager[Home] = share_home(settings, context)
        self._home: Home | None = None
        self._opening: asyncio.Lock | None = None
        self._is_closed = False
        #: The holder that a key was acquired with here, if not this instance.
        self._holders: dict[tuple[str, str], str] = {}
        self._held: dict[str, _Held] = {}
        self._watches: set[_Watch] = set()

    # -- the contract ----------------------------------------------------------------------

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        """Take the key if it is free, expired or already ours."""
        check_ttl(ttl_ms)
        home = await self._opened()
        holder = holder or self._holder
        asked_at = self._clock.monotonic()
        stages = acquire_stages(
            _text(owner), _text(holder), ttl_ms, lock_delay_ms=self._settings.lock_delay_ms
        )
        with lease_errors("acquire_lease", self._where):
            found = await self._upsert(home, key, stages)
            if found["owner"] != _text(owner):
                return self._refused(key, _sight_of(found))
            grant = self._granted(owner, found, ttl_ms)
            if holder != self._holder:
                self._holders[key, owner] = holder
            await self._hold(home, key, owner, grant, asked_at + ttl_ms / 1000)
        return grant

    async def _upsert(self, home: Home, key: str, stages: list[Any]) -> Document:
        """One command; another one only if two were the first for the key at once."""
        for _ in range(_TRIES):
            try:
                found = await home.leases().find_one_and_update(
                    {"_id": self._name(key)},
                    stages,
                    projection=SIGHT,
                    upsert=True,
                    return_document=ReturnDocument.AFTER,
                )
            except DuplicateKeyError:
                continue
            if found is not None:
                return found  # type: ignore[no-any-return]  # a document
        raise LeaseUnavailableError(f"The lease {key!r} can't be read.")

    async def renew_lease(
        self,
        key: str,
        owner: str,
        ttl_ms: int,
        *,
        fence: int | None = None,
        holder: str | None = None,
    ) -> bool:
        """Set the remaining time if it is live and ours; never revives."""
        check_ttl(ttl_ms)
        asked_at = self._clock.monotonic()
        found = await self._change(
            "renew_lease", key, owner, renew_stages(ttl_ms), fence=fence, holder=holder
        )
        if found is None:
            return False
        grant = self._granted(owner, found, ttl_ms)
        self._remember(key, owner, grant, asked_at + ttl_ms / 1000)
        return True

    async def release_lease(
        self, key: str, owner: str, *, fence: int | None = None, holder: str | None = None
    ) -> bool:
        """Let the key go; False, and nothing changes, if ``owner`` doesn't hold it."""
        found = await self._change(
            "release_lease", key, owner, release_stages(), fence=fence, holder=holder
        )
        if found is None:
            return False
        self._forget(key, owner)
        await self._ring(key)
        return True

    async def transfer_lease(
        self,
        key: str,
        from_owner: str,
        to_owner: str,
        ttl_ms: int,
        *,
        fence: int | None = None,
        holder: str | None = None,
        to_holder: str | None = None,
    ) -> LeaseGrant:
        """Hand the key on in one step, without an instant in which it is free."""
        check_ttl(ttl_ms)
        asked_at = self._clock.monotonic()
        heir = None if to_holder is None else _text(to_holder)
        stages = transfer_stages(_text(from_owner), _text(to_owner), heir, ttl_ms)
        found = await self._change(
            "transfer_lease", key, from_owner, stages, fence=fence, holder=holder
        )
        if found is None:
            sight = await self._look(key)
            return LeaseGrant(
                acquired=False,
                owner=sight.owner if sight.lives else None,
                fence=sight.fence if sight.lives else None,
            )
        grant = self._granted(to_owner, found, ttl_ms)
        if to_owner != from_owner:
            self._forget(key, from_owner)
        if to_holder == self._holder:
            self._remember(key, to_owner, grant, asked_at + ttl_ms / 1000)
        await self._ring(key)
        return grant

    async def _change(
        self,
        operation: str,
        key: str,
        owner: str,
        stages: list[Any],
        *,
        fence: int | None,
        holder: str | None,
    ) -> Document | None:
        """Change the live term of a caller, in one command; None if it isn't his."""
        home = await self._opened()
        mine = _text(holder or self._holders.get((key, owner)) or self._holder)
        wanted = own_filter(self._name(key), _text(owner), fence=fence, holder=mine)
        with lease_errors(operation, self._where):
            found: Document | None = await home.leases().find_one_and_update(
                wanted, stages, projection=SIGHT, return_document=ReturnDocument.AFTER
            )
        return found

    async def get_lease_owner(self, key: str) -> str | None:
        """The live owner; None if there is none."""
        record = await self.get_lease(key)
        return record.owner if record else None

    async def get_lease(self, key: str) -> LeaseRecord | None:
        """The live lease; None if there is none."""
        sight = await self._look(key)
        if sight.owner is None or not sight.lives:
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

    def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        """Follow a key, from now on."""
        if self._is_closed:
            raise PubSubClosedError
        held = self._held.get(key)
        watch = _Watch(key, self._clock.monotonic(), held.fence if held else 0)
        self._watches.add(watch)
        watch.first_look = asyncio.get_running_loop().create_task(
            self._look_first(watch), name=f"lease-watch:{key}"
        )
        return self._follow(watch)

    # -- life ------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Release what this instance still holds and close; idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        for watch in self._watches:
            watch.hinted.set()
            if watch.first_look is not None:
                watch.first_look.cancel()
        home, self._home = self._home, None
        if home is None:
            return
        try:
            await self._release_all(home)
        finally:
            home.feed.leave(self)
            await self._shared.__aexit__(None, None, None)

    async def _release_all(self, home: Home) -> None:
        """What is still ours is free at once; what can't be released expires by itself."""
        now = self._clock.monotonic()
        held = [(key, one) for key, one in self._held.items() if one.until > now]
        self._held.clear()
        self._holders.clear()
        for key, one in held:
            wanted = own_filter(self._name(key), _text(one.owner), fence=one.fence, holder=None)
            with suppress(LeaseError, PubSubClosedError), lease_errors("close", self._where):
                result = await home.leases().update_one(wanted, release_stages())
                if result.modified_count:
                    await home.feed.ring([{"k": self._name(key)}])

    async def __aenter__(self) -> Self:
        await self._opened()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def plan_migration(self) -> MigrationPlan:
        """What opening would do to the database right now; nothing is changed."""
        with lease_errors("plan", redact_url(self._settings.url)):
            return await plan_bus(self._settings)

    def export_ddl(self) -> str:
        """Everything that an empty database needs, for the MongoDB shell."""
        return bus_ddl(self._settings)

    def open_resources(self) -> Mapping[str, int]:
        """What the provider holds open right now, by kind."""
        return {"homes": int(self._home is not None), "leases": len(self._held)}

    async def _opened(self) -> Home:
        if self._is_closed:
            raise PubSubClosedError
        if self._home is not None:
            return self._home
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._home is None and not self._is_closed:
                with lease_errors("open", self._where):
                    self._home = await self._shared.__aenter__()
        if self._home is None:
            raise PubSubClosedError
        return self._home

    # -- asking ----------------------------------------------------------------------------

    async def _look(self, key: str, *, is_hint: bool = False) -> _Sight:
        """How a key looks; as a hint it may be a moment old."""
        home = await self._opened()
        leases = home.leases()
        if home.pool.is_replicated and not is_hint:
            # A primary that was deposed and doesn't know it must not answer (L11).
            leases = leases.with_options(read_concern=ReadConcern("linearizable"))
        with lease_errors("get_lease", self._where):
            found = await leases.find_one({"_id": self._name(key)}, SIGHT)
        return _NOTHING if found is None else _sight_of(found)

    def _granted(self, owner: str, found: Document, ttl_ms: int) -> LeaseGrant:
        return LeaseGrant(
            acquired=True,
            owner=owner,
            fence=int(found["fence"]),
            ttl_remaining_ms=ttl_ms,
            expires_at_server=epoch_ms(found["expiresAt"]),
        )

    def _refused(self, key: str, sight: _Sight) -> LeaseGrant:
        for watch in self._watches:
            if watch.key == key:
                # A waiter must hear of the end of what it was refused for.
                self._saw(watch, sight)
        if not sight.lives:
            # Over by now, or kept from others for a while (L13).
            return LeaseGrant(acquired=False, owner=None)
        return LeaseGrant(
            acquired=False,
            owner=sight.owner,
            fence=sight.fence,
            ttl_remaining_ms=sight.left_ms,
        )

    def _name(self, key: str) -> str:
        return _text(f"{self._namespace}{key}")

    async def _ring(self, key: str) -> None:
        home = self._home
        if home is not None:
            with suppress(LeaseError), lease_errors("ring", self._where):
                await home.feed.ring([{"k": self._name(key)}])
            self.on_lease(self._name(key))

    # -- what is held ----------------------------------------------------------------------

    async def _hold(
        self, home: Home, key: str, owner: str, grant: LeaseGrant, until: float
    ) -> None:
        known = self._held.get(key)
        self._remember(key, owner, grant, until)
        if known is None or known.fence != grant.fence:
            await home.feed.ring([{"k": self._name(key)}])
            self.on_lease(self._name(key))

    def _remember(self, key: str, owner: str, grant: LeaseGrant, until: float) -> None:
        if len(self._held) >= _MAX_HELD:
            now = self._clock.monotonic()
            self._held = {name: one for name, one in self._held.items() if one.until > now}
        self._held[key] = _Held(owner, grant.fence or 0, until)

    def _forget(self, key: str, owner: str) -> None:
        self._holders.pop((key, owner), None)
        known = self._held.get(key)
        if known is not None and known.owner == owner:
            del self._held[key]

    # -- watching --------------------------------------------------------------------------

    async def _follow(self, watch: _Watch) -> AsyncIterator[LeaseEvent]:
        try:
            while True:
                while watch.events:
                    yield watch.events.popleft()
                if watch.first_look is not None:
                    await self._wait_for_first_look(watch)
                    continue
                if not watch.hinted.is_set():
                    await within(self._clock, watch.hinted.wait(), self._patience_s(watch))
                watch.hinted.clear()
                if self._is_closed:
                    raise PubSubClosedError
                self._saw(watch, await self._look(watch.key, is_hint=True))
        finally:
            self._watches.discard(watch)
            if watch.first_look is not None:
                watch.first_look.cancel()

    async def _wait_for_first_look(self, watch: _Watch) -> None:
        first_look = watch.first_look
        if first_look is not None:
            await asyncio.wait([first_look])
            watch.first_look = None
            if first_look.cancelled() or self._is_closed:
                raise PubSubClosedError
            first_look.result()

    async def _look_first(self, watch: _Watch) -> None:
        """See how it looks now, and again when the feed tells of every change."""
        home = await self._opened()
        self._saw(watch, await self._look(watch.key, is_hint=True))
        await home.feed.follow(self)
        self._saw(watch, await self._look(watch.key, is_hint=True))

    def _saw(self, watch: _Watch, sight: _Sight) -> None:
        now = self._clock.monotonic()
        before = watch.seen
        if before is None and self._is_news(watch, sight, now):
            before = _Sight(fence=watch.known_fence)
        if before is not None and sight.fence >= before.fence:
            is_over = now - watch.seen_at >= before.left_ms / 1000
            events = list(_events_between(watch.key, before, sight, is_over=is_over))
            if events:
                watch.events.extend(events)
                watch.hinted.set()
        if before is None or sight.fence >= before.fence:
            watch.seen, watch.seen_at = sight, now

    def _is_news(self, watch: _Watch, sight: _Sight, now: float) -> bool:
        """
        Whether the term of a first look may have begun after the watch did.

        A fence says when its term began, by the server's clock, which said what time it was
        at some instant since then.
        """
        earliest_ms = sight.now_ms - (now - watch.began_at) * 1000
        is_new = sight.fence > watch.known_fence and sight.fence / 1000 >= earliest_ms
        return sight.owner is not None and is_new

    def _patience_s(self, watch: _Watch) -> float:
        """Until the next look: when it must have expired, at the latest."""
        poll_s = self._settings.watch_poll_ms / 1000
        sight = watch.seen
        if sight is None or not sight.lives:
            return poll_s
        left_s = watch.seen_at + sight.left_ms / 1000 - self._clock.monotonic()
        return min(poll_s, max(0.0, left_s) + _EXPIRY_GRACE_MS / 1000)

    # -- what the feed says ----------------------------------------------------------------

    def on_event(self, document: Document) -> None:
        """The log is none of the leases."""

    def on_group(self, topic: str, group: str) -> None:
        """Nor are groups."""

    def on_lease(self, key: str) -> None:
        """A lease has another owner, or none."""
        for watch in self._watches:
            if self._name(watch.key) == key:
                watch.hinted.set()

    def on_reset(self) -> None:
        """Anything may have happened."""
        for watch in self._watches:
            watch.hinted.set()


def _text(name: str) -> str:
    """A name that BSON holds, whatever is in it; different names stay different."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "backslashreplace").decode()
    return name


def _sight_of(found: Document) -> _Sight:
    owner = found.get("owner")
    return _Sight(
        owner=owner,
        holder=found.get("holder"),
        fence=int(found.get("fence") or 0),
        origin=found.get("origin") or "acquired",
        left_ms=int(found.get("left") or 0),
        now_ms=epoch_ms(found["now"]),
    )


def _events_between(
    key: str, before: _Sight, now: _Sight, *, is_over: bool
) -> Iterator[LeaseEvent]:
    """
    What must have happened; terms that came and went between two looks aren't told.

    Args:
        key: For the events.
        before: The last look.
        now: This look.
        is_over: Whether the time of the term that was seen before has passed.
    """

    def end(sight: _Sight, *, released: bool) -> LeaseEvent:
        kind: Literal["released", "expired"] = "released" if released else "expired"
        return LeaseEvent(kind=kind, key=key, owner=sight.owner, fence=sight.fence)

    if now.fence <= before.fence:
        if before.lives and not now.lives:
            yield end(before, released=now.owner is None)
        return
    was_handed_on = now.origin == "transferred" or now.owner == before.owner
    if before.lives and not was_handed_on:
        yield end(before, released=not is_over)
    if now.owner is None:
        # A whole term was missed; that it ended is what a waiter wants to know.
        yield LeaseEvent(kind="released", key=key, owner=None, fence=now.fence)
        return
    yield LeaseEvent(kind=now.origin, key=key, owner=now.owner, fence=now.fence)
    if not now.lives:
        yield end(now, released=False)
