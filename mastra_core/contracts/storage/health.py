"""How the server behind a store is doing, seen from outside; for ``doctor`` and dashboards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ("HealthWarning", "ObservableStorage", "PoolState", "StoreHealth")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The connections that storage, pubsub and lease of one URL share."""

    #: Open connections of this process.
    size: int
    #: Those that somebody uses right now.
    in_use: int
    #: How many may be open at most; None if there is no limit.
    limit: int | None
    #: Callers that wait for one; None if the driver doesn't tell.
    waiting: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthWarning:
    """One thing that works, but will hurt: how the server is set up, what it is near to."""

    summary: str
    #: What mends it.
    fix: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """What a store found out about its server."""

    #: ``PostgreSQL``, ``MongoDB``, ``Redis``, ``SQLite``, ``libSQL server``.
    product: str
    version: str
    #: The oldest version that we work with; None if any does.
    oldest_version: str | None = None
    #: How it is set up, in a few words: ``replica set rs0``, ``append-only file, everysec``.
    setup: str = ""
    #: One round trip, the quickest of a few.
    latency_ms: float
    #: The server's clock minus ours, as exactly as the round trip allows; None if it is our own.
    clock_skew_ms: float | None = None
    #: None if there is no pool.
    pool: PoolState | None = None
    #: One sentence per trace of the TypeScript system: its connections, what only it writes.
    node_peers: Sequence[str] = ()
    warnings: Sequence[HealthWarning] = ()


@runtime_checkable
class ObservableStorage(Protocol):
    """
    What a store offers beside its domains if it can tell how its server is doing.

    Every adapter of a server does. Like its pool, what it tells is about storage, pubsub and
    lease of its URL together.
    """

    async def health(self) -> StoreHealth:
        """
        Look at the server; changes nothing, and ends within the deadlines.

        A store that isn't open connects for the moment. What the account may not see is left out, never an error.

        Raises:
            StorageError: The server doesn't answer.
        """
        ...
