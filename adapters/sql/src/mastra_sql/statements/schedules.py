"""Statements of timers and their history (workflows.md 12, notifications.md 14.5)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Executable, Table, delete, literal_column, select, update

from mastra_sql.statement import Statement
from mastra_sql.statements.base import StatementSet, equal, parameter

__all__ = ("ScheduleStatements",)


class ScheduleStatements(StatementSet):
    """Rows of ``mastra_schedules`` and ``mastra_schedule_triggers``."""

    domain = "schedules"

    def insert(self) -> Statement:
        """Add a timer; a row comes back unless the id is taken."""
        return self._shape("insert", lambda: self._insert_once(self.tables.schedules))

    def insert_trigger(self) -> Statement:
        """Add to the history; the same id again changes nothing."""
        return self._shape(
            "insert_trigger", lambda: self._insert_once(self.tables.schedule_triggers)
        )

    def _insert_once(self, table: Table) -> Any:
        return (
            self.dialect.insert(table)
            .values(self.new_values(table))
            .on_conflict_do_nothing(index_elements=[table.c.id])
            .returning(literal_column("1"))
        )

    def get(self) -> Statement:
        return self._shape("get", lambda: self.by_key(self.tables.schedules, "id"))

    def update(self, columns: Collection[str]) -> Statement:
        """Write these columns and return the timer."""

        def build() -> Executable:
            table = self.tables.schedules
            statement = self.change(table, columns, "id")
            return statement.returning(*self.all_of(table))  # type: ignore[no-any-return]

        return self._shape("update", build, frozenset(columns))

    def move_next_fire(self) -> Statement:
        """Move the next fire time on, if the timer is active and nobody else did."""

        def build() -> Executable:
            table = self.tables.schedules
            columns = {"next_fire_at", "last_fire_at", "last_run_id", "updated_at"}
            return (
                update(table)
                .where(
                    table.c.id == parameter("key_id"),
                    table.c.next_fire_at == parameter("expected_next_fire_at"),
                    table.c.status == literal_column("'active'"),
                )
                .values(self.new_values(table, columns))
                .returning(literal_column("1"))
            )

        return self._shape("move_next_fire", build)

    def delete(self) -> tuple[Statement, Statement]:
        """The history, then the timer, which says whether there was one."""
        triggers = self.tables.schedule_triggers
        return (
            self._shape(
                "delete_triggers",
                lambda: delete(triggers).where(triggers.c.schedule_id == parameter("id")),
            ),
            self._shape("delete", lambda: self.remove(self.tables.schedules, "id")),
        )

    def listed(self, filters: Collection[str]) -> Statement:
        """Timers by (created_at, id)."""

        def build() -> Executable:
            table = self.tables.schedules
            possible: dict[str, ColumnElement[bool]] = {
                name: table.c[name] == parameter(name)
                for name in ("status", "owner_type", "owner_id")
            }
            target = self.dialect.json_at(table.c.target, "workflowId")
            possible["workflow_id"] = target == parameter("workflow_id")
            conditions = [found for name, found in possible.items() if name in filters]
            return (
                select(*self.all_of(table))
                .where(*conditions)
                .order_by(table.c.created_at, table.c.id)
            )

        return self._shape("listed", build, frozenset(filters))

    def due(self) -> Statement:
        """Active timers whose time has come, earliest first."""

        def build() -> Executable:
            table = self.tables.schedules
            return (
                select(*self.all_of(table))
                .where(
                    table.c.status == literal_column("'active'"),
                    table.c.next_fire_at <= parameter("now"),
                )
                .order_by(table.c.next_fire_at, table.c.id)
                .limit(parameter("limit"))
            )

        return self._shape("due", build)

    def history(self, bounds: Collection[str], *, limited: bool) -> Statement:
        """Firings of one timer, newest first."""

        def build() -> Executable:
            table = self.tables.schedule_triggers
            conditions = [equal(table, "schedule_id")]
            if "from_ms" in bounds:
                conditions.append(table.c.actual_fire_at >= parameter("from_ms"))
            if "to_ms" in bounds:
                conditions.append(table.c.actual_fire_at <= parameter("to_ms"))
            statement = (
                select(*self.all_of(table))
                .where(*conditions)
                .order_by(table.c.actual_fire_at.desc(), table.c.id)
            )
            return statement.limit(parameter("limit")) if limited else statement

        return self._shape("history", build, frozenset(bounds), limited)
