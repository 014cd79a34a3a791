"""A client of leases that does random things, for histories that a checker judges."""

from __future__ import annotations

import random
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mastra_conformance.histories.recorder import History
from mastra_conformance.suites.lease.support import TTL_MS
from mastra_core.contracts.lease import LeaseGrant, LeaseProvider
from mastra_core.errors import LeaseError

__all__ = ("Client",)

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Client:
    """Somebody who remembers what it holds."""

    name: str
    handle: LeaseProvider
    history: History
    rng: random.Random
    ttl_ms: int = TTL_MS
    held: dict[str, LeaseGrant] = field(default_factory=dict)

    async def step(self, key: str) -> None:
        """One random operation on a key; one whose outcome nobody knows gives up the key."""
        grant = self.held.get(key)
        try:
            if grant is None:
                await self._acquire(key)
            else:
                await self._use(key, grant)
        except LeaseError:
            self.held.pop(key, None)

    async def _acquire(self, key: str) -> None:
        answer = await self._record(
            "acquire_lease", self.handle.acquire_lease(key, self.name, self.ttl_ms), key
        )
        if answer.acquired:
            self.held[key] = answer

    async def _use(self, key: str, grant: LeaseGrant) -> None:
        chance = self.rng.random()
        if chance < 0.6:
            renewing = self.handle.renew_lease(key, self.name, self.ttl_ms, fence=grant.fence)
            if not await self._record("renew_lease", renewing, key, fence=grant.fence):
                del self.held[key]
            return
        del self.held[key]
        if chance < 0.8:
            releasing = self.handle.release_lease(key, self.name, fence=grant.fence)
            await self._record("release_lease", releasing, key, fence=grant.fence)
        elif chance < 0.9:
            heir = f"{self.name}'s heir"
            moving = self.handle.transfer_lease(
                key, self.name, heir, self.ttl_ms, fence=grant.fence
            )
            names = {"from_owner": self.name, "to_owner": heir}
            await self._record("transfer_lease", moving, key, fence=grant.fence, **names)

    async def _record(self, call_name: str, call: Awaitable[T], key: str, **more: Any) -> T:
        common = {"key": key, "owner": self.name, "ttl_ms": self.ttl_ms}
        return await self.history.record(self.name, call_name, call, **common, **more)
