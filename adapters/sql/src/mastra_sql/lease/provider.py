"""Leases in a SQL database: implements ``contracts.lease.LeaseProvider`` on an executor.

Every decision is one statement that uses the database's own clock. What is kept here is only
what this instance holds, so that closing can let it go (L12).
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import finalize

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.bus.lease_watching import NOTHING, LeaseWatch, Sight, WatchedLease
from mastra_core.bus.leasing import Held, check_ttl
from mastra_core.bus.timers import within
from mastra_core.contracts.lease import LeaseCapabilities, LeaseGrant
from mastra_core.errors import LeaseError
from mastra_sql.bus.database import OpenDatabase
from mastra_sql.bus.dialect import BusDialect
from mastra_sql.bus.errors import lease_errors
from mastra_sql.bus.hints import Hints
from mastra_sql.executor import Executor, Rows, Step
from mastra_sql.lease.statements import LeaseStatements
from mastra_sql.lease.tables import LeaseTables

__all__ = ("SqlLease", "sight_of")

#: How long closing waits for a database that doesn't answer.
_RELEASE_S: Final = 2.0


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Watch(LeaseWatch):
    """Somebody who follows a key, woken by a doorbell."""

    hints: Hints = field(default_factory=Hints)

    def wake(self) -> None:
        self.hints.tell_any()

    async def wait(self, clock: Clock, seconds: float) -> None:
        await self.hints.wait(clock, seconds)


def sight_of(rows: Rows) -> Sight:
    """The answer to ``LeaseStatements.look``."""
    if not rows:
        return NOTHING
    owner, holder, fence, origin, left_ms, lives = rows[0]
    return Sight(
        owner=owner,
        holder=holder,
        fence=int(fence),
        origin=origin,
        left_ms=max(0, int(left_ms)),
        lives=bool(lives),
    )


class SqlLease(WatchedLease[OpenDatabase, _Watch]):
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
        super().__init__(
            capabilities=capabilities, clock=clock, ids=ids, watch_poll_ms=watch_poll_ms
        )
        self.statements = LeaseStatements(dialect, tables)
        self._dialect = dialect
        self._lock_delay_ms = lock_delay_ms
        self._namespace = namespace

    # -- the contract ----------------------------------------------------------------------

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        check_ttl(ttl_ms)
        place = await self._opened()
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
                place.client, step, self.statements.look(self._name(key))
            )
        if not rows:
            return self._refused(key, self._named(sight_of(looked)))
        grant = self._granted(rows, ttl_ms)
        self._held.acquired_as(key, owner, holder)
        self._hold(key, owner, grant, asked_at + ttl_ms / 1000)
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
        holder = self._held.holder_of(key, owner, holder)
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
        self._hold(key, owner, self._granted(rows, ttl_ms), asked_at + ttl_ms / 1000)
        return True

    async def release_lease(
        self, key: str, owner: str, *, fence: int | None = None, holder: str | None = None
    ) -> bool:
        holder = self._held.holder_of(key, owner, holder)
        step = self.statements.release(
            self._name(key), self._text(owner), fence=fence, holder=self._text(holder)
        )
        rows = await self._write("release", step)
        if rows:
            self._held.forget(key, owner)
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
            holder=self._text(self._held.holder_of(key, from_owner, holder)),
            to_holder=None if to_holder is None else self._text(to_holder),
        )
        rows = await self._write("transfer", step)
        if not rows:
            return await self._not_handed_on(key)
        grant = self._granted(rows, ttl_ms)
        if to_owner != from_owner:
            self._held.forget(key, from_owner)
        if to_holder is not None and to_holder == self._holder:
            self._hold(key, to_owner, grant, asked_at + ttl_ms / 1000)
        self._ring(key)
        return grant

    # -- life ------------------------------------------------------------------------------

    @abstractmethod
    def _open_place(self) -> AbstractAsyncContextManager[OpenDatabase]:
        """Open the database, bring the tables up to date, and find what carries hints."""

    def _open_errors(self) -> AbstractContextManager[None]:
        return lease_errors()

    def _leave(self, place: OpenDatabase) -> None:
        for watch in self._watches:
            place.bell.leave(watch.hints)

    async def _release_all(self, place: OpenDatabase) -> None:
        async def release(key: str, held: Held) -> None:
            step = self.statements.release(
                self._name(key), self._text(held.owner), fence=held.fence, holder=None
            )
            with suppress(LeaseError), lease_errors():
                if await place.client.write("release", step):
                    place.bell.ring(f"l:{self._name(key)}")

        async def release_each() -> None:
            await asyncio.gather(*(release(key, held) for key, held in taken))

        if taken := self._held.take():
            await within(self._clock, release_each(), _RELEASE_S)

    # -- asking ----------------------------------------------------------------------------

    async def _acquire(self, executor: Executor, acquire: Step, look: Step) -> tuple[Rows, Rows]:
        """Run the first; its rows, and those of the second if it gave none."""
        rows = await executor.write("acquire", acquire)
        if rows:
            return rows, []
        [looked] = await executor.read("acquire", look)
        return rows, looked

    async def _write(self, operation: str, step: Step) -> Rows:
        place = await self._opened()
        with lease_errors():
            return await place.client.write(operation, step)

    async def _look(self, key: str) -> Sight:
        place = await self._opened()
        with lease_errors():
            [rows] = await place.client.read("look", self.statements.look(self._name(key)))
        return self._named(sight_of(rows))

    def _named(self, sight: Sight) -> Sight:
        name_of = self._dialect.name_of
        return replace(
            sight,
            owner=None if sight.owner is None else name_of(sight.owner),
            holder=None if sight.holder is None else name_of(sight.holder),
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

    def _name(self, key: str) -> str:
        return self._text(f"{self._namespace}{key}")

    def _text(self, name: str) -> str:
        return self._dialect.text_of(name)

    def _ring(self, key: str) -> None:
        if self._place is not None:
            self._place.bell.ring(f"l:{self._name(key)}")

    def _hold(self, key: str, owner: str, grant: LeaseGrant, until: float) -> None:
        if self._held.hold(key, owner, grant.fence, until):
            self._ring(key)

    # -- watching --------------------------------------------------------------------------

    def _new_watch(self, key: str) -> _Watch:
        return _Watch(key)

    async def _look_first(self, watch: _Watch) -> None:
        place = await self._opened()
        await place.bell.follow(watch.hints, [f"l:{self._name(watch.key)}"])
        finalize(watch, place.bell.leave, watch.hints).atexit = False
        self._saw(watch, await self._look(watch.key))

    def _unfollow(self, watch: _Watch) -> None:
        if self._place is not None:
            self._place.bell.leave(watch.hints)
