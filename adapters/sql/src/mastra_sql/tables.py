"""The tables of the six domains, as SQLAlchemy metadata.

Names, order and kinds of the columns are those that the TypeScript system creates
(streaming.md 8.10, 10.5, snapshots.md 13, notifications.md 14); a table of ours starts with
``mastra_py_``. How a kind is stored is the dialect's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, Table, Text

from mastra_core.wire import tables as names

__all__ = ("ColumnKind", "Tables", "build_tables", "column_kind", "data_columns", "twin_name")


class ColumnKind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    INTEGER = "integer"
    #: A value in the database's own JSON form.
    JSON = "json"
    #: An instant.
    TIME = "time"
    #: The instant of another column again, in another type; written, but not data of its own.
    TWIN = "twin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Every table that a store uses."""

    metadata: MetaData
    threads: Table
    messages: Table
    resources: Table
    snapshots: Table
    notifications: Table
    thread_state: Table
    background_tasks: Table
    schedules: Table
    schedule_triggers: Table
    #: Claims, guards and confirmations of notifications; ours.
    claims: Table
    #: The newest fence that a guarded write carried, by key of its lease; ours.
    fences: Table
    #: Which version of our additions the database holds; ours.
    versions: Table

    def shared(self) -> Iterator[Table]:
        """Tables that peers use, too."""
        yield from (
            self.threads,
            self.messages,
            self.resources,
            self.snapshots,
            self.notifications,
            self.thread_state,
            self.background_tasks,
            self.schedules,
            self.schedule_triggers,
        )

    def own(self) -> Iterator[Table]:
        """Tables of ours."""
        yield from (self.claims, self.fences, self.versions)


def column_kind(column: Column[object]) -> ColumnKind:
    """What the column holds."""
    return ColumnKind(column.info["kind"])


def data_columns(table: Table) -> list[Column[Any]]:
    """The columns that hold something of their own, in the order of the table."""
    return [column for column in table.columns if column_kind(column) is not ColumnKind.TWIN]


def twin_name(name: str) -> str:
    """The name of a time column's twin."""
    return f"{name}Z"


TEXT, INTEGER, JSON, TIME, TWIN = ColumnKind

#: Names of the tables that no peer knows.
_OWN = frozenset({names.NOTIFICATION_CLAIMS, names.FENCES, names.SCHEMA_VERSIONS})

#: name, kind, required
_Column = tuple[str, ColumnKind, bool]


@lru_cache(maxsize=16)
def build_tables(prefix: str = "", *, schema: str | None = None, twins: bool = False) -> Tables:
    """
    The tables, their names behind a prefix; without one peers find them, too.

    Store and bus of one application get the same ones: nobody changes them.

    Args:
        prefix: In front of every name.
        schema: Schema of all tables, where a database has schemas.
        twins: Whether each time column of a shared table has a twin, at the table's end.
    """
    metadata = MetaData(schema=schema)

    def table(name: str, columns: Sequence[_Column], key: Sequence[str] = ()) -> Table:
        doubled = [c for c, kind, _ in columns if kind is TIME] if name not in _OWN else []
        all_columns = [*columns, *((twin_name(c), TWIN, False) for c in doubled if twins)]
        return Table(
            prefix + name,
            metadata,
            *(
                Column(
                    column,
                    BigInteger() if kind is INTEGER else Text(),
                    nullable=not required,
                    primary_key=column in key,
                    autoincrement=False,
                    info={"kind": kind.value, "table": name},
                )
                for column, kind, required in all_columns
            ),
        )

    return Tables(
        metadata=metadata,
        threads=table(names.THREADS, _THREADS, ("id",)),
        messages=table(names.MESSAGES, _MESSAGES, ("id",)),
        resources=table(names.RESOURCES, _RESOURCES, ("id",)),
        snapshots=table(names.WORKFLOW_SNAPSHOTS, _SNAPSHOTS),
        notifications=table(names.NOTIFICATIONS, _NOTIFICATIONS),
        thread_state=table(names.THREAD_STATE, _THREAD_STATE, ("threadId", "type")),
        background_tasks=table(names.BACKGROUND_TASKS, _BACKGROUND_TASKS, ("id",)),
        schedules=table(names.SCHEDULES, _SCHEDULES, ("id",)),
        schedule_triggers=table(names.SCHEDULE_TRIGGERS, _SCHEDULE_TRIGGERS, ("id",)),
        claims=table(names.NOTIFICATION_CLAIMS, _CLAIMS, ("threadId", "notificationId")),
        fences=table(names.FENCES, _FENCES, ("key",)),
        versions=table(names.SCHEMA_VERSIONS, _VERSIONS, ("component",)),
    )


_THREADS: Sequence[_Column] = (
    ("id", TEXT, True),
    ("resourceId", TEXT, True),
    ("title", TEXT, True),
    ("metadata", JSON, False),
    ("createdAt", TIME, True),
    ("updatedAt", TIME, True),
)

_MESSAGES: Sequence[_Column] = (
    ("id", TEXT, True),
    ("thread_id", TEXT, True),
    # JSON as plain text, in every database (streaming.md 10.5).
    ("content", TEXT, True),
    ("role", TEXT, True),
    ("type", TEXT, True),
    ("createdAt", TIME, True),
    ("resourceId", TEXT, False),
)

