"""The objects of a PostgreSQL database: shared tables as Node creates them, and ours.

Every additive index names the query that needs it; an index that no query needs isn't here,
because each one costs every write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Column, Table

from mastra_core.wire import tables as names
from mastra_postgres.dialect import true_twin
from mastra_sql.schema import Index, Needs
from mastra_sql.statements.workflows import (
    OWNER_PATHS,
    RESOURCE_PATHS,
    STREAM_STATE_PATH,
    THREAD_PATHS,
)
from mastra_sql.tables import ColumnKind, Tables, column_kind

__all__ = (
    "COMPONENT",
    "SCHEMA_VERSION",
    "column_sql",
    "column_type",
    "index_sql",
    "indexes",
    "more_sql",
    "quoted",
    "retention_index",
    "shortened",
    "table_name",
    "table_sql",
)

COMPONENT: Final = "storage"
"""Row of ``mastra_py_schema`` that says which version of this module a database holds."""

SCHEMA_VERSION: Final = 1
"""Raised with every change here that an older version of this package can't work with."""

#: PostgreSQL cuts longer names in silence.
_LONGEST_NAME: Final = 63

#: Tables whose numbers are times in milliseconds.
_BIG_NUMBERS: Final = frozenset({names.SCHEDULES, names.SCHEDULE_TRIGGERS})
#: Columns that are NOT NULL here, other than in libSQL (snapshots.md 13.3).
_REQUIRED_SNAPSHOT: Final = frozenset(
    {"workflow_name", "run_id", "snapshot", "createdAt", "updatedAt"}
)


# -- names ------------------------------------------------------------------------------------


def quoted(name: str) -> str:
    """A name as it stands in SQL text."""
    return f'"{name}"'


def table_name(table: Table) -> str:
    """A table's full name in SQL text."""
    return f"{quoted(table.schema or 'public')}.{quoted(table.name)}"


def shortened(name: str) -> str:
    """A name that PostgreSQL doesn't cut; made as Node makes it (snapshots.md 13.3)."""
    if len(name.encode()) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{digest}"


# -- tables -----------------------------------------------------------------------------------


def table_sql(table: Table, *, compression: str = "") -> str:
    """Create a table if it is missing, laid out as Node does."""
    lines = [column_sql(column, compression=compression) for column in table.columns]
    key = [quoted(column.name) for column in table.primary_key.columns]
    if key:
        lines.append(f"PRIMARY KEY ({', '.join(key)})")
    if _kind_of(table) == names.WORKFLOW_SNAPSHOTS:
        lines.append(f"CONSTRAINT {quoted(_snapshot_key(table))} UNIQUE (workflow_name, run_id)")
    body = ",\n  ".join(lines)
    return f"CREATE TABLE IF NOT EXISTS {table_name(table)} (\n  {body}\n)"


def more_sql(table: Table) -> Iterator[str]:
    """What Node sets on a new table besides."""
    if _kind_of(table) == names.WORKFLOW_SNAPSHOTS:
        key = quoted(_snapshot_key(table))
        yield f"ALTER TABLE {table_name(table)} REPLICA IDENTITY USING INDEX {key}"


def column_sql(column: Column[Any], *, added: bool = False, compression: str = "") -> str:
    """
    Name, type and constraint of one column.

    Args:
        column: Which.
        added: For a table that has rows already, where NOT NULL would need a default.
        compression: Method for large documents, if it isn't the server's default.
    """
    table = _kind_of(column.table)
    words = [quoted(column.name), column_type(column).upper()]
    if compression and (table, column.name) == (names.WORKFLOW_SNAPSHOTS, "snapshot"):
        words.append(f"COMPRESSION {compression}")
    if column_kind(column) is ColumnKind.TWIN:
        words.append("DEFAULT NOW()")
    required = not column.nullable or (
        table == names.WORKFLOW_SNAPSHOTS and column.name in _REQUIRED_SNAPSHOT
    )
    if required and not added:
        words.append("NOT NULL")
    return " ".join(words)


def column_type(column: Column[Any]) -> str:
    """The type of a column, as the catalogue spells it."""
    match column_kind(column):
        case ColumnKind.TEXT:
            return "text"
        case ColumnKind.INTEGER:
            table = _kind_of(column.table)
            is_big = table in _BIG_NUMBERS or table.startswith("mastra_py_")
            return "bigint" if is_big else "integer"
        case ColumnKind.JSON:
            return "jsonb"
        case ColumnKind.TIME:
            # Only tables of ours have times without twins.
            is_shared = f"{column.name}Z" in column.table.columns
            return f"timestamp {'without' if is_shared else 'with'} time zone"
        case ColumnKind.TWIN:
            return "timestamp with time zone"


