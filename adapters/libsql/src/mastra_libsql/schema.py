"""The objects of a libSQL database: shared tables as Node creates them, and additions of ours.

Every additive index names the query that needs it; an index that no query needs isn't here,
because each one costs every write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Table

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
    "index_sql",
    "indexes",
    "retention_index",
    "table_sql",
)

COMPONENT: Final = "storage"
"""Row of ``mastra_py_schema`` that says which version of this module a database holds."""

SCHEMA_VERSION: Final = 1
"""Raised with every change here that an older version of this package can't work with."""


# -- tables -----------------------------------------------------------------------------------


def table_sql(table: Table) -> str:
    """Create a table if it is missing, laid out as Node does."""
    columns = [column_sql(table, column.name) for column in table.columns]
    key = [column.name for column in table.primary_key.columns]
    lines = list(columns)
    if len(key) == 1:
        lines = [f"{line} PRIMARY KEY" if _names(line, key[0]) else line for line in lines]
    elif key:
        lines.append(f"PRIMARY KEY ({', '.join(_quoted(name) for name in key)})")
    if {"workflow_name", "run_id"} <= {column.name for column in table.columns}:
        lines.append("UNIQUE (workflow_name, run_id)")
    body = ",\n  ".join(lines)
    return f"CREATE TABLE IF NOT EXISTS {table.name} (\n  {body}\n)"


def column_sql(table: Table, name: str, *, added: bool = False) -> str:
    """
    Name, type and constraint of one column.

    ``added``: for a table that has rows already, where NOT NULL would need a default.
    """
    column = table.columns[name]
    kind = "INTEGER" if column_kind(column) is ColumnKind.INTEGER else "TEXT"
    required = " NOT NULL" if not column.nullable and not added else ""
    return f"{_quoted(name)} {kind}{required}"


def _names(line: str, name: str) -> bool:
    return line.startswith(_quoted(name) + " ")


def _quoted(name: str) -> str:
    return f'"{name}"'


# -- indexes ----------------------------------------------------------------------------------


def indexes(tables: Tables, prefix: str = "") -> Iterator[Index]:
    """Every index that should be there; which ones can be is decided by their needs."""
    yield from _node_indexes(tables, prefix)
    yield from _memory_indexes(tables, prefix)
    yield from _notification_indexes(tables, prefix)
    yield from _snapshot_indexes(tables, prefix)


def _node_indexes(tables: Tables, prefix: str) -> Iterator[Index]:
    """What the TypeScript store creates."""

    def index(name: str, table: Table, *keys: str) -> Index:
        quoted = ", ".join(_quoted(key) for key in keys)
        return Index(name=prefix + name, table=table, keys=quoted, shared=True)

    yield index("idx_messages_thread_created_at", tables.messages, "thread_id", "createdAt")
    yield index(
        "idx_messages_thread_resource_created_at",
        tables.messages,
        "thread_id",
        "resourceId",
        "createdAt",
    )
    yield index("idx_schedules_status_next_fire", tables.schedules, "status", "next_fire_at")
    yield index(
        "idx_schedule_triggers_schedule_fire",
        tables.schedule_triggers,
        "schedule_id",
        "actual_fire_at",
    )
    inbox = tables.notifications
    yield index("idx_notifications_thread_status_updated", inbox, "threadId", "status", "updatedAt")
    yield index(
        "idx_notifications_coalescing",
        inbox,
        "threadId",
        "source",
        "kind",
        "status",
        "agentId",
        "resourceId",
        "dedupeKey",
        "coalesceKey",
    )
    yield index("idx_notifications_due", inbox, "status", "deliverAt", "summaryAt")


def _memory_indexes(tables: Tables, prefix: str) -> Iterator[Index]:
    # list_threads: one resource's threads, newest first.
    yield Index(
        name=f"{prefix}mpy_threads_resource_idx",
        table=tables.threads,
        keys='"resourceId", "createdAt" DESC, "id" DESC',
    )
    # list_messages_by_resource_id: across threads.
    yield Index(
        name=f"{prefix}mpy_messages_resource_idx",
        table=tables.messages,
        keys='"resourceId", "createdAt", "id"',
    )
    # list_tasks and get_running_count: few tasks are in a status that anybody asks for.
    yield Index(
        name=f"{prefix}mpy_tasks_status_idx",
        table=tables.background_tasks,
        keys='"status", "agent_id", "createdAt"',
    )


