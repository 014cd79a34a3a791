"""What may be set for a bus or leases in a SQL database. Imports no driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, Field

from mastra_core.bus import BusOptions

__all__ = ("BusLimits", "SqlBusOptions", "SqlLeaseOptions")

_WEEK_MS: Final = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BusLimits:
    """What is kept, and for how long."""

    max_entries: int = 10_000
    dead_retention_ms: int = _WEEK_MS
    #: A group that nobody claims for for so long is forgotten, with what it holds.
    group_ttl_ms: int = _WEEK_MS
    #: Instead of the times that the kinds of topics have; work queues are always kept.
    idle_ttl_ms: int | None = None
    sweep_interval_ms: int = 60_000


class SqlLeaseOptions(BaseModel):
    """Options of leases."""

    #: Never create or change anything; refuse to open what has to be migrated first.
    disable_init: bool = False
    #: A lease that expired stays ungrantable to others for so long (L13).
    lock_delay_ms: int = Field(default=0, ge=0)
    #: How stale a watch may be where nothing rings.
    watch_poll_ms: int = Field(default=1_000, ge=1)


class SqlBusOptions(BusOptions, SqlLeaseOptions):
    """Options of a bus, and of the leases that belong to it."""

    #: How long given-up events are kept.
    dead_retention_ms: int = Field(default=_WEEK_MS, ge=1)
    #: A group that nobody claims for for so long is forgotten, with what it holds.
    group_ttl_ms: int = Field(default=_WEEK_MS, ge=60_000)
    #: Instead of an hour for topics of runs and a week for others; work queues are kept.
    idle_ttl_ms: int | None = Field(default=None, ge=1)
    #: How often what is over is deleted.
    sweep_interval_ms: int = Field(default=60_000, ge=10)

    def limits(self) -> BusLimits:
        """What is kept, and for how long."""
        return BusLimits(
            max_entries=self.max_entries,
            dead_retention_ms=self.dead_retention_ms,
            group_ttl_ms=self.group_ttl_ms,
            idle_ttl_ms=self.idle_ttl_ms,
            sweep_interval_ms=self.sweep_interval_ms,
        )
