"""Statements: built once per shape, bound by name."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy import bindparam, literal_column, select

from mastra_libsql.dialect import SqliteDialect
from mastra_sql.executor import Step, atomic
from mastra_sql.statement import StatementCache
from mastra_sql.statements.memory import MemoryStatements, MessageFilter
from mastra_sql.statements.notifications import NotificationStatements
from mastra_sql.tables import ColumnKind, Tables, build_tables, column_kind, data_columns


def test_a_shape_is_compiled_once(dialect: SqliteDialect, tables: Tables) -> None:
    statements = NotificationStatements(dialect, tables)

    first = statements.page({"status", "source"}, limited=True)
    again = statements.page({"source", "status"}, limited=True)
    other = statements.page({"source"}, limited=True)

    assert first is again
    assert first is not other


def test_values_are_bound_in_the_order_of_the_placeholders(dialect: SqliteDialect) -> None:
    cache = StatementCache(dialect.compiler)
    a, b = bindparam("a", required=True), bindparam("b", required=True)

    statement = cache.get("x", lambda: select(b, a, b).limit(literal_column("5")), name="x")

    assert ("b", "a", "b") == statement.parameters[:3]
    assert (2, 1, 2) == statement.bind({"a": 1, "b": 2})[:3]
    assert [(2, 1, 2)] == sqlite3.connect(":memory:").execute(
        statement.sql, statement.bind({"a": 1, "b": 2})
    ).fetchall()


def test_a_missing_value_is_a_fault_of_the_caller(dialect: SqliteDialect) -> None:
    cache = StatementCache(dialect.compiler)
    statement = cache.get("x", lambda: select(bindparam("a", required=True)), name="x")

    with pytest.raises(KeyError):
        statement.bind({})


def test_reading_and_writing_statements_are_told_apart(
    dialect: SqliteDialect, tables: Tables
) -> None:
    statements = NotificationStatements(dialect, tables)

    assert not statements.get().writes
    assert statements.insert().writes
    assert statements.set_status("seenAt", expect_status=False).writes
    assert statements.delete_sidecar().writes


def test_no_value_of_a_caller_gets_into_the_text(dialect: SqliteDialect, tables: Tables) -> None:
    """Filters change the shape; keys and values are always bound."""
    statements = MemoryStatements(dialect, tables)
    odd = "x') OR 1=1 --"

    statement, values = statements.messages_page(
        MessageFilter(scope="thread", metadata={"key": odd, "other": None, "flag": True}),
        "ASC",
        limited=True,
    )

    assert odd not in statement.sql
    assert odd in values.values()
    assert '$."key"' in values.values()


def test_a_batch_is_a_program_with_one_step() -> None:
    program = atomic()()

    assert () == next(program)
    with pytest.raises(StopIteration) as finished:
        program.send([])
    assert [] == finished.value.value
    assert issubclass(Step, tuple)


def test_a_prefix_stands_before_every_table() -> None:
    tables = build_tables("mine_")

    assert all(table.name.startswith("mine_mastra_") for table in tables.shared())
    assert all(table.name.startswith("mine_mastra_py_") for table in tables.own())


def test_every_column_has_a_kind(tables: Tables) -> None:
    kinds = {column_kind(c) for t in (*tables.shared(), *tables.own()) for c in t.columns}

    assert set(ColumnKind) - {ColumnKind.TWIN} == kinds


def test_twins_stand_at_the_end_and_are_no_data() -> None:
    threads = build_tables(twins=True).threads
    claims = build_tables(twins=True).claims

    assert ["createdAtZ", "updatedAtZ"] == [column.name for column in threads.columns][-2:]
    assert "updatedAt" == data_columns(threads)[-1].name
    assert data_columns(claims) == list(claims.columns)