def _kind_of(table: Any) -> str:
    """Which of the tables it is, whatever its prefix."""
    return str(next(iter(table.columns)).info["table"])


def _snapshot_key(table: Table) -> str:
    """The unique constraint of snapshots, named as Node names it."""
    name = f"{table.schema or 'public'}_{table.name}_workflow_name_run_id_key"
    return name.lower()[:_LONGEST_NAME]


# -- indexes ----------------------------------------------------------------------------------


def indexes(tables: Tables, prefix: str = "") -> Iterator[Index]:
    """Every index that should be there; which ones can be is decided by their needs."""
    yield from _node_indexes(tables, prefix)
    yield from _memory_indexes(tables, prefix)
    yield from _notification_indexes(tables, prefix)
    yield from _snapshot_indexes(tables, prefix)


def _node_indexes(tables: Tables, prefix: str) -> Iterator[Index]:
    """What the TypeScript store creates."""
    schema = tables.threads.schema or "public"
    lead = "" if schema == "public" else f"{schema}_"

    def index(name: str, table: Table, keys: str) -> Index:
        return Index(name=shortened(f"{lead}{prefix}{name}"), table=table, keys=keys, shared=True)

    threads, messages, snapshots = tables.threads, tables.messages, tables.snapshots
    tasks, inbox = tables.background_tasks, tables.notifications
    yield index(
        "mastra_threads_resourceid_createdat_idx", threads, '"resourceId", "createdAt" DESC'
    )
    yield index("mastra_messages_thread_id_createdat_idx", messages, 'thread_id, "createdAt" DESC')
    yield index("mastra_bg_tasks_status_created_at_idx", tasks, 'status, "createdAt"')
    yield index("mastra_bg_tasks_agent_status_idx", tasks, "agent_id, status")
    yield index("mastra_bg_tasks_thread_idx", tasks, 'thread_id, "createdAt"')
    yield index("mastra_bg_tasks_tool_call_idx", tasks, "tool_call_id")
    yield index("idx_mastra_schedules_status_next_fire", tables.schedules, "status, next_fire_at")
    yield index(
        "idx_mastra_schedule_triggers_schedule_fire",
        tables.schedule_triggers,
        "schedule_id, actual_fire_at DESC",
    )
    yield index("idx_notifications_thread_status_updated", inbox, '"threadId", status, "updatedAt"')
    yield index(
        "idx_notifications_coalescing",
        inbox,
        '"threadId", source, kind, status, "agentId", "resourceId", "dedupeKey", "coalesceKey"',
    )
    yield index("idx_notifications_due", inbox, 'status, "deliverAt", "summaryAt"')
    yield index(
        "mastra_workflow_snapshot_name_createdat_idx",
        snapshots,
        'workflow_name, "createdAt" DESC',
    )
    yield index(
        "mastra_workflow_snapshot_name_status_createdat_idx",
        snapshots,
        "workflow_name, (snapshot ->> 'status'), \"createdAt\" DESC",
    )
    yield index("mastra_workflow_snapshot_threadid_idx", snapshots, f"({_NODE_THREAD})")


#: Node's queries use the same text.
_NODE_THREAD: Final = (
    "COALESCE(jsonb_path_query_first(snapshot, "
    '\'$."context".* ? (@."status" == "suspended")."suspendPayload"."__streamState"'
    '."messageList"."memoryInfo"."threadId"\') #>> \'{}\', '
    "snapshot #>> '{context,input,messageListState,memoryInfo,threadId}')"
)


def _memory_indexes(tables: Tables, prefix: str) -> Iterator[Index]:
    # list_threads: one resource's threads, newest first.
    yield Index(
        name=shortened(f"{prefix}mpy_threads_resource_idx"),
        table=tables.threads,
        keys='"resourceId", "createdAtZ" DESC, id DESC',
    )
    # list_messages: a page of the history of a thread, in either direction.
    yield Index(
        name=shortened(f"{prefix}mpy_messages_thread_idx"),
        table=tables.messages,
        keys='thread_id, "createdAtZ", id',
    )
    # list_messages_by_resource_id: across threads.
    yield Index(
        name=shortened(f"{prefix}mpy_messages_resource_idx"),
        table=tables.messages,
        keys='"resourceId", "createdAtZ", id',
    )


