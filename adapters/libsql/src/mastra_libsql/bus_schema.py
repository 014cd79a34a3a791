"""The objects that a bus and leases need in a libSQL database, and bringing them there.

They are created when the role is first used, under the same lock and by the same rules as the
tables of the store (``migrate``): only what is missing, nothing dropped, a newer version
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import MetaData, Table

from mastra_core.rules.migrations import MigrationPlan, too_new
from mastra_libsql.errors import error_id
from mastra_libsql.migrate import check_sqlite_version
from mastra_libsql.schema import Index, index_sql, table_sql
from mastra_sql.bus import BusTables, build_bus_tables
from mastra_sql.bus.tables import make_table
from mastra_sql.executor import Program, Step
from mastra_sql.lease import LeaseTables, build_lease_tables
from mastra_sql.statement import plain
from mastra_sql.tables import ColumnKind, build_tables

__all__ = ("BUS", "LEASE", "BusSchema", "Part", "bus_migration", "plan_of_parts")

#: Rows of ``mastra_py_schema``, and the versions that this package knows.
LEASE: Final = ("lease", 1)
BUS: Final = ("bus", 1)

_SQLITE_VERSION: Final = plain("SELECT sqlite_version()", columns=("version",))


@dataclass(frozen=True, slots=True)
class Part:
    """Tables and indexes that belong together and have one version."""

    component: str
    version: int
    tables: tuple[Table, ...]
    indexes: tuple[Index, ...]


class BusSchema:
    """The tables of a bus and of leases behind one prefix."""

    def __init__(self, prefix: str = "") -> None:
        self.bus: BusTables = build_bus_tables(prefix, time=ColumnKind.INTEGER)
        self.lease: LeaseTables = build_lease_tables(prefix, time=ColumnKind.INTEGER)
        #: What the boot clock lacks to the time since 1970, once per start of the machine.
        self.clock: Table = make_table(
            MetaData(),
            f"{prefix}mastra_py_clock",
            (("bootId", ColumnKind.TEXT, True), ("baseUs", ColumnKind.INTEGER, True)),
            ("bootId",),
        )
        self.versions: Table = build_tables(prefix).versions
        self._prefix = prefix

    def lease_parts(self) -> tuple[Part, ...]:
        """What leases need."""
        return (Part(*LEASE, (*self.lease.own(), self.clock), ()),)

    def bus_parts(self) -> tuple[Part, ...]:
        """What a bus needs; its publishes check fences, so leases are part of it."""
        return (*self.lease_parts(), Part(*BUS, tuple(self.bus.own()), tuple(self._indexes())))

    def _indexes(self) -> Iterator[Index]:
        # Every statement names its topic.
        yield Index(
            name=f"{self._prefix}mastra_pubsub_topics_topic",
            table=self.bus.topics.name,
            keys='"topic"',
            unique=True,
        )
        # A publish that is repeated is stored once.
        yield Index(
            name=f"{self._prefix}mastra_pubsub_events_id",
            table=self.bus.events.name,
            keys='"topicId", "epoch", "eventId"',
            unique=True,
        )
        # What a group can claim again.
        yield Index(
            name=f"{self._prefix}mastra_pubsub_pending_visible",
            table=self.bus.pending.name,
            keys='"topicId", "group", "visibleAt"',
        )
        yield Index(
            name=f"{self._prefix}mastra_pubsub_dead_topic",
            table=self.bus.dead.name,
            keys='"topic", "deadAt"',
        )


def bus_migration(parts: Sequence[Part], versions: Table, *, apply: bool) -> Program[MigrationPlan]:
    """
    Look what is missing and, if told so, add it; one transaction.

    Raises:
        StorageSchemaError: SQLite is too old, or the database too new.
    """
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
    plan = plan_of_parts(parts, versions, objects, found)
    if plan and apply:
        yield [Step(plain(sql, writes=True)) for sql in plan.statements]
    return plan


def plan_of_parts(
    parts: Sequence[Part],
    versions: Table,
    objects: frozenset[str] = frozenset(),
    found: dict[str, int] | None = None,
) -> MigrationPlan:
    """The statements that are needed, in order; everything for an empty database."""
    found = found or {}
    statements = [] if versions.name in objects else [table_sql(versions)]
    for part in parts:
        known = found.get(part.component, 0)
        if known > part.version:
            raise too_new(
                "The database",
                part.component,
                found=known,
                known=part.version,
                package="mastra-libsql",
                error_id=error_id("init"),
            )
        statements += [table_sql(one) for one in part.tables if one.name not in objects]
        statements += [index_sql(one) for one in part.indexes if one.name not in objects]
        if known < part.version:
            statements.append(
                f'INSERT INTO {versions.name} (component, version, "updatedAt") '  # noqa: S608
                f"VALUES ('{part.component}', {part.version}, "
                "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) ON CONFLICT (component) DO UPDATE SET "
                'version = excluded.version, "updatedAt" = excluded."updatedAt"'
            )
    last = parts[-1]
    return MigrationPlan(
        found_version=found.get(last.component, 0),
        target_version=last.version,
        statements=tuple(statements),
    )
