"""Statements of the small values of a thread (cross_agent.md 4)."""

from __future__ import annotations

from sqlalchemy import Executable, Table, select

from mastra_sql.statement import Statement
from mastra_sql.statements.base import StatementSet, equal

__all__ = ("ThreadStateStatements",)


class ThreadStateStatements(StatementSet):
    """Rows of ``mastra_thread_state``."""

    domain = "thread_state"

    @property
    def _table(self) -> Table:
        return self.tables.thread_state

    def get(self) -> Statement:
        """The value of one key."""

        def build() -> Executable:
            return (
                select(self.readable(self._table.c.value))
                .where(equal(self._table, "threadId", "type"))
                .with_for_update()
            )

        return self._shape("get", build)

    def save(self) -> Statement:
        """Upsert; the creation time stays."""

        def build() -> Executable:
            return self.upsert(  # type: ignore[no-any-return]
                self._table, ("threadId", "type"), replaced=("value", "updatedAt")
            )

        return self._shape("save", build)

    def delete(self) -> Statement:
        return self._shape("delete", lambda: self.remove(self._table, "threadId", "type"))

    def of_thread(self) -> Statement:
        """Types and values of one thread."""

        def build() -> Executable:
            table = self._table
            return (
                select(table.c.type, self.readable(table.c.value))
                .where(equal(table, "threadId"))
                .order_by(table.c.type)
            )

        return self._shape("of_thread", build)
