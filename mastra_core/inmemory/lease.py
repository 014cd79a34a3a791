"""Leases in this process's memory (pubsub_and_lease.md 6.4).

They keep tasks of one process apart, whatever instances they use; they know nothing of
other processes. Time is the monotonic clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.lease import (
    MAX_TTL_MS,
    MIN_TTL_MS,
    LeaseEvent,
    LeaseGrant,
    LeaseRecord,
)
from mastra_core.errors import PubSubClosedError
from mastra_core.inmemory.capabilities import LEASE_CAPABILITIES
from mastra_core.inmemory.hub import Hub, hub_key, open_hub
from mastra_core.inmemory.lease_table import LeaseTable, Watcher
from mastra_core.inmemory.url import MemoryUrl
from mastra_core.plugins.context import AdapterContext

__all__ = ("InMemoryLease", "InMemoryLeaseSettings", "check_ttl")

#: How long after its time an expiry is reported (L7).
_EXPIRY_GRACE_S = 0.02
#: From so many on, those that expired without release are looked for and forgotten.
_MAX_HELD = 10_000


class InMemoryLeaseSettings(BaseModel):
    """Options of ``memory:`` as a lease provider."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    #: Instances of one ``memory:name`` share keys.
    url: MemoryUrl = "memory:"
    #: A lease that expired stays ungrantable to others for so long (L13).
    lock_delay_ms: int = Field(default=0, ge=0)


def check_ttl(ttl_ms: int) -> None:
    """
    Refuse a time to live before anything is touched (L1).

    Raises:
        ValueError: It isn't an integer in 50 … 86 400 000.
    """
    if type(ttl_ms) is not int or not MIN_TTL_MS <= ttl_ms <= MAX_TTL_MS:
        raise ValueError(f"ttl_ms is {ttl_ms!r}, not an integer in {MIN_TTL_MS} … {MAX_TTL_MS}.")


class InMemoryLease:
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
        self.lease_capabilities = LEASE_CAPABILITIES
        self._settings = settings or InMemoryLeaseSettings()
        self._clock = context.clock if context else SystemClock()
        #: Tells this incarnation from others that use the same owner (L3).
        self._holder = (context.ids if context else UuidIds()).new("holder")
        self._hub = hub
        self._share: AbstractAsyncContextManager[Hub] | None = None
        if hub is None and context is None:
            self._hub = Hub(self._clock)
        elif hub is None and context is not None:
            self._share = context.share(
                hub_key(self._settings.url), lambda: open_hub(lambda: Hub(context.clock))
            )
        self._opening: asyncio.Lock | None = None
        self._is_closed = False
        self._closed = asyncio.Event()
        #: The holder that each key was acquired with here.
        self._holders: dict[tuple[str, str], str] = {}
        #: What was acquired here and not let go: key to (owner, fence).
        self._held: dict[str, tuple[str, int]] = {}

    def attach(self, hub: Hub) -> None:
        """Use the keys of a hub that somebody else has opened and closes."""
        self._hub = hub
        self._share = None

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
            if holder != self._holder:
                self._holders[key, owner] = holder
            self._hold(table, key, owner, grant.fence)
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
        if not table.renew(key, owner, ttl_ms, fence, self._holder_of(key, owner, holder)):
            return False
        if (term := table.live(key)) is not None:
            self._hold(table, key, owner, term.fence)
        return True

    async def release_lease(
        self, key: str, owner: str, *, fence: int | None = None, holder: str | None = None
    ) -> bool:
        table = await self._table()
        released = table.release(key, owner, fence, self._holder_of(key, owner, holder))
        if released:
            self._forget(key, owner)
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
            holder=self._holder_of(key, from_owner, holder),
            to_holder=to_holder,
        )
        if grant.acquired and grant.fence is not None:
            if to_owner != from_owner:
                self._forget(key, from_owner)
            if to_holder == self._holder:
                self._hold(table, key, to_owner, grant.fence)
        return grant

    async def get_lease_owner(self, key: str) -> str | None:
        record = await self.get_lease(key)
        return record.owner if record else None

    async def get_lease(self, key: str) -> LeaseRecord | None:
        return (await self._table()).record(key)

    async def check_lease(self, key: str, owner: str, fence: int) -> bool:
        term = (await self._table()).live(key)
        return term is not None and term.owner == owner and term.fence == fence

    def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        if self._is_closed:
            raise PubSubClosedError
        # Followed from now on, not only from the first read.
        watcher = self._hub.leases.watch(key) if self._hub is not None else None
        return self._follow(key, watcher)

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._closed.set()
        if self._hub is not None:
            for key, (owner, fence) in self._held.items():
                self._hub.leases.release(key, owner, fence, None)
        self._held.clear()
        self._holders.clear()
        if self._share is not None and self._hub is not None:
            self._hub = None
            await self._share.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        await self._table()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _table(self) -> LeaseTable:
        if self._is_closed:
            raise PubSubClosedError
        if self._hub is None:
            self._opening = self._opening or asyncio.Lock()
            async with self._opening:
                if self._hub is None and self._share is not None:
                    self._hub = await self._share.__aenter__()
        if self._hub is None:
            raise PubSubClosedError
        return self._hub.leases

    def _holder_of(self, key: str, owner: str, holder: str | None) -> str:
        """Who asks: the one that is named, the one that acquired here, or this instance."""
        return holder or self._holders.get((key, owner)) or self._holder

    def _hold(self, table: LeaseTable, key: str, owner: str, fence: int) -> None:
        if len(self._held) >= _MAX_HELD:
            self._held = {known: held for known, held in self._held.items() if table.live(known)}
        self._held[key] = (owner, fence)

    def _forget(self, key: str, owner: str) -> None:
        self._holders.pop((key, owner), None)
        if self._held.get(key, ("", 0))[0] == owner:
            del self._held[key]

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
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(watcher.arrived.wait()),
            asyncio.ensure_future(self._closed.wait()),
        ]
        if known is not None:
            left_s = known.ttl_remaining_ms / 1000 + _EXPIRY_GRACE_S
            waits.append(asyncio.ensure_future(self._clock.sleep(left_s)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
        if self._is_closed:
            raise PubSubClosedError