_RESOURCES: Sequence[_Column] = (
    ("id", TEXT, True),
    ("workingMemory", TEXT, False),
    ("metadata", JSON, False),
    ("createdAt", TIME, True),
    ("updatedAt", TIME, True),
)

_SNAPSHOTS: Sequence[_Column] = (
    ("workflow_name", TEXT, False),
    ("run_id", TEXT, False),
    ("resourceId", TEXT, False),
    ("snapshot", JSON, False),
    ("createdAt", TIME, False),
    ("updatedAt", TIME, False),
)

_NOTIFICATIONS: Sequence[_Column] = (
    ("id", TEXT, True),
    ("threadId", TEXT, True),
    ("source", TEXT, True),
    ("kind", TEXT, True),
    ("priority", TEXT, True),
    ("status", TEXT, True),
    ("summary", TEXT, True),
    ("payload", JSON, False),
    ("resourceId", TEXT, False),
    ("agentId", TEXT, False),
    ("sourceId", TEXT, False),
    ("dedupeKey", TEXT, False),
    ("coalesceKey", TEXT, False),
    ("coalescedCount", INTEGER, True),
    ("attributes", JSON, False),
    ("createdAt", TIME, True),
    ("updatedAt", TIME, True),
    ("deliveredAt", TIME, False),
    ("seenAt", TIME, False),
    ("dismissedAt", TIME, False),
    ("archivedAt", TIME, False),
    ("discardedAt", TIME, False),
    ("deliverAt", TIME, False),
    ("summaryAt", TIME, False),
    ("deliveryReason", TEXT, False),
    ("deliveryAttempts", INTEGER, True),
    ("lastDeliveryAttemptAt", TIME, False),
    ("lastDeliveryError", TEXT, False),
    ("deliveredSignalId", TEXT, False),
    ("summarySignalId", TEXT, False),
    ("metadata", JSON, False),
)

_THREAD_STATE: Sequence[_Column] = (
    ("threadId", TEXT, True),
    ("type", TEXT, True),
    ("value", JSON, True),
    ("createdAt", TIME, True),
    ("updatedAt", TIME, True),
)

_BACKGROUND_TASKS: Sequence[_Column] = (
    ("id", TEXT, True),
    ("tool_call_id", TEXT, True),
    ("tool_name", TEXT, True),
    ("agent_id", TEXT, True),
    ("run_id", TEXT, True),
    ("thread_id", TEXT, False),
    ("resource_id", TEXT, False),
    ("status", TEXT, True),
    ("args", JSON, True),
    ("result", JSON, False),
    ("error", JSON, False),
    ("suspend_payload", JSON, False),
    ("retry_count", INTEGER, True),
    ("max_retries", INTEGER, True),
    ("timeout_ms", INTEGER, True),
    ("createdAt", TIME, True),
    ("startedAt", TIME, False),
    ("suspendedAt", TIME, False),
    ("completedAt", TIME, False),
)

_SCHEDULES: Sequence[_Column] = (
    ("id", TEXT, True),
    ("target", JSON, True),
    ("cron", TEXT, True),
    ("timezone", TEXT, False),
    ("status", TEXT, True),
    ("next_fire_at", INTEGER, True),
    ("last_fire_at", INTEGER, False),
    ("last_run_id", TEXT, False),
    ("created_at", INTEGER, True),
    ("updated_at", INTEGER, True),
    ("metadata", JSON, False),
    ("owner_type", TEXT, False),
    ("owner_id", TEXT, False),
)

_SCHEDULE_TRIGGERS: Sequence[_Column] = (
    ("id", TEXT, True),
    ("schedule_id", TEXT, True),
    ("run_id", TEXT, False),
    ("scheduled_fire_at", INTEGER, True),
    ("actual_fire_at", INTEGER, True),
    ("outcome", TEXT, True),
    ("error", TEXT, False),
    ("trigger_kind", TEXT, True),
    ("parent_trigger_id", TEXT, False),
    ("metadata", JSON, False),
)

# One row per notification that was ever claimed, guarded or accepted; see
# ``rules.notification_claims.Sidecar`` for what the members mean.
_CLAIMS: Sequence[_Column] = (
    ("threadId", TEXT, True),
    ("notificationId", TEXT, True),
    ("token", INTEGER, True),
    ("generation", INTEGER, True),
    ("owner", TEXT, False),
    ("expiresAt", TIME, False),
    ("fullDue", INTEGER, True),
    ("summaryDue", INTEGER, True),
    ("originalDeliverAt", TIME, False),
    ("originalSummaryAt", TIME, False),
    ("claimedCount", INTEGER, True),
    ("guardAt", TIME, False),
    ("mergedGuardAt", TIME, False),
    ("acceptedSignalId", TEXT, False),
    ("acceptedAt", TIME, False),
)

# Kept for ever: a row is smaller than the thread that it belongs to.
_FENCES: Sequence[_Column] = (
    ("key", TEXT, True),
    ("token", INTEGER, True),
    ("updatedAt", TIME, True),
)

_VERSIONS: Sequence[_Column] = (
    ("component", TEXT, True),
    ("version", INTEGER, True),
    ("updatedAt", TIME, True),
)
