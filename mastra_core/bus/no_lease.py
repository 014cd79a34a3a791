"""The provider that keeps nobody out, for a bus without leases (pubsub_and_lease.md 6.1)."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from mastra_core.contracts.lease import (
    LeaseCapabilities,
    LeaseEvent,
    LeaseGrant,
    LeaseProvider,
    LeaseRecord,
)
from mastra_core.contracts.pubsub import PubSub
from mastra_core.errors import DegradedWarning

__all__ = ("NoLease", "lease_provider_of")

_CAPABILITIES: Final = LeaseCapabilities(atomic_transfer=False, fencing=False, watch=False)


class NoLease:
    """Everybody gets everything; whoever sees it knows that there is one process only."""

    def __init__(self) -> None:
        self.lease_capabilities = _CAPABILITIES

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        return LeaseGrant(acquired=True, owner=owner)

    async def renew_lease(
        self,
        key: str,
        owner: str,
        ttl_ms: int,
        *,
        fence: int | None = None,
        holder: str | None = None,
    ) -> bool:
        return True

    async def release_lease(
        self, key: str, owner: str, *, fence: int | None = None, holder: str | None = None
    ) -> bool:
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
        return LeaseGrant(acquired=True, owner=to_owner)

    async def get_lease_owner(self, key: str) -> str | None:
        return None

    async def get_lease(self, key: str) -> LeaseRecord | None:
        return None

    async def check_lease(self, key: str, owner: str, fence: int) -> bool:
        return True

    async def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        """Nothing ever happens; ends with the cancellation of its reader."""
        await asyncio.Event().wait()
        yield LeaseEvent(kind="released", key=key, owner=None, fence=None)

    async def aclose(self) -> None:
        return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return


def lease_provider_of(bus: PubSub) -> LeaseProvider:
    """
    The provider that belongs to a bus, or ``NoLease`` with a warning where that is dangerous.

    Asked once per runtime, so the warning comes once.
    """
    provider = bus.get_lease_provider()
    if provider is not None:
        return provider
    if bus.capabilities.cross_process:
        warnings.warn(
            f"{type(bus).__name__} reaches other processes but has no leases: "
            "each process will win every thread. Configure a lease provider.",
            DegradedWarning,
            stacklevel=2,
        )
    return NoLease()
