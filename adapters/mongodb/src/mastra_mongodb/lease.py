"""Leases in a MongoDB database: implements ``contracts.lease.LeaseProvider``.

Every decision is one command that uses the clock of the server. What is kept here is only
what this instance holds, so that closing can let it go (L12). After a failover the clock is
that of the new primary: a lease may then end earlier or later by the skew between the two,
while fences keep growing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern

from mastra_core.base.isotime import epoch_ms
from mastra_core.base.redact import redact_url
from mastra_core.bus.lease_watching import NOTHING, LeaseWatch, Sight, WatchedLease
from mastra_core.bus.leasing import check_ttl
from mastra_core.contracts.lease import LeaseGrant
from mastra_core.errors import LeaseError, LeaseUnavailableError, PubSubClosedError
from mastra_core.plugins.context import AdapterContext
from mastra_mongodb.capabilities import LEASE_CAPABILITIES
from mastra_mongodb.errors import lease_errors
from mastra_mongodb.lease_stages import (
    SIGHT,
    acquire_stages,
    own_filter,
    release_stages,
    renew_stages,
    transfer_stages,
)
from mastra_mongodb.migrate import MigrationPlan
from mastra_mongodb.pool import Collection
from mastra_mongodb.settings import MongoSettings
from mastra_mongodb.sharing import Place, ddl_of_place, plan_of_place, share_place

__all__ = ("Document", "MongoLease")

_TRIES: Final = 5

Document = Mapping[str, Any]


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Watch(LeaseWatch):
    """Somebody who follows a key."""

    #: When it began, and the newest fence that this instance knew then.
    began_at: float = 0.0
    known_fence: int = 0


class MongoLease(WatchedLease[Place, _Watch]):
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
        super().__init__(
            capabilities=LEASE_CAPABILITIES,
            clock=context.clock,
            ids=context.ids,
            watch_poll_ms=settings.watch_poll_ms,
        )
        self._settings = settings
        self._context = context
        self._where = redact_url(settings.address)
        self._namespace = f"{context.namespace}:" if context.namespace else ""

    # -- the contract ----------------------------------------------------------------------

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        """Take the key if it is free, expired or already ours."""
        check_ttl(ttl_ms)
        place = await self._opened()
        holder = holder or self._holder
        asked_at = self._clock.monotonic()
        stages = acquire_stages(
            _text(owner), _text(holder), ttl_ms, lock_delay_ms=self._settings.lock_delay_ms
        )
        with lease_errors("acquire_lease", self._where):
            found = await self._upsert(place, key, stages)
            if found["owner"] != _text(owner):
                return self._refused(key, _sight_of(found))
            grant = self._granted(owner, found, ttl_ms)
            self._held.acquired_as(key, owner, holder)
            await self._hold(place, key, owner, grant, asked_at + ttl_ms / 1000)
        return grant

    async def _upsert(self, place: Place, key: str, stages: list[Any]) -> Document:
        """One command; another one only if two were the first for the key at once."""
        for _ in range(_TRIES):
            try:
                found = await place.leases().find_one_and_update(
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
        self._held.hold(key, owner, grant.fence, asked_at + ttl_ms / 1000)
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
        self._held.forget(key, owner)
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
            return await self._not_handed_on(key)
        grant = self._granted(to_owner, found, ttl_ms)
        if to_owner != from_owner:
            self._held.forget(key, from_owner)
        if to_holder == self._holder:
            self._held.hold(key, to_owner, grant.fence, asked_at + ttl_ms / 1000)
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
        place = await self._opened()
        mine = _text(self._held.holder_of(key, owner, holder))
        wanted = own_filter(self._name(key), _text(owner), fence=fence, holder=mine)
        with lease_errors(operation, self._where):
            found: Document | None = await place.leases().find_one_and_update(
                wanted, stages, projection=SIGHT, return_document=ReturnDocument.AFTER
            )
        return found

    # -- life ------------------------------------------------------------------------------

    def _open_place(self) -> AbstractAsyncContextManager[Place]:
        return share_place(self._settings, self._context)

    def _open_errors(self) -> AbstractContextManager[None]:
        return lease_errors("open", self._where)

    def _leave(self, place: Place) -> None:
        place.feed.leave(self)

    async def _release_all(self, place: Place) -> None:
        for key, held in self._held.take():
            wanted = own_filter(self._name(key), _text(held.owner), fence=held.fence, holder=None)
            with suppress(LeaseError, PubSubClosedError), lease_errors("close", self._where):
                result = await place.leases().update_one(wanted, release_stages())
                if result.modified_count:
                    await place.feed.ring([{"k": self._name(key)}])

    async def plan_migration(self) -> MigrationPlan:
        """What opening would do to the database right now; nothing is changed."""
        with lease_errors("plan", redact_url(self._settings.url)):
            return await plan_of_place(self._settings)

    def export_ddl(self) -> str:
        """Everything that an empty database needs, for the MongoDB shell."""
        return ddl_of_place(self._settings)

    def open_resources(self) -> Mapping[str, int]:
        """What the provider holds open right now, by kind."""
        return {"places": int(self._place is not None), "leases": len(self._held)}

    # -- asking ----------------------------------------------------------------------------

    async def _look(self, key: str) -> Sight:
        place = await self._opened()
        leases = place.leases()
        if place.pool.is_replicated:
            # A primary that was deposed and doesn't know it must not answer (L11).
            leases = leases.with_options(read_concern=ReadConcern("linearizable"))
        return await self._find(leases, key)

    async def _glance(self, key: str) -> Sight:
        return await self._find((await self._opened()).leases(), key)

    async def _find(self, leases: Collection, key: str) -> Sight:
        with lease_errors("get_lease", self._where):
            found = await leases.find_one({"_id": self._name(key)}, SIGHT)
        return NOTHING if found is None else _sight_of(found)

    def _granted(self, owner: str, found: Document, ttl_ms: int) -> LeaseGrant:
        return LeaseGrant(
            acquired=True,
            owner=owner,
            fence=int(found["fence"]),
            ttl_remaining_ms=ttl_ms,
            expires_at_server=epoch_ms(found["expiresAt"]),
        )

    def _name(self, key: str) -> str:
        return _text(f"{self._namespace}{key}")

    async def _ring(self, key: str) -> None:
        place = self._place
        if place is not None:
            with suppress(LeaseError), lease_errors("ring", self._where):
                await place.feed.ring([{"k": self._name(key)}])
            self.on_lease(self._name(key))

    async def _hold(
        self, place: Place, key: str, owner: str, grant: LeaseGrant, until: float
    ) -> None:
        if self._held.hold(key, owner, grant.fence, until):
            await place.feed.ring([{"k": self._name(key)}])
            self.on_lease(self._name(key))

    # -- watching --------------------------------------------------------------------------

    def _new_watch(self, key: str) -> _Watch:
        return _Watch(
            key,
            began_at=self._clock.monotonic(),
            known_fence=self._held.fence_of(key) or 0,
        )

    async def _look_first(self, watch: _Watch) -> None:
        """See how it looks now, and again when the feed tells of every change."""
        place = await self._opened()
        self._saw(watch, await self._glance(watch.key))
        await place.feed.follow(self)
        self._saw(watch, await self._glance(watch.key))

    def _saw(self, watch: _Watch, sight: Sight) -> bool:
        if watch.seen is None and self._is_news(watch, sight):
            watch.seen = Sight(fence=watch.known_fence)
        return super()._saw(watch, sight)

    def _is_news(self, watch: _Watch, sight: Sight) -> bool:
        """
        Whether the term of a first look may have begun after the watch did.

        A fence says when its term began, by the server's clock, which said what time it was
        at some instant since then.
        """
        earliest_ms = sight.now_ms - (self._clock.monotonic() - watch.began_at) * 1000
        is_new = sight.fence > watch.known_fence and sight.fence / 1000 >= earliest_ms
        return sight.owner is not None and is_new

    # -- what the feed says ----------------------------------------------------------------

    def on_event(self, document: Document) -> None:
        """The log is none of the leases."""

    def on_group(self, topic: str, group: str) -> None:
        """Nor are groups."""

    def on_lease(self, key: str) -> None:
        """A lease has another owner, or none."""
        for watch in self._watches:
            if self._name(watch.key) == key:
                watch.wake()

    def on_reset(self) -> None:
        """Anything may have happened."""
        for watch in self._watches:
            watch.wake()


def _text(name: str) -> str:
    """A name that BSON holds, whatever is in it; different names stay different."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "backslashreplace").decode()
    return name


def _sight_of(found: Document) -> Sight:
    owner = found.get("owner")
    left_ms = int(found.get("left") or 0)
    return Sight(
        owner=owner,
        holder=found.get("holder"),
        fence=int(found.get("fence") or 0),
        origin=found.get("origin") or "acquired",
        left_ms=left_ms,
        lives=owner is not None and left_ms > 0,
        now_ms=epoch_ms(found["now"]),
    )