def _notification_indexes(tables: Tables, prefix: str) -> Iterator[Index]:
    table = tables.notifications
    # get, update, mark and every claim: the identity that no constraint guards.
    yield Index(
        name=f"{prefix}mpy_notifications_identity",
        table=table,
        keys='"threadId", "id"',
        unique=True,
        needs=Needs.NO_DUPLICATES,
    )
    yield Index(
        name=f"{prefix}mpy_notifications_pair_idx",
        table=table,
        keys='"threadId", "id"',
        needs=Needs.DUPLICATES,
    )
    # list_notifications: a page of the inbox in its order, whatever the statuses.
    yield Index(
        name=f"{prefix}mpy_notifications_inbox_idx",
        table=table,
        keys='"threadId", "updatedAt" DESC, "createdAt" DESC, "id"',
    )
    # list_due_notifications and claim_due: by the earlier of both times, few rows at a time.
    yield Index(
        name=f"{prefix}mpy_notifications_due_idx",
        table=table,
        keys=(
            '"status", min(coalesce("deliverAt", "summaryAt"), '
            'coalesce("summaryAt", "deliverAt")), "updatedAt", "id"'
        ),
        where=('"status" = \'pending\' AND ("deliverAt" IS NOT NULL OR "summaryAt" IS NOT NULL)'),
    )
    # claim_unconfirmed.
    yield Index(
        name=f"{prefix}mpy_claims_accepted_idx",
        table=tables.claims,
        keys='"acceptedAt"',
        where='"acceptedSignalId" IS NOT NULL',
    )


def _snapshot_indexes(tables: Tables, prefix: str) -> Iterator[Index]:
    table = tables.snapshots
    status = _member("status")
    suspended = f"{status} = 'suspended'"
    owner = f"coalesce({', '.join(_member(*path) for path in OWNER_PATHS)})"
    thread = _memory(THREAD_PATHS)
    resource = f'coalesce("resourceId", {_memory(RESOURCE_PATHS)})'
    # The last keys aren't for finding rows: with them a count needs the index alone.
    rest = f'"createdAt" DESC, "run_id" DESC, {resource}, {status}'
    # list_suspended_runs.
    yield Index(
        name=f"{prefix}mpy_wf_suspended_idx",
        table=table,
        keys=f'"workflow_name", {owner}, {rest}',
        where=suspended,
        needs=Needs.VALID_SNAPSHOTS,
    )
    # list_suspended_runs of one thread.
    yield Index(
        name=f"{prefix}mpy_wf_suspended_thread_idx",
        table=table,
        keys=f'"workflow_name", {owner}, {thread}, {rest}',
        where=suspended,
        needs=Needs.VALID_SNAPSHOTS,
    )
    # list_workflow_runs by status, and Node's list of suspended runs.
    yield Index(
        name=f"{prefix}mpy_wf_status_idx",
        table=table,
        keys=f'"workflow_name", {status}, "createdAt" DESC, "run_id" DESC',
        needs=Needs.VALID_SNAPSHOTS,
    )
    # recover_expired_claims: rows that somebody is resuming right now.
    expires_at = _member("resumeClaim", "expiresAt")
    yield Index(
        name=f"{prefix}mpy_wf_claimed_idx",
        table=table,
        keys=expires_at,
        where=f"{expires_at} IS NOT NULL",
        needs=Needs.VALID_SNAPSHOTS,
    )
    # list_workflow_runs of one workflow; get_workflow_run_by_id without a name.
    yield Index(
        name=f"{prefix}mpy_wf_created_idx",
        table=table,
        keys='"workflow_name", "createdAt" DESC, "run_id" DESC',
    )
    yield Index(name=f"{prefix}mpy_wf_run_idx", table=table, keys='"run_id", "createdAt" DESC')


def _member(*path: str) -> str:
    return 'json_extract("snapshot", \'$' + "".join(f".{name}" for name in path) + "')"


def _memory(paths: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    regular, durable = (_member(*path) for path in paths)
    state = "$" + "".join(f".{name}" for name in STREAM_STATE_PATH)
    return (
        f"CASE WHEN json_type(\"snapshot\", '{state}') IS NOT NULL "
        f"THEN {regular} ELSE {durable} END"
    )


def index_sql(index: Index) -> str:
    """Create an index if it is missing."""
    unique = "UNIQUE " if index.unique else ""
    where = f" WHERE {index.where}" if index.where else ""
    return (
        f"CREATE {unique}INDEX IF NOT EXISTS {_quoted(index.name)} "
        f"ON {_quoted(index.table.name)} ({index.keys}){where}"
    )


def retention_index(table: str, column: str) -> str:
    """The index of a table that is pruned by this column; named as Node names it."""
    return (
        f"CREATE INDEX IF NOT EXISTS {_quoted(f'idx_retention_{table}_{column}')} "
        f"ON {_quoted(table)} ({_quoted(column)})"
    )
