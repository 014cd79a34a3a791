"""Which events a trim by run takes (pubsub_and_lease.md 3.9)."""

from __future__ import annotations

from collections.abc import Mapping

from mastra_core.wire.events import Event

__all__ = ("is_trimmable",)


def is_trimmable(event: Event, run_id: str, produced_before_ms: int | None) -> bool:
    """An event of the run; with a time only if it was produced until then and isn't pinned."""
    if event.run_id != run_id:
        return False
    if produced_before_ms is None:
        return True
    data = event.data if isinstance(event.data, Mapping) else {}
    produced_at = data.get("producedAt")
    if isinstance(produced_at, bool) or not isinstance(produced_at, int | float):
        return False
    return produced_at <= produced_before_ms and not data.get("pinned")
