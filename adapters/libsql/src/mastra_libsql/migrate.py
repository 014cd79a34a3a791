"""Bringing a database to the shape that this version needs, and not one statement more.

What is missing is worked out from the catalogue, inside the lock that also covers the
changes, so that two processes starting at once don't do it twice. A database of a newer
version is refused. Nothing is ever dropped, renamed or rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Table

from mastra_core.errors import StorageSchemaError
from mastra_core.rules.migrations import MigrationPlan, too_new
from mastra_libsql.errors import error_id
from mastra_libsql.schema import (
    COMPONENT,
    SCHEMA_VERSION,
    column_sql,
    index_sql,
    indexes,
    table_sql,
)
from mastra_sql.executor import Program, Rows, Step
from mastra_sql.schema import Needs
from mastra_sql.statement import Statement, plain
from mastra_sql.tables import Tables

__all__ = (
    "MINIMUM_SQLITE",
    "check_sqlite_version",
    "migration",
    "plan_of",
    "plan_of_nothing",
)

MINIMUM_SQLITE: Final = (3, 45, 0)
"""The first version with JSONB, in which both sides store JSON."""


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """What a database holds already."""

    version: int = 0
    objects: frozenset[str] = frozenset()
    columns: dict[str, frozenset[str]] = field(default_factory=dict)


def plan_of_nothing(tables: Tables, prefix: str = "") -> MigrationPlan:
    """Everything that an empty database needs, in order."""
    return plan_of(_Catalogue(), tables, prefix, _Facts())


def check_sqlite_version(version: str) -> None:
    """
    Refuse a SQLite that can't read what a peer writes.

    Raises:
        StorageSchemaError: It is older than 3.45.
    """
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdecimal())
    if numbers < MINIMUM_SQLITE:
        wanted = ".".join(map(str, MINIMUM_SQLITE[:2]))
        raise StorageSchemaError(
            f"SQLite {version} has no JSONB columns; version {wanted} or later is needed.",
            id=error_id("init"),
            hint="Upgrade with: pip install --upgrade apsw",
            details={"found": version, "needed": wanted},
        )


# -- the plan ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is true of the rows; decides which indexes can be."""

    has_duplicates: bool = False
    has_invalid_snapshots: bool = False

    def missing(self, needs: Needs) -> str | None:
        """Why an index can't be created; None if it can."""
        match needs:
            case Needs.NOTHING:
                return None
            case Needs.NO_DUPLICATES:
                return "notifications with equal ids stand" if self.has_duplicates else None
            case Needs.DUPLICATES:
                return None if self.has_duplicates else ""
            case Needs.VALID_SNAPSHOTS:
                return "snapshots that are no JSON stand" if self.has_invalid_snapshots else None


def plan_of(catalogue: _Catalogue, tables: Tables, prefix: str, facts: _Facts) -> MigrationPlan:
    """
    The statements that are needed, in order.

    Raises:
        StorageSchemaError: The database belongs to a newer version.
    """
    if catalogue.version > SCHEMA_VERSION:
        raise too_new(
            "The database",
            COMPONENT,
            found=catalogue.version,
            known=SCHEMA_VERSION,
            package="mastra-libsql",
            error_id=error_id("init"),
        )
    statements: list[str] = []
    skipped: list[str] = []
    for table in tables.shared():
        statements += _table_changes(table, catalogue)
    lacks_shared = bool(statements)
    for table in tables.own():
        statements += _table_changes(table, catalogue)
    for index in indexes(tables, prefix):
        if index.name in catalogue.objects:
            continue
        reason = facts.missing(index.needs)
        if reason is None:
            statements.append(index_sql(index))
        elif reason:
            skipped.append(f"{index.name}: {reason}")
    if catalogue.version < SCHEMA_VERSION:
        statements.append(_remember_version(tables))
    return MigrationPlan(
        found_version=catalogue.version,
        target_version=SCHEMA_VERSION,
        statements=tuple(statements),
        skipped=tuple(skipped),
        lacks_shared=lacks_shared,
    )


