"""The objects that a bus and leases need in a PostgreSQL database, and bringing them there.

They are created when the role is first used, behind the same lock and by the same rules as the
tables of the store (``migrate``): only what is missing, nothing dropped, a newer version
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Column, Table

from mastra_core.rules.migrations import MigrationPlan, too_new
from mastra_postgres.dialect import advisory_key, array_text
from mastra_postgres.errors import error_id
from mastra_postgres.schema import Index, index_sql, quoted, shortened, table_name, table_sql
from mastra_sql.bus import BusTables, build_bus_tables
from mastra_sql.executor import Program, Step
from mastra_sql.lease import LeaseTables, build_lease_tables
from mastra_sql.statement import plain
from mastra_sql.tables import ColumnKind, build_tables, column_kind

__all__ = ("BUS", "LEASE", "BusSchema", "Part", "bus_migration", "plan_of_parts")

#: Rows of ``mastra_py_schema``, and the versions that this package knows.
LEASE: Final = ("lease", 1)
BUS: Final = ("bus", 1)

_TYPES: Final = {
    ColumnKind.TEXT: "text",
    ColumnKind.INTEGER: "bigint",
    ColumnKind.TIME: "timestamp with time zone",
}
_LOCK: Final = plain(
    "SELECT pg_advisory_xact_lock($1::bigint)", parameters=("key",), columns=("locked",)
)
_HAS_SCHEMA: Final = plain(
    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)",
    parameters=("schema",),
    columns=("found",),
)
_OBJECTS: Final = plain(
    "SELECT c.relname::text FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1 AND c.relname = ANY ($2::text[])",
    parameters=("schema", "names"),
    columns=("name",),
)


@dataclass(frozen=True, slots=True)
class Part:
    """Tables and indexes that belong together and have one version."""

    component: str
    version: int
    tables: tuple[Table, ...]
    indexes: tuple[Index, ...]


class BusSchema:
    """The tables of a bus and of leases in one schema, behind one prefix."""

    def __init__(self, schema: str, prefix: str = "") -> None:
        self.name = schema
        self.prefix = prefix
        self.bus: BusTables = build_bus_tables(prefix, schema=schema)
        self.lease: LeaseTables = build_lease_tables(prefix, schema=schema)
        self.versions: Table = build_tables(prefix, schema=schema, twins=True).versions

    def lease_parts(self) -> tuple[Part, ...]:
        """What leases need."""
        return (Part(*LEASE, tuple(self.lease.own()), ()),)

    def bus_parts(self) -> tuple[Part, ...]:
        """What a bus needs; its publishes check fences, so leases are part of it."""
        return (*self.lease_parts(), Part(*BUS, tuple(self.bus.own()), tuple(self._indexes())))

    def _indexes(self) -> Iterator[Index]:
        def index(name: str, table: Table, keys: str, *, unique: bool = False) -> Index:
            return Index(
                name=shortened(f"{self.prefix}{name}"), table=table, keys=keys, unique=unique
            )

        # Every statement names its topic.
        yield index("mastra_pubsub_topics_topic", self.bus.topics, '"topic"', unique=True)
        # A publish that is repeated is stored once.
        keys = '"topicId", "epoch", "eventId"'
        yield index("mastra_pubsub_events_id", self.bus.events, keys, unique=True)
        # What a group can claim again.
        keys = '"topicId", "group", "visibleAt"'
        yield index("mastra_pubsub_pending_visible", self.bus.pending, keys)
        yield index("mastra_pubsub_dead_topic", self.bus.dead, '"topic", "deadAt"')


def bus_migration(
    schema: BusSchema, parts: Sequence[Part], *, apply: bool
) -> Program[MigrationPlan]:
    """
    Look what is missing and, if told so, add it; one transaction.

    Raises:
        StorageSchemaError: The database is too new.
    """
    if apply:
        # Others that start now wait here, and then find nothing to do.
        key = advisory_key("mastra_postgres.migrate", schema.name, schema.prefix)
        yield (Step(_LOCK, (key,)),)
    names = [table.name for part in parts for table in part.tables]
    names += [index.name for part in parts for index in part.indexes]
    names.append(schema.versions.name)
    [[(has_schema,)], object_rows] = yield (
        Step(_HAS_SCHEMA, (schema.name,)),
        Step(_OBJECTS, (schema.name, array_text(names))),
    )
    objects = frozenset(name for (name,) in object_rows)
    found: dict[str, int] = {}
    if schema.versions.name in objects:
        sql = f"SELECT component, version FROM {table_name(schema.versions)}"  # noqa: S608 - a name of ours
        [rows] = yield (Step(plain(sql, columns=("component", "version"))),)
        found = dict(rows)
    plan = plan_of_parts(schema, parts, objects=objects, found=found, has_schema=bool(has_schema))
    if plan and apply:
        yield [Step(plain(sql, writes=True)) for sql in plan.statements]
    return plan


def plan_of_parts(
    schema: BusSchema,
    parts: Sequence[Part],
    *,
    objects: frozenset[str] = frozenset(),
    found: dict[str, int] | None = None,
    has_schema: bool = False,
) -> MigrationPlan:
    """The statements that are needed, in order; everything for an empty database."""
    found = found or {}
    statements: list[str] = []
    if not has_schema and schema.name != "public":
        statements.append(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema.name)}")
    if schema.versions.name not in objects:
        statements.append(table_sql(schema.versions))
    for part in parts:
        known = found.get(part.component, 0)
        if known > part.version:
            raise too_new(
                "The database",
                part.component,
                found=known,
                known=part.version,
                package="mastra-postgres",
                error_id=error_id("init"),
            )
        statements += [_table_sql(one) for one in part.tables if one.name not in objects]
        statements += [index_sql(one) for one in part.indexes if one.name not in objects]
        if known < part.version:
            statements.append(
                f"INSERT INTO {table_name(schema.versions)} "  # noqa: S608 - names of ours
                f"(component, version, \"updatedAt\") VALUES ('{part.component}', {part.version}, "
                "now()) ON CONFLICT (component) DO UPDATE SET "
                'version = excluded.version, "updatedAt" = excluded."updatedAt"'
            )
    last = parts[-1]
    return MigrationPlan(
        found_version=found.get(last.component, 0),
        target_version=last.version,
        statements=tuple(statements),
    )


def _table_sql(table: Table) -> str:
    lines = [_column_sql(table, column) for column in table.columns]
    key = ", ".join(quoted(column.name) for column in table.primary_key.columns)
    body = ",\n  ".join([*lines, f"PRIMARY KEY ({key})"])
    return f"CREATE TABLE IF NOT EXISTS {table_name(table)} (\n  {body}\n)"


def _column_sql(table: Table, column: Column[Any]) -> str:
    words = [quoted(column.name), _TYPES[column_kind(column)]]
    if list(table.primary_key.columns) == [column] and column.name == "topicId":
        words.append("GENERATED BY DEFAULT AS IDENTITY")
    elif not column.nullable:
        words.append("NOT NULL")
    return " ".join(words)
