"""Traces of the TypeScript system in a database that we share with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mastra_core.wire import tables

__all__ = ("traces_in_tables",)

_START: Final = "mastra_"
#: Beginnings of names that only we make; the TypeScript system has no bus in a database.
_OURS: Final = ("mastra_py_", "mastra_pubsub_", "mastra_leases", "mastra_fences")

#: Tables that both sides make; they say nothing about who is there.
_SHARED: Final = frozenset(
    {
        tables.THREADS,
        tables.MESSAGES,
        tables.RESOURCES,
        tables.WORKFLOW_SNAPSHOTS,
        tables.NOTIFICATIONS,
        tables.THREAD_STATE,
        tables.BACKGROUND_TASKS,
        tables.SCHEDULES,
        tables.SCHEDULE_TRIGGERS,
    }
)


def traces_in_tables(names: Iterable[str], *, prefix: str = "", noun: str = "tables") -> list[str]:
    """
    What the names of all tables say: nothing, or one sentence.

    Args:
        names: Of everything in the database or schema.
        prefix: Stands before the names of ours and of the peer's tables.
        noun: What the database calls them.
    """
    found = sorted(
        name
        for full in names
        if full.startswith(f"{prefix}{_START}")
        and (name := full.removeprefix(prefix)) not in _SHARED
        and not name.startswith(_OURS)
    )
    if not found:
        return []
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return [f"{noun} that only the TypeScript system makes: {found[0]}{more}"]