def _table_changes(table: Table, catalogue: _Catalogue) -> Iterable[str]:
    if table.name not in catalogue.objects:
        yield table_sql(table)
        return
    known = catalogue.columns.get(table.name, frozenset())
    for column in table.columns:
        if column.name not in known:
            # Tables of older releases lack columns that came later (snapshots.md 13.2).
            yield f"ALTER TABLE {table.name} ADD COLUMN {column_sql(table, column.name, added=True)}"


def _remember_version(tables: Tables) -> str:
    return (
        f'INSERT INTO {tables.versions.name} (component, version, "updatedAt") '  # noqa: S608
        f"VALUES ('{COMPONENT}', {SCHEMA_VERSION}, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) "
        "ON CONFLICT (component) DO UPDATE SET "
        'version = excluded.version, "updatedAt" = excluded."updatedAt"'
    )


# -- looking and changing ---------------------------------------------------------------------


def migration(tables: Tables, prefix: str, *, apply: bool) -> Program[MigrationPlan]:
    """
    Look what is missing and, if told so, add it; one transaction.

    Raises:
        StorageSchemaError: SQLite is too old, or the database too new.
    """
    [[(version,)]] = yield (Step(_SQLITE_VERSION),)
    check_sqlite_version(version)
    catalogue = yield from _look(tables)
    plan = plan_of(catalogue, tables, prefix, (yield from _facts(tables, prefix, catalogue)))
    if plan and apply:
        yield [Step(plain(sql, writes=True)) for sql in plan.statements]
    return plan


_SQLITE_VERSION: Final = plain("SELECT sqlite_version()", columns=("version",))


def _look(tables: Tables) -> Program[_Catalogue]:
    names = [table.name for table in (*tables.shared(), *tables.own())]
    listed = ", ".join(f"'{name}'" for name in names)
    objects_sql = plain(
        f"SELECT name FROM sqlite_master WHERE tbl_name IN ({listed})",  # noqa: S608 - names of ours
        columns=("name",),
    )
    columns_sql = plain(
        "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c "  # noqa: S608
        f"WHERE m.type = 'table' AND m.name IN ({listed})",
        columns=("table", "column"),
    )
    object_rows, column_rows = yield (Step(objects_sql), Step(columns_sql))
    objects = frozenset(name for (name,) in object_rows)
    columns: dict[str, set[str]] = {}
    for table, column in column_rows:
        columns.setdefault(table, set()).add(column)
    version = 0
    if tables.versions.name in objects:
        [rows] = yield (Step(_version_sql(tables)),)
        version = rows[0][0] if rows else 0
    return _Catalogue(version, objects, {name: frozenset(has) for name, has in columns.items()})


def _version_sql(tables: Tables) -> Statement:
    return plain(
        f"SELECT version FROM {tables.versions.name} WHERE component = '{COMPONENT}'",  # noqa: S608
        columns=("version",),
    )


def _facts(tables: Tables, prefix: str, catalogue: _Catalogue) -> Program[_Facts]:
    """Looks at rows only if an index is missing whose creation depends on them."""
    missing = {
        index.needs for index in indexes(tables, prefix) if index.name not in catalogue.objects
    }
    duplicates = invalid = False
    if Needs.NO_DUPLICATES in missing and tables.notifications.name in catalogue.objects:
        sql = (
            f'SELECT 1 FROM {tables.notifications.name} GROUP BY "threadId", "id" '  # noqa: S608
            "HAVING count(*) > 1 LIMIT 1"
        )
        duplicates = yield from _any(sql)
    if Needs.VALID_SNAPSHOTS in missing and tables.snapshots.name in catalogue.objects:
        sql = (
            f"SELECT 1 FROM {tables.snapshots.name} WHERE NOT json_valid(snapshot, 9) "  # noqa: S608
            "LIMIT 1"
        )
        invalid = yield from _any(sql)
    return _Facts(has_duplicates=duplicates, has_invalid_snapshots=invalid)


def _any(sql: str) -> Program[bool]:
    results: list[Rows] = yield (Step(plain(sql, columns=("found",))),)
    return bool(results[0])