def _notification_indexes(tables: Tables, prefix: str) -> Iterator[Index]:
    table = tables.notifications
    # get, update, mark and every claim: the identity that no constraint guards.
    yield Index(
        name=shortened(f"{prefix}mpy_notifications_identity"),
        table=table,
        keys='"threadId", id',
        unique=True,
        needs=Needs.NO_DUPLICATES,
    )
    yield Index(
        name=shortened(f"{prefix}mpy_notifications_pair_idx"),
        table=table,
        keys='"threadId", id',
        needs=Needs.DUPLICATES,
    )
    # list_notifications: a page of the inbox in its order, whatever the statuses.
    yield Index(
        name=shortened(f"{prefix}mpy_notifications_inbox_idx"),
        table=table,
        keys='"threadId", "updatedAt" DESC, "createdAtZ" DESC, id',
    )
    # list_due_notifications and claim_due: by the earlier of both times, few rows at a time.
    yield Index(
        name=shortened(f"{prefix}mpy_notifications_due_idx"),
        table=table,
        keys='LEAST("deliverAt", "summaryAt"), "updatedAt", id',
        where='status = \'pending\' AND ("deliverAt" IS NOT NULL OR "summaryAt" IS NOT NULL)',
    )
    # claim_unconfirmed.
    yield Index(
        name=shortened(f"{prefix}mpy_claims_accepted_idx"),
        table=tables.claims,
        keys='"acceptedAt"',
        where='"acceptedSignalId" IS NOT NULL',
    )


def _snapshot_indexes(tables: Tables, prefix: str) -> Iterator[Index]:
    table = tables.snapshots
    suspended = "(snapshot ->> 'status') = 'suspended'"
    owner = f"coalesce({', '.join(_member(path) for path in OWNER_PATHS)})"
    thread = _memory(THREAD_PATHS)
    resource = f'coalesce("resourceId", {_memory(RESOURCE_PATHS)})'
    rest = '"createdAtZ" DESC, run_id DESC'
    # list_suspended_runs.
    yield Index(
        name=shortened(f"{prefix}mpy_wf_suspended_idx"),
        table=table,
        keys=f"workflow_name, {owner}, {rest}",
        where=suspended,
    )
    # list_suspended_runs of one resource.
    yield Index(
        name=shortened(f"{prefix}mpy_wf_suspended_res_idx"),
        table=table,
        keys=f"workflow_name, {resource}, {owner}, {rest}",
        where=suspended,
    )
    # list_suspended_runs of one thread.
    yield Index(
        name=shortened(f"{prefix}mpy_wf_suspended_thread_idx"),
        table=table,
        keys=f"workflow_name, {thread}, {owner}, {rest}",
        where=suspended,
    )
    # recover_expired_claims: rows that somebody is resuming right now.
    expires_at = "snapshot #>> '{resumeClaim,expiresAt}'"
    yield Index(
        name=shortened(f"{prefix}mpy_wf_claimed_idx"),
        table=table,
        keys=f"({expires_at})",
        where=f"({expires_at}) IS NOT NULL",
    )
    # list_workflow_runs of one workflow.
    yield Index(
        name=shortened(f"{prefix}mpy_wf_created_idx"),
        table=table,
        keys='workflow_name, "createdAtZ" DESC, run_id DESC',
    )
    # get_workflow_run_by_id without a name.
    yield Index(
        name=shortened(f"{prefix}mpy_wf_run_idx"),
        table=table,
        keys='run_id, "createdAtZ" DESC',
    )


def _member(path: tuple[str, ...]) -> str:
    return f"snapshot #>> '{{{','.join(path)}}}'"


def _memory(paths: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    regular, durable = (_member(path) for path in paths)
    state = f"snapshot #> '{{{','.join(STREAM_STATE_PATH)}}}'"
    return f"(CASE WHEN (({state}) IS NOT NULL) THEN {regular} ELSE {durable} END)"


def index_sql(index: Index) -> str:
    """Create an index if it is missing."""
    unique = "UNIQUE " if index.unique else ""
    where = f" WHERE {index.where}" if index.where else ""
    return (
        f"CREATE {unique}INDEX IF NOT EXISTS {quoted(index.name)} "
        f"ON {table_name(index.table)} ({index.keys}){where}"
    )


def retention_index(table: Table, column: str) -> str:
    """The index of a table that is pruned by this column; named as Node names it."""
    lead = "" if (table.schema or "public") == "public" else f"{table.schema}_"
    twin = true_twin(table.columns[column])
    compared = column if twin is None else str(twin.key)
    name = shortened(f"{lead}{table.name}_retention_idx")
    return f"CREATE INDEX IF NOT EXISTS {quoted(name)} ON {table_name(table)} ({quoted(compared)})"
