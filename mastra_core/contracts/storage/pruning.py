"""Retention: what may be deleted, in which portions (snapshots.md 5.8, notifications.md 3.8)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

__all__ = ("PruneOptions", "PrunePolicy", "PruneResult")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunePolicy:
    """Rows of one table that are strictly older than this may go."""

    #: Table key of the domain: ``notifications``, ``workflowSnapshot``, ``messages`` ...
    table: str
    max_age_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneOptions:
    """How much work one call may do."""

    batch_size: int = 1000
    max_batches: int | None = None
    max_rows: int | None = None
    pause_ms: int = 0
    abort: asyncio.Event | None = None
    #: Count only, delete nothing.
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneResult:
    """What one table lost; ``done`` is False when a limit stopped the work."""

    domain: str
    table: str
    deleted: int
    done: bool
