"""The tables of the six domains, as SQLAlchemy metadata.

Names, order and kinds of the columns are those that the TypeScript system creates
(streaming.md 8.10, 10.5, snapshots.md 13, notifications.md 14); a table of ours starts with
``mastra_py_``. How a kind is stored is the dialect's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import BigInteger, Column, MetaData, Table, Text

from mastra_core.wire import tables as names

__all__ = ("ColumnKind", "Tables", "build_tables", "column_kind")


class ColumnKind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    INTEGER = "integer"
    #: A value in the database's own JSON form.
    JSON = "json"
    #: An instant.
    TIME = "time"


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
        yield from (self.claims, self.versions)


def column_kind(column: Column[object]) -> ColumnKind:
    """What the column holds."""
    return ColumnKind(column.info["kind"])


T, I, J, M = ColumnKind.TEXT, ColumnKind.INTEGER, ColumnKind.JSON, ColumnKind.TIME

#: name, kind, required
_Column = tuple[str, ColumnKind, bool]


def build_tables(prefix: str = "") -> Tables:
    """The tables, their names behind a prefix; without one peers find them, too."""
    metadata = MetaData()

    def table(name: str, columns: Sequence[_Column], key: Sequence[str] = ()) -> Table:
        return Table(
            prefix + name,
            metadata,
            *(
                Column(
                    column,
                    BigInteger() if kind is I else Text(),
                    nullable=not required,
                    primary_key=column in key,
                    autoincrement=False,
                    info={"kind": kind.value},
                )
                for column, kind, required in columns
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
        versions=table(names.SCHEMA_VERSIONS, _VERSIONS, ("component",)),
    )


_THREADS: Sequence[_Column] = (
    ("id", T, True),
    ("resourceId", T, True),
    ("title", T, True),
    ("metadata", J, False),
    ("createdAt", M, True),
    ("updatedAt", M, True),
)

_MESSAGES: Sequence[_Column] = (
    ("id", T, True),
    ("thread_id", T, True),
    # JSON as plain text, in every database (streaming.md 10.5).
    ("content", T, True),
    ("role", T, True),
    ("type", T, True),
    ("createdAt", M, True),
    ("resourceId", T, False),
)

_RESOURCES: Sequence[_Column] = (
    ("id", T, True),
    ("workingMemory", T, False),
    ("metadata", J, False),
    ("createdAt", M, True),
    ("updatedAt", M, True),
)

_SNAPSHOTS: Sequence[_Column] = (
    ("workflow_name", T, False),
    ("run_id", T, False),
    ("resourceId", T, False),
    ("snapshot", J, False),
    ("createdAt", M, False),
    ("updatedAt", M, False),
)

_NOTIFICATIONS: Sequence[_Column] = (
    ("id", T, True),
    ("threadId", T, True),
    ("source", T, True),
    ("kind", T, True),
    ("priority", T, True),
    ("status", T, True),
    ("summary", T, True),
    ("payload", J, False),
    ("resourceId", T, False),
    ("agentId", T, False),
    ("sourceId", T, False),
    ("dedupeKey", T, False),
    ("coalesceKey", T, False),
    ("coalescedCount", I, True),
    ("attributes", J, False),
    ("createdAt", M, True),
    ("updatedAt", M, True),
    ("deliveredAt", M, False),
    ("seenAt", M, False),
    ("dismissedAt", M, False),
    ("archivedAt", M, False),
    ("discardedAt", M, False),
    ("deliverAt", M, False),
    ("summaryAt", M, False),
    ("deliveryReason", T, False),
    ("deliveryAttempts", I, True),
    ("lastDeliveryAttemptAt", M, False),
    ("lastDeliveryError", T, False),
    ("deliveredSignalId", T, False),
    ("summarySignalId", T, False),
    ("metadata", J, False),
)

_THREAD_STATE: Sequence[_Column] = (
    ("threadId", T, True),
    ("type", T, True),
    ("value", J, True),
    ("createdAt", M, True),
    ("updatedAt", M, True),
)

_BACKGROUND_TASKS: Sequence[_Column] = (
    ("id", T, True),
    ("tool_call_id", T, True),
    ("tool_name", T, True),
    ("agent_id", T, True),
    ("run_id", T, True),
    ("thread_id", T, False),
    ("resource_id", T, False),
    ("status", T, True),
    ("args", J, True),
    ("result", J, False),
    ("error", J, False),
    ("suspend_payload", J, False),
    ("retry_count", I, True),
    ("max_retries", I, True),
    ("timeout_ms", I, True),
    ("createdAt", M, True),
    ("startedAt", M, False),
    ("suspendedAt", M, False),
    ("completedAt", M, False),
)

_SCHEDULES: Sequence[_Column] = (
    ("id", T, True),
    ("target", J, True),
    ("cron", T, True),
    ("timezone", T, False),
    ("status", T, True),
    ("next_fire_at", I, True),
    ("last_fire_at", I, False),
    ("last_run_id", T, False),
    ("created_at", I, True),
    ("updated_at", I, True),
    ("metadata", J, False),
    ("owner_type", T, False),
    ("owner_id", T, False),
)

_SCHEDULE_TRIGGERS: Sequence[_Column] = (
    ("id", T, True),
    ("schedule_id", T, True),
    ("run_id", T, False),
    ("scheduled_fire_at", I, True),
    ("actual_fire_at", I, True),
    ("outcome", T, True),
    ("error", T, False),
    ("trigger_kind", T, True),
    ("parent_trigger_id", T, False),
    ("metadata", J, False),
)

# One row per notification that was ever claimed, guarded or accepted; see
# ``rules.notification_claims.Sidecar`` for what the members mean.
_CLAIMS: Sequence[_Column] = (
    ("threadId", T, True),
    ("notificationId", T, True),
    ("token", I, True),
    ("generation", I, True),
    ("owner", T, False),
    ("expiresAt", M, False),
    ("fullDue", I, True),
    ("summaryDue", I, True),
    ("originalDeliverAt", M, False),
    ("originalSummaryAt", M, False),
    ("claimedCount", I, True),
    ("guardAt", M, False),
    ("mergedGuardAt", M, False),
    ("acceptedSignalId", T, False),
    ("acceptedAt", M, False),
)

_VERSIONS: Sequence[_Column] = (
    ("component", T, True),
    ("version", I, True),
    ("updatedAt", M, True),
)
