"""Statements of detached tool calls (streaming.md 8.10)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Executable, Table, delete, func, literal_column, select

from mastra_sql.statement import Statement
from mastra_sql.statements.base import StatementSet, equal, parameter

__all__ = ("TaskStatements",)

#: Members of a filter that are plain equality.
_EQUAL = ("agent_id", "thread_id", "resource_id", "tool_name", "tool_call_id", "run_id")


class TaskStatements(StatementSet):
    """Rows of ``mastra_background_tasks``."""

    domain = "background_tasks"

    @property
    def _table(self) -> Table:
        return self.tables.background_tasks

    def insert(self) -> Statement:
        """Add a task; a row comes back unless the id is taken."""

        def build() -> Executable:
            table = self._table
            return (  # type: ignore[no-any-return]
                self.dialect.insert(table)
                .values(self.new_values(table))
                .on_conflict_do_nothing(index_elements=[table.c.id])
                .returning(literal_column("1"))
            )

        return self._shape("insert", build)

    def get(self) -> Statement:
        return self._shape("get", lambda: self.by_key(self._table, "id"))

    def update(self, columns: Collection[str], *, expect_status: bool) -> Statement:
        """Write these columns if the status is expected; a row comes back if so."""

        def build() -> Executable:
            statement = self.change(self._table, columns, "id")
            if expect_status:
                expected = parameter("expected_statuses")
                statement = statement.where(self.dialect.one_of(self._table.c.status, expected))
            return statement.returning(literal_column("1"))  # type: ignore[no-any-return]

        return self._shape("update", build, frozenset(columns), expect_status)

    def delete(self) -> Statement:
        return self._shape("delete", lambda: self.remove(self._table, "id"))

    def page(
        self, filters: Collection[str], dated: str, order: str, direction: str, *, limited: bool
    ) -> Statement:
        """Tasks by (time, id); those without the time sort before all others."""

        def build() -> Executable:
            table = self._table
            at = self.dialect.time_out(table.c[order])
            columns = (at.is_not(None), at, table.c.id)
            ordered = [c.desc() if direction == "desc" else c.asc() for c in columns]
            statement = (
                select(*self.all_of(table))
                .where(*self._conditions(filters, dated))
                .order_by(*(ordered if order != "createdAt" else ordered[1:]))
            )
            if limited:
                statement = statement.limit(parameter("limit")).offset(parameter("offset"))
            return statement

        return self._shape("page", build, frozenset(filters), dated, order, direction, limited)

    def count(self, filters: Collection[str], dated: str) -> Statement:
        return self._shape(
            "count",
            lambda: (
                select(func.count())
                .select_from(self._table)
                .where(*self._conditions(filters, dated))
            ),
            frozenset(filters),
            dated,
        )

    def delete_matching(self, filters: Collection[str], dated: str) -> Statement:
        """Delete all matches, a row for each."""
        return self._shape(
            "delete_matching",
            lambda: (
                delete(self._table)
                .where(*self._conditions(filters, dated))
                .returning(literal_column("1"))
            ),
            frozenset(filters),
            dated,
        )

    def running(self, *, by_agent: bool) -> Statement:
        """How many tasks are running."""

        def build() -> Executable:
            table = self._table
            statement = (
                select(func.count())
                .select_from(table)
                .where(table.c.status == literal_column("'running'"))
            )
            return statement.where(equal(table, "agent_id")) if by_agent else statement

        return self._shape("running", build, by_agent)

    def _conditions(self, filters: Collection[str], dated: str) -> list[ColumnElement[bool]]:
        table = self._table
        at = self.dialect.time_out(table.c[dated])
        possible: dict[str, ColumnElement[Any]] = {
            name: table.c[name] == parameter(name) for name in _EQUAL
        }
        possible["status"] = self.dialect.one_of(table.c.status, parameter("status"))
        possible["from_date"] = at >= parameter("from_date")
        possible["to_date"] = at < parameter("to_date")
        return [condition for name, condition in possible.items() if name in filters]
