"""Leases: which process may run a thread right now (pubsub_and_lease.md 6).

A key has at most one owner until its time runs out. Delivery of events is another room, see
``contracts.pubsub``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self, runtime_checkable

__all__ = (
    "MAX_TTL_MS",
    "MIN_TTL_MS",
    "LeaseCapabilities",
    "LeaseEvent",
    "LeaseGrant",
    "LeaseProvider",
    "LeaseRecord",
)

MIN_TTL_MS = 50
MAX_TTL_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseCapabilities:
    """How far a provider keeps others out."""

    cross_process: bool = False
    cross_host: bool = False
    atomic_transfer: bool = True
    fencing: bool = True
    watch: bool = True
    min_ttl_ms: int = MIN_TTL_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """The answer to a request for a lease; being refused is not an error."""

    acquired: bool
    #: Who holds the key now; None when that couldn't be read.
    owner: str | None
    #: Grows with every change of owner; None without fencing.
    fence: int | None = None
    ttl_remaining_ms: int | None = None
    #: Epoch milliseconds by the server's clock.
    expires_at_server: int | None = None

    def __bool__(self) -> bool:
        return self.acquired


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A live lease as the server sees it."""

    owner: str
    holder: str | None
    fence: int
    ttl_remaining_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEvent:
    """Something that happened to a watched key."""

    kind: Literal["acquired", "renewed", "transferred", "released", "expired"]
    key: str
    owner: str | None
    fence: int | None


@runtime_checkable
class LeaseProvider(Protocol):
    """What a backend offers if it can really keep other processes out; rules L1-L13."""

    lease_capabilities: LeaseCapabilities

    async def acquire_lease(
        self, key: str, owner: str, ttl_ms: int, *, holder: str | None = None
    ) -> LeaseGrant:
        """
        Take the key if it is free, expired or already ours.

        Args:
            key: What to own, usually a thread key.
            owner: Who asks, usually a run id. Asking again extends the time.
            ttl_ms: How long the key stays ours without renewal.
            holder: This incarnation of the process, to tell a resumed run
                from its paused twin; another holder of the same owner starts a new term.

        Raises:
            ValueError: ``ttl_ms`` is outside 50 … 86 400 000.
            LeaseUnavailableError: The backend didn't answer, so nobody knows.
        """
        ...

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
        ...

    async def release_lease(
        self, key: str, owner: str, *, fence: int | None = None, holder: str | None = None
    ) -> bool:
        """Let the key go; False, and nothing changes, if ``owner`` doesn't hold it."""
        ...

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
        ...

    async def get_lease_owner(self, key: str) -> str | None:
        """The live owner; None if there is none."""
        ...

    async def get_lease(self, key: str) -> LeaseRecord | None:
        """The live lease; None if there is none."""
        ...

    async def check_lease(self, key: str, owner: str, fence: int) -> bool:
        """Is this term still the current one, by the server's judgement?"""
        ...

    def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        """Follow a key; stale by at most ``watch_poll_ms``."""
        ...

    async def aclose(self) -> None:
        """Release what this instance still holds and close; idempotent."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
