"""The objects that a bus and leases need in a PostgreSQL database, and bringing them there.

They are created when the role is first used, behind the same lock and by the same rules as the
tables of the store (``migrate``): only what is missing, nothing dropped, a newer version
refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import Column, Table

from mastra_core.rules.migrations import MigrationPlan
from mastra_postgres.dialect import advisory_key, array_text
from mastra_postgres.schema import index_sql, quoted, shortened, table_name, table_sql
from mastra_sql.bus import build_bus_tables
from mastra_sql.bus.schema import SqlBusSchema
from mastra_sql.executor import Program, Step
from mastra_sql.lease import build_lease_tables
from mastra_sql.schema import Index, Part
from mastra_sql.statement import plain
from mastra_sql.tables import ColumnKind, build_tables, column_kind

__all__ = ("BusSchema", "bus_migration")

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


class BusSchema(SqlBusSchema):
    """The tables of a bus and of leases in one schema, behind one prefix."""

    def __init__(self, schema: str, prefix: str = "") -> None:
        super().__init__(
            bus=build_bus_tables(prefix, schema=schema),
            lease=build_lease_tables(prefix, schema=schema),
            versions=build_tables(prefix, schema=schema, twins=True).versions,
            store="postgres",
        )
        self.name = schema
        self.prefix = prefix

    def create_table(self, table: Table) -> str:
        """The statement that creates a table if it is missing."""
        return table_sql(table) if table is self.versions else _table_sql(table)

    def create_index(self, index: Index) -> str:
        """The statement that creates an index if it is missing."""
        return index_sql(index)

    def remember(self, component: str, version: int) -> str:
        """The statement that writes the version of a part down."""
        return (
            f"INSERT INTO {table_name(self.versions)} "  # noqa: S608 - names of ours
            f"(component, version, \"updatedAt\") VALUES ('{component}', {version}, "
            "now()) ON CONFLICT (component) DO UPDATE SET "
            'version = excluded.version, "updatedAt" = excluded."updatedAt"'
        )

    def index_name(self, name: str) -> str:
        """The name of an index behind the prefix of the tables."""
        return shortened(f"{self.prefix}{name}")

    def plan(
        self,
        parts: Sequence[Part],
        objects: Collection[str] = (),
        found: Mapping[str, int] | None = None,
        *,
        has_schema: bool = False,
    ) -> MigrationPlan:
        """The statements that are needed; first of all the schema, if it isn't there."""
        plan = super().plan(parts, objects, found)
        if has_schema or self.name == "public":
            return plan
        first = f"CREATE SCHEMA IF NOT EXISTS {quoted(self.name)}"
        return replace(plan, statements=(first, *plan.statements))


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
    plan = schema.plan(parts, objects, found, has_schema=bool(has_schema))
    if plan and apply:
        yield [Step(plain(sql, writes=True)) for sql in plan.statements]
    return plan


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
