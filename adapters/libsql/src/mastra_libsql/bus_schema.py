"""The objects that a bus and leases need in a libSQL database, and bringing them there.

They are created when the role is first used, under the same lock and by the same rules as the
tables of the store (``migrate``): only what is missing, nothing dropped, a newer version
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import MetaData, Table

from mastra_core.rules.migrations import MigrationPlan
from mastra_libsql.migrate import check_sqlite_version
from mastra_libsql.schema import index_sql, table_sql
from mastra_sql.bus import build_bus_tables
from mastra_sql.bus.schema import LEASE, SqlBusSchema
from mastra_sql.bus.tables import make_table
from mastra_sql.executor import Program, Step
from mastra_sql.lease import build_lease_tables
from mastra_sql.schema import Index, Part
from mastra_sql.statement import plain
from mastra_sql.tables import ColumnKind, build_tables

__all__ = ("BusSchema", "bus_migration")

_SQLITE_VERSION: Final = plain("SELECT sqlite_version()", columns=("version",))


class BusSchema(SqlBusSchema):
    """The tables of a bus and of leases behind one prefix."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__(
            bus=build_bus_tables(prefix, time=ColumnKind.INTEGER),
            lease=build_lease_tables(prefix, time=ColumnKind.INTEGER),
            versions=build_tables(prefix).versions,
            store="libsql",
        )
        #: What the boot clock lacks to the time since 1970, once per start of the machine.
        self.clock: Table = make_table(
            MetaData(),
            f"{prefix}mastra_py_clock",
            (("bootId", ColumnKind.TEXT, True), ("baseUs", ColumnKind.INTEGER, True)),
            ("bootId",),
        )
        self._prefix = prefix

    def lease_parts(self) -> tuple[Part, ...]:
        """What leases need."""
        return (Part(*LEASE, (*self.lease.own(), self.clock)),)

    def create_table(self, table: Table) -> str:
        """The statement that creates a table if it is missing."""
        return table_sql(table)

    def create_index(self, index: Index) -> str:
        """The statement that creates an index if it is missing."""
        return index_sql(index)

    def remember(self, component: str, version: int) -> str:
        """The statement that writes the version of a part down."""
        return (
            f'INSERT INTO {self.versions.name} (component, version, "updatedAt") '  # noqa: S608
            f"VALUES ('{component}', {version}, "
            "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) ON CONFLICT (component) DO UPDATE SET "
            'version = excluded.version, "updatedAt" = excluded."updatedAt"'
        )

    def index_name(self, name: str) -> str:
        """The name of an index behind the prefix of the tables."""
        return f"{self._prefix}{name}"


def bus_migration(
    schema: BusSchema, parts: Sequence[Part], *, apply: bool
) -> Program[MigrationPlan]:
    """
    Look what is missing and, if told so, add it; one transaction.

    Raises:
        StorageSchemaError: SQLite is too old, or the database too new.
    """
    versions = schema.versions
    tables = [*(table for part in parts for table in part.tables), versions]
    listed = ", ".join(f"'{table.name}'" for table in tables)
    objects_sql = plain(
        f"SELECT name FROM sqlite_master WHERE tbl_name IN ({listed})",  # noqa: S608 - names of ours
        columns=("name",),
    )
    [[(version,)], object_rows] = yield (Step(_SQLITE_VERSION), Step(objects_sql))
    check_sqlite_version(version)
    objects = frozenset(name for (name,) in object_rows)
    found: dict[str, int] = {}
    if versions.name in objects:
        sql = f"SELECT component, version FROM {versions.name}"  # noqa: S608 - a name of ours
        [rows] = yield (Step(plain(sql, columns=("component", "version"))),)
        found = dict(rows)
    plan = schema.plan(parts, objects, found)
    if plan and apply:
        yield [Step(plain(sql, writes=True)) for sql in plan.statements]
    return plan
