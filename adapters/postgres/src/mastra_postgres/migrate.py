"""Bringing a database to the shape that this version needs, and not one statement more.

What is missing is worked out from the catalogue, behind the advisory lock that also covers
the changes, so that two processes starting at once don't do it twice. A database of a newer
version is refused. Nothing is ever dropped, renamed or rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sqlalchemy import Table

from mastra_core.errors import StorageSchemaError
from mastra_core.rules.migrations import MigrationPlan, too_new
from mastra_postgres.dialect import advisory_key, array_text
from mastra_postgres.errors import error_id
from mastra_postgres.schema import (
    COMPONENT,
    SCHEMA_VERSION,
    column_sql,
    index_sql,
    indexes,
    more_sql,
    quoted,
    table_name,
    table_sql,
)
from mastra_sql.executor import Program, Rows, Step
from mastra_sql.schema import Needs
from mastra_sql.statement import Statement, plain
from mastra_sql.tables import ColumnKind, Tables, column_kind

__all__ = (
    "Compression",
    "migration",
    "plan_of_nothing",
)

Compression = Literal["auto", "lz4", "pglz", "unchanged"]


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """What a database holds already."""

    version: int = 0
    has_schema: bool = False
    #: Table to column to type.
    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    indexes: frozenset[str] = frozenset()
    has_duplicates: bool = False
    #: Whether the server was built with lz4, and how ``snapshot`` is compressed now.
    has_lz4: bool = False
    compression: str = ""


def plan_of_nothing(tables: Tables, prefix: str = "") -> MigrationPlan:
    """Everything that an empty database needs, in order; for any server."""
    return _plan(_Catalogue(has_schema=_schema(tables) == "public"), tables, prefix, "unchanged")


def _schema(tables: Tables) -> str:
    return tables.threads.schema or "public"


# -- the plan ---------------------------------------------------------------------------------


def _plan(
    catalogue: _Catalogue, tables: Tables, prefix: str, compression: Compression
) -> MigrationPlan:
    if catalogue.version > SCHEMA_VERSION:
        raise too_new(
            "The database",
            COMPONENT,
            found=catalogue.version,
            known=SCHEMA_VERSION,
            package="mastra-postgres",
            error_id=error_id("init"),
        )
    _check_types(catalogue, tables)
    method = _method(catalogue, compression)
    statements: list[str] = []
    if not catalogue.has_schema:
        statements.append(f"CREATE SCHEMA IF NOT EXISTS {quoted(_schema(tables))}")
    for table in tables.shared():
        statements += _table_changes(table, catalogue, method)
    lacks_shared = bool(statements)
    for table in tables.own():
        statements += _table_changes(table, catalogue, method)
    snapshots = tables.snapshots
    if method and snapshots.name in catalogue.columns:
        statements.append(
            f"ALTER TABLE {table_name(snapshots)} ALTER COLUMN snapshot SET COMPRESSION {method}"
        )
    skipped: list[str] = []
    for index in indexes(tables, prefix):
        if index.name in catalogue.indexes:
            continue
        if index.needs is Needs.NO_DUPLICATES and catalogue.has_duplicates:
            skipped.append(f"{index.name}: two rows share one (threadId, id)")
        elif index.needs is not Needs.DUPLICATES or catalogue.has_duplicates:
            statements.append(index_sql(index))
    if catalogue.version < SCHEMA_VERSION:
        statements.append(_remember_version(tables))
    return MigrationPlan(
        found_version=catalogue.version,
        target_version=SCHEMA_VERSION,
        statements=tuple(statements),
        skipped=tuple(skipped),
        lacks_shared=lacks_shared,
    )


def _check_types(catalogue: _Catalogue, tables: Tables) -> None:
    """Tables of very old releases keep JSON as text, where no index and no filter works."""
    for table in tables.shared():
        known = catalogue.columns.get(table.name, {})
        for column in table.columns:
            found = known.get(column.name, "")
            if column_kind(column) is ColumnKind.JSON and found not in {"", "jsonb"}:
                name = table_name(table)
                raise StorageSchemaError(
                    f"Column {column.name!r} of {name} is of type {found}, not jsonb.",
                    id=error_id("init"),
                    hint=f"Convert it once: ALTER TABLE {name} ALTER COLUMN "
                    f"{quoted(column.name)} TYPE jsonb USING {quoted(column.name)}::jsonb",
                    details={"table": table.name, "column": column.name, "found": found},
                )


def _method(catalogue: _Catalogue, compression: Compression) -> str:
    """The compression that new snapshots should get; empty if it stays as it is."""
    if compression == "unchanged":
        return ""
    if compression == "auto":
        # Somebody's choice stays.
        return "lz4" if catalogue.has_lz4 and not catalogue.compression else ""
    if compression == "lz4" and not catalogue.has_lz4:
        raise StorageSchemaError(
            "The server was built without lz4, so it can't compress snapshots with it.",
            id=error_id("init"),
            hint="Leave mastra_snapshot_compression at auto.",
        )
    return "" if catalogue.compression == compression else compression


def _table_changes(table: Table, catalogue: _Catalogue, method: str) -> Iterable[str]:
    known = catalogue.columns.get(table.name)
    if known is None:
        yield table_sql(table, compression=method)
        yield from more_sql(table)
        return
    for column in table.columns:
        if column.name in known:
            continue
        # Tables of older releases lack columns that came later (snapshots.md 13.2).
        yield f"ALTER TABLE {table_name(table)} ADD COLUMN {column_sql(column, added=True)}"


def _remember_version(tables: Tables) -> str:
    return (
        f'INSERT INTO {table_name(tables.versions)} (component, version, "updatedAt") '  # noqa: S608
        f"VALUES ('{COMPONENT}', {SCHEMA_VERSION}, now()) "
        "ON CONFLICT (component) DO UPDATE SET "
        'version = excluded.version, "updatedAt" = excluded."updatedAt"'
    )


# -- looking and changing ---------------------------------------------------------------------


def migration(
    tables: Tables, prefix: str, *, compression: Compression, apply: bool
) -> Program[MigrationPlan]:
    """
    Look what is missing and, if told so, add it; one transaction.

    Raises:
        StorageSchemaError: The database is too new, or its tables are too old.
    """
    if apply:
        # Others that start now wait here, and then find nothing to do.
        key = advisory_key("mastra_postgres.migrate", _schema(tables), prefix)
        yield (Step(_LOCK, (key,)),)
    catalogue = yield from _look(tables, prefix)
    plan = _plan(catalogue, tables, prefix, compression)
    if plan and apply:
        yield [Step(plain(sql, writes=True)) for sql in plan.statements]
    return plan


_LOCK: Final = plain(
    "SELECT pg_advisory_xact_lock($1::bigint)", parameters=("key",), columns=("locked",)
)
_HAS_SCHEMA: Final = plain(
    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)",
    parameters=("schema",),
    columns=("found",),
)
_COLUMNS: Final = plain(
    "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, NULL), "
    "a.attcompression::text "
    "FROM pg_catalog.pg_attribute AS a "
    "JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1 AND c.relname = ANY ($2::text[]) AND c.relkind IN ('r', 'p') "
    "AND a.attnum > 0 AND NOT a.attisdropped",
    parameters=("schema", "tables"),
    columns=("table", "column", "type", "compression"),
)
_INDEXES: Final = plain(
    "SELECT c.relname::text FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1 AND c.relkind IN ('i', 'I') AND c.relname = ANY ($2::text[])",
    parameters=("schema", "indexes"),
    columns=("index",),
)
_HAS_LZ4: Final = plain(
    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_settings "
    "WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals))",
    columns=("found",),
)


def _look(tables: Tables, prefix: str) -> Program[_Catalogue]:
    schema = _schema(tables)
    listed = array_text([table.name for table in (*tables.shared(), *tables.own())])
    wanted = array_text([index.name for index in indexes(tables, prefix)])
    [[(has_schema,)], column_rows, index_rows, [(has_lz4,)]] = yield (
        Step(_HAS_SCHEMA, (schema,)),
        Step(_COLUMNS, (schema, listed)),
        Step(_INDEXES, (schema, wanted)),
        Step(_HAS_LZ4),
    )
    columns: dict[str, dict[str, str]] = {}
    compression = ""
    for table, column, type_name, method in column_rows:
        columns.setdefault(table, {})[column] = type_name
        if (table, column) == (tables.snapshots.name, "snapshot"):
            compression = _METHODS.get(method, "")
    version = 0
    if tables.versions.name in columns:
        [rows] = yield (Step(_version_sql(tables)),)
        version = rows[0][0] if rows else 0
    found = frozenset(name for (name,) in index_rows)
    return _Catalogue(
        version=version,
        has_schema=bool(has_schema),
        columns=columns,
        indexes=found,
        has_duplicates=(yield from _has_duplicates(tables, prefix, columns, found)),
        has_lz4=bool(has_lz4),
        compression=compression,
    )


#: How the catalogue abbreviates compression methods; nothing means the server's default.
_METHODS: Final[dict[Any, str]] = {"l": "lz4", "p": "pglz"}


def _version_sql(tables: Tables) -> Statement:
    return plain(
        f"SELECT version FROM {table_name(tables.versions)} "  # noqa: S608 - names of ours
        f"WHERE component = '{COMPONENT}'",
        columns=("version",),
    )


def _has_duplicates(
    tables: Tables, prefix: str, columns: dict[str, dict[str, str]], found: frozenset[str]
) -> Program[bool]:
    """Looks at rows only if an index is missing whose creation depends on them."""
    needed = {index.name for index in indexes(tables, prefix) if index.needs is not Needs.NOTHING}
    if needed & found or tables.notifications.name not in columns:
        # With one of the two the other isn't wanted any more.
        return needed & found == {
            index.name for index in indexes(tables, prefix) if index.needs is Needs.DUPLICATES
        }
    sql = (
        f'SELECT 1 FROM {table_name(tables.notifications)} GROUP BY "threadId", id '  # noqa: S608
        "HAVING count(*) > 1 LIMIT 1"
    )
    results: list[Rows] = yield (Step(plain(sql, columns=("found",))),)
    return bool(results[0])
