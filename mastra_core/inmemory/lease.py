"""Leases in this process's memory (pubsub_and_lease.md 6.4).

They keep tasks of one process apart, whatever instances they use; they know nothing of
other processes. Time is the monotonic clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.bus.lease_watching import Watcher
from mastra_core.bus.leasing import EXPIRY_GRACE_S, HeldLeases, LeaseBase, check_ttl
from mastra_core.bus.timers import first_of
from mastra_core.contracts.lease import LeaseEvent, LeaseGrant, LeaseRecord
from mastra_core.errors import PubSubClosedError
from mastra_core.inmemory.capabilities import LEASE_CAPABILITIES
from mastra_core.inmemory.hub import Hub, hub_key, open_hub
from mastra_core.inmemory.lease_table import LeaseTable
from mastra_core.inmemory.url import MemoryUrl
from mastra_core.plugins.context import AdapterContext

__all__ = ("InMemoryLease", "InMemoryLeaseSettings")


class InMemoryLeaseSettings(BaseModel):
    """Options of ``memory:`` as a lease provider."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    #: Instances of one ``memory:name`` share keys.
    url: MemoryUrl = "memory:"
    #: A lease that expired stays ungrantable to others for so long (L13).
    lock_delay_ms: int = Field(default=0, ge=0)


class InMemoryLease(LeaseBase[Hub]):
    """
    A lease provider; implements ``contracts.lease.LeaseProvider``.

    Without a context it has keys of its own. Opens itself with the first call.
    """

    def __init__(
        self,
        settings: InMemoryLeaseSettings | None = None,
        context: AdapterContext | None = None,
        *,
        hub: Hub | None = None,
    ) -> None:
        super().__init__(
            capabilities=LEASE_CAPABILITIES,
            clock=context.clock if context else SystemClock(),
            ids=context.ids if context else UuidIds(),
        )
        self._settings = settings or InMemoryLeaseSettings()
        self._context = context
        self._held = HeldLeases(self._clock, self._holder)
        self._place = hub
        if hub is None and context is None:
            self._place = Hub(self._clock)

    def attach(self, hub: Hub) -> None:
        """Use the keys of a hub that somebody else has opened and closes."""
        self._place = hub

    def _open_place(self) -> AbstractAsyncContextManager[Hub]:
        context = self._context or AdapterContext(clock=self._clock)
        return context.share(
            hub_key(self._settings.url), lambda: open_hub(lambda: Hub(context.clock))
        )

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        check_ttl(ttl_ms)
        table = await self._table()
        holder = holder or self._holder
        grant = table.acquire(
            key, owner, ttl_ms, holder, lock_delay_ms=self._settings.lock_delay_ms
        )
        if grant.acquired and grant.fence is not None:
            self._held.acquired_as(key, owner, holder)
            self._held.hold(key, owner, grant.fence, self._over_at(ttl_ms))
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
        table = await self._table()
        if not table.renew(key, owner, ttl_ms, fence, self._held.holder_of(key, owner, holder)):
            return False
        if (term := table.live(key)) is not None:
            self._held.hold(key, owner, term.fence, self._over_at(ttl_ms))
        return True

    async def release_lease(
        self, key: str, owner: str, *, fence: int | None = None, holder: str | None = None
    ) -> bool:
        table = await self._table()
        released = table.release(key, owner, fence, self._held.holder_of(key, owner, holder))
        if released:
            self._held.forget(key, owner)
        return released

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
        table = await self._table()
        grant = table.transfer(
            key,
            from_owner,
            to_owner,
            ttl_ms,
            fence=fence,
            holder=self._held.holder_of(key, from_owner, holder),
            to_holder=to_holder,
        )
        if grant.acquired and grant.fence is not None:
            if to_owner != from_owner:
                self._held.forget(key, from_owner)
            if to_holder == self._holder:
                self._held.hold(key, to_owner, grant.fence, self._over_at(ttl_ms))
        return grant

    async def get_lease(self, key: str) -> LeaseRecord | None:
        return (await self._table()).record(key)

    async def check_lease(self, key: str, owner: str, fence: int) -> bool:
        term = (await self._table()).live(key)
        return term is not None and term.owner == owner and term.fence == fence

    def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        if self._is_closed:
            raise PubSubClosedError
        # Followed from now on, not only from the first read.
        watcher = self._place.leases.watch(key) if self._place is not None else None
        return self._follow(key, watcher)

    async def _release_all(self, place: Hub) -> None:
        for key, held in self._held.take():
            place.leases.release(key, held.owner, held.fence, None)

    async def _table(self) -> LeaseTable:
        return (await self._opened()).leases

    def _over_at(self, ttl_ms: int) -> float:
        return self._clock.monotonic() + ttl_ms / 1000

    async def _follow(self, key: str, watcher: Watcher | None) -> AsyncIterator[LeaseEvent]:
        table = await self._table()
        watcher = watcher or table.watch(key)
        try:
            known = table.record(key)
            reported = 0  # the fence of the term whose expiry was told already
            while True:
                if watcher.events:
                    event = watcher.events.popleft()
                    known = table.record(key)
                    if event.kind != "expired" or event.fence != reported:
                        yield event
                    continue
                await self._wait(watcher, known)
                current = table.record(key)
                if known is not None and current is None and not watcher.events:
                    reported = known.fence
                    yield LeaseEvent(kind="expired", key=key, owner=known.owner, fence=known.fence)
                known = current
        finally:
            table.unwatch(watcher)

    async def _wait(self, watcher: Watcher, known: LeaseRecord | None) -> None:
        """Until something happens or the known lease must have expired."""
        watcher.arrived.clear()
        waits: list[Coroutine[Any, Any, Any]] = [watcher.arrived.wait(), self._closed.wait()]
        if known is not None:
            left_s = known.ttl_remaining_ms / 1000 + EXPIRY_GRACE_S
            waits.append(self._clock.sleep(left_s))
        await first_of(*waits)
        if self._is_closed:
            raise PubSubClosedError
