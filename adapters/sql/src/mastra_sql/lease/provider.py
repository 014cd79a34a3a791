"""Leases in a SQL database: implements ``contracts.lease.LeaseProvider`` on an executor.

Every decision is one statement that uses the database's own clock. What is kept here is only
what this instance holds, so that closing can let it go (L12).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self
from weakref import WeakSet, finalize

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.bus.timers import within
from mastra_core.contracts.lease import LeaseCapabilities, LeaseEvent, LeaseGrant, LeaseRecord
from mastra_core.errors import LeaseError, PubSubClosedError
from mastra_core.inmemory.lease import check_ttl
from mastra_sql.bus.dialect import BusDialect
from mastra_sql.bus.errors import lease_errors
from mastra_sql.bus.hints import Doorbell, Hints
from mastra_sql.executor import Executor, Rows, Step
from mastra_sql.lease.statements import LeaseStatements
from mastra_sql.lease.tables import LeaseTables
from mastra_sql.lease.watching import NOTHING, Sight, events_between, sight_of

__all__ = ("SqlLease",)

#: How long after its time an expiry is reported (L7).
_EXPIRY_GRACE_MS: Final = 20
#: How long closing waits for a database that doesn't answer.
_RELEASE_S: Final = 2.0
#: From so many on, those that are over are looked for and forgotten.
_MAX_HELD: Final = 10_000


@dataclass(slots=True)
class _Held:
    """What was acquired here."""

    owner: str
    holder: str
    fence: int
    until: float


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Watch:
    """Somebody who follows a key."""

    key: str
    hints: Hints = field(default_factory=Hints)
    #: None until it was looked at for the first time.
    seen: Sight | None = None
    seen_at: float = 0.0
    events: deque[LeaseEvent] = field(default_factory=deque)
    first_look: asyncio.Task[None] | None = None


class SqlLease(ABC):
    """
    A lease provider; opens itself with the first call.

    Args:
        dialect: Expressions of the database.
        tables: Where everything is.
        capabilities: How far it keeps others out.
        clock: Measures pauses; it decides about no lease.
        ids: Makes the name of this instance.
        lock_delay_ms: How long an expired lease stays ungrantable to others (L13).
        watch_poll_ms: How stale a watch may be.
        namespace: Keeps the keys of several users of one database apart.
    """

    def __init__(
        self,
        *,
        dialect: BusDialect,
        tables: LeaseTables,
        capabilities: LeaseCapabilities,
        clock: Clock,
        ids: Ids,
        lock_delay_ms: int = 0,
        watch_poll_ms: int = 1_000,
        namespace: str = "",
    ) -> None:
        self.lease_capabilities: LeaseCapabilities = capabilities
        self.statements = LeaseStatements(dialect, tables)
        self._dialect = dialect
        self._clock = clock
        #: Tells this incarnation from others that use the same owner (L3).
        self._holder = ids.new("holder")
        self._lock_delay_ms = lock_delay_ms
        self._watch_poll_ms = watch_poll_ms
        self._namespace = namespace
        self._executor: Executor | None = None
        self._bell: Doorbell | None = None
        self._opening: asyncio.Lock | None = None
        self._is_closed = False
        self._closed = asyncio.Event()
        #: The holder that a key was acquired with here, if not this instance.
        self._holders: dict[tuple[str, str], str] = {}
        self._held: dict[str, _Held] = {}
        #: Weak, so that a watch that nobody reads any more is forgotten.
        self._watches: WeakSet[_Watch] = WeakSet()

    # -- the contract ----------------------------------------------------------------------

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        check_ttl(ttl_ms)
        executor = await self._opened()
        holder = holder or self._holder
        asked_at = self._clock.monotonic()
        step = self.statements.acquire(
            self._name(key),
            self._text(owner),
            ttl_ms,
            self._text(holder),
            lock_delay_ms=self._lock_delay_ms,
        )
        with lease_errors():
            rows, looked = await self._acquire(
                executor, step, self.statements.look(self._name(key))
            )
        if not rows:
            return self._refused(key, sight_of(looked))
        grant = self._granted(rows, ttl_ms)
        if holder != self._holder:
            self._holders[key, owner] = holder
        self._hold(key, owner, holder, grant, asked_at + ttl_ms / 1000)
        return grant

    async def renew_lease(
        self,
        key: str,
        owner: str,
        ttl_ms: int,
        *,
        fence: int | None = None,
        holder: str | None = None,
    ) -> bool:
        check_ttl(ttl_ms)
        holder = self._holder_of(key, owner, holder)
        asked_at = self._clock.monotonic()
        step = self.statements.renew(
            self._name(key),
            self._text(owner),
            ttl_ms,
            fence=fence,
            holder=self._text(holder),
        )
        rows = await self._write("renew", step)
        if not rows:
            return False
        self._hold(key, owner, holder, self._granted(rows, ttl_ms), asked_at + ttl_ms / 1000)
        return True

    async def release_lease(
        self, key: str, owner: str, *, fence: int | None = None, holder: str | None = None
    ) -> bool:
        holder = self._holder_of(key, owner, holder)
        step = self.statements.release(
            self._name(key), self._text(owner), fence=fence, holder=self._text(holder)
        )
        rows = await self._write("release", step)
        if rows:
            self._forget(key, owner)
            self._ring(key)
        return bool(rows)

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
        check_ttl(ttl_ms)
        asked_at = self._clock.monotonic()
        step = self.statements.transfer(
            self._name(key),
            self._text(from_owner),
            self._text(to_owner),
            ttl_ms,
            fence=fence,
            holder=self._text(self._holder_of(key, from_owner, holder)),
            to_holder=None if to_holder is None else self._text(to_holder),
        )
        rows = await self._write("transfer", step)
        if not rows:
            sight = await self._look(key)
            return LeaseGrant(
                acquired=False,
                owner=sight.owner if sight.lives else None,
                fence=sight.fence if sight.lives else None,
            )
        grant = self._granted(rows, ttl_ms)
        if to_owner != from_owner:
            self._forget(key, from_owner)
        if to_holder is not None and to_holder == self._holder:
            self._hold(key, to_owner, to_holder, grant, asked_at + ttl_ms / 1000)
        self._ring(key)
        return grant

    async def get_lease_owner(self, key: str) -> str | None:
        record = await self.get_lease(key)
        return record.owner if record else None

    async def get_lease(self, key: str) -> LeaseRecord | None:
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
        sight = await self._look(key)
        return sight.lives and (sight.owner, sight.fence) == (owner, fence)

    def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        if self._is_closed:
            raise PubSubClosedError
        # Followed from now on, not only from the first read.
        watch = _Watch(key)
        self._watches.add(watch)
        watch.first_look = asyncio.get_running_loop().create_task(
            self._look_first(watch), name=f"lease-watch:{key}"
        )
        return self._follow(watch)

    # -- life ------------------------------------------------------------------------------

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._closed.set()
        for watch in list(self._watches):
            watch.hints.tell_any()
            if watch.first_look is not None:
                watch.first_look.cancel()
        executor, self._executor = self._executor, None
        if executor is None:
            return
        try:
            await self._release_all(executor)
        finally:
            if self._bell is not None:
                for watch in self._watches:
                    self._bell.leave(watch.hints)
            await self._disconnect()

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

    @abstractmethod
    async def _connect(self) -> tuple[Executor, Doorbell]:
        """Open the database, bring the tables up to date, and find what carries hints."""

    @abstractmethod
    async def _disconnect(self) -> None:
        """Undo ``_connect``."""

    async def _acquire(self, executor: Executor, acquire: Step, look: Step) -> tuple[Rows, Rows]:
        """Run the first; its rows, and those of the second if it gave none."""
        rows = await executor.write("acquire", acquire)
        if rows:
            return rows, []
        [looked] = await executor.read("acquire", look)
        return rows, looked

    async def _release_all(self, executor: Executor) -> None:
        """What is still ours is free at once; what can't be released expires by itself."""
        now = self._clock.monotonic()
        held = [(key, one) for key, one in self._held.items() if one.until > now]
        self._held.clear()
        self._holders.clear()

        async def release(key: str, one: _Held) -> None:
            step = self.statements.release(
                self._name(key), self._text(one.owner), fence=one.fence, holder=None
            )
            with suppress(LeaseError), lease_errors():
                if await executor.write("release", step):
                    self._ring(key)

        async def release_each() -> None:
            await asyncio.gather(*(release(key, one) for key, one in held))

        if held:
            await within(self._clock, release_each(), _RELEASE_S)

    async def _opened(self) -> Executor:
        if self._is_closed:
            raise PubSubClosedError
        if self._executor is not None:
            return self._executor
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._executor is None and not self._is_closed:
                with lease_errors():
                    self._executor, self._bell = await self._connect()
        if self._executor is None:
            raise PubSubClosedError
        return self._executor

    # -- asking ----------------------------------------------------------------------------

    async def _write(self, operation: str, step: Step) -> Rows:
        executor = await self._opened()
        with lease_errors():
            return await executor.write(operation, step)

    async def _look(self, key: str) -> Sight:
        executor = await self._opened()
        with lease_errors():
            [rows] = await executor.read("look", self.statements.look(self._name(key)))
        return self._named(sight_of(rows))

    def _named(self, sight: Sight) -> Sight:
        name_of = self._dialect.name_of
        if sight is NOTHING:
            return sight
        return Sight(
            owner=None if sight.owner is None else name_of(sight.owner),
            holder=None if sight.holder is None else name_of(sight.holder),
            fence=sight.fence,
            origin=sight.origin,
            left_ms=sight.left_ms,
            lives=sight.lives,
        )

    def _granted(self, rows: Rows, ttl_ms: int) -> LeaseGrant:
        owner, fence, expires_at_ms = rows[0]
        return LeaseGrant(
            acquired=True,
            owner=None if owner is None else self._dialect.name_of(owner),
            fence=int(fence),
            ttl_remaining_ms=ttl_ms,
            expires_at_server=int(expires_at_ms),
        )

    def _refused(self, key: str, sight: Sight) -> LeaseGrant:
        sight = self._named(sight)
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
        return self._text(f"{self._namespace}{key}")

    def _text(self, name: str) -> str:
        return self._dialect.text_of(name)

    def _ring(self, key: str) -> None:
        if self._bell is not None:
            self._bell.ring(f"l:{self._name(key)}")

    # -- what is held ----------------------------------------------------------------------

    def _holder_of(self, key: str, owner: str, holder: str | None) -> str:
        """Who asks: the one that is named, the one that acquired here, or this instance."""
        return holder or self._holders.get((key, owner)) or self._holder

    def _hold(self, key: str, owner: str, holder: str, grant: LeaseGrant, until: float) -> None:
        known = self._held.get(key)
        if known is None or known.fence != grant.fence:
            self._ring(key)
        if len(self._held) >= _MAX_HELD:
            now = self._clock.monotonic()
            self._held = {name: one for name, one in self._held.items() if one.until > now}
        self._held[key] = _Held(owner, holder, grant.fence or 0, until)

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
                    await self._first_look(watch)
                else:
                    await watch.hints.wait(self._clock, self._patience_ms(watch) / 1000)
                    self._saw(watch, await self._look(watch.key))
        finally:
            self._watches.discard(watch)
            if watch.first_look is not None:
                watch.first_look.cancel()
            if self._bell is not None:
                self._bell.leave(watch.hints)

    async def _first_look(self, watch: _Watch) -> None:
        first_look = watch.first_look
        if first_look is not None:
            await asyncio.wait([first_look])
            watch.first_look = None
            if first_look.cancelled() or self._is_closed:
                raise PubSubClosedError
            first_look.result()

    async def _look_first(self, watch: _Watch) -> None:
        """Follow its hints, then see how it looks now."""
        await self._opened()
        if self._bell is not None:
            await self._bell.follow(watch.hints, [f"l:{self._name(watch.key)}"])
            finalize(watch, self._bell.leave, watch.hints).atexit = False
        sight = await self._look(watch.key)
        if watch.seen is None:
            watch.seen, watch.seen_at = sight, self._clock.monotonic()
        else:
            self._saw(watch, sight)

    def _saw(self, watch: _Watch, sight: Sight) -> None:
        now = self._clock.monotonic()
        before = watch.seen
        if before is not None and sight.fence >= before.fence:
            is_over = now - watch.seen_at >= before.left_ms / 1000
            watch.events.extend(events_between(watch.key, before, sight, is_over=is_over))
        if before is None or sight.fence >= before.fence:
            watch.seen, watch.seen_at = sight, now

    def _patience_ms(self, watch: _Watch) -> float:
        """Until the next look: when it must have expired, at the latest."""
        sight = watch.seen
        if sight is None or not sight.lives:
            return self._watch_poll_ms
        left_ms = watch.seen_at * 1000 + sight.left_ms - self._clock.monotonic() * 1000
        return min(self._watch_poll_ms, max(0.0, left_ms) + _EXPIRY_GRACE_MS)
