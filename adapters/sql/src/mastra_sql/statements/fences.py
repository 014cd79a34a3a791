"""Statements of the fences that guarded writes carried (pubsub_and_lease.md 6.4, L9)."""

from __future__ import annotations

from sqlalchemy import Executable, case, select

from mastra_sql.statement import Statement
from mastra_sql.statements.base import StatementSet, equal

__all__ = ("FenceStatements",)


class FenceStatements(StatementSet):
    """Rows of ``mastra_py_fences``: the newest fence of each key."""

    domain = "fences"

    def raise_fence(self) -> Statement:
        """
        Remember a fence unless a newer one is known.

        Then there is no value for the column, which ends the transaction: so nothing has to be
        read first, and what stands beside it is refused in the same round trip.
        """

        def build() -> Executable:
            table = self.tables.fences
            statement = self.dialect.insert(table).values(self.new_values(table))
            token = statement.excluded.token
            return statement.on_conflict_do_update(  # type: ignore[no-any-return]
                index_elements=[table.c.key],
                set_=self.dialect.assignments(
                    table,
                    {
                        "token": case((table.c.token <= token, token)),
                        "updatedAt": statement.excluded.updatedAt,
                    },
                ),
            )

        return self._shape("raise", build)

    def newest(self) -> Statement:
        """The newest fence of one key."""

        def build() -> Executable:
            table = self.tables.fences
            return select(table.c.token).where(equal(table, "key"))

        return self._shape("newest", build)
