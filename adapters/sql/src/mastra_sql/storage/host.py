"""What a domain store gets from its adapter, and what all of them do alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.pace import Pace
from mastra_sql.dialect import SqlDialect
from mastra_sql.executor import Executor, PacedExecutor, Program, Rows, Step
from mastra_sql.tables import Tables

__all__ = ("SqlHost",)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlHost:
    """The parts that an adapter puts together once and its domain stores share."""

    executor: Executor
    dialect: SqlDialect
    tables: Tables
    clock: Clock
    ids: Ids
    #: Creates the index that pruning a table by this column needs, if it is missing.
    retention_index: Callable[[str, str], Awaitable[None]]
    max_snapshot_bytes: int
    #: Whose turn it is among concurrent calls.
    pace: Pace = field(default_factory=Pace)

    @property
    def run(self) -> PacedExecutor:
        """The executor as domain stores use it."""
        return PacedExecutor(self.executor, self.pace)

    @property
    def store(self) -> str:
        """Short name of the adapter, for error ids."""
        return self.dialect.store

    def store_now(self) -> Program[datetime]:
        """The time that decides about claims: the server's, where there is one."""
        statement = self.dialect.server_now()
        if statement is None:
            return self.clock.now()
        [rows] = yield (Step(statement),)
        return self.dialect.time_from(rows[0][0])

    def locked(self, scope: Sequence[str], *steps: Step) -> Program[list[Rows]]:
        """The rows of these reads; later programs with the same scope wait for this one."""
        lock = self.dialect.lock(scope)
        if lock is None:
            return (yield steps)
        return (yield (Step(*lock), *steps))[1:]

    def timed(
        self, read: Callable[[datetime | None], Step], scope: Sequence[str] | None = None
    ) -> Program[tuple[datetime, Rows]]:
        """
        The store's time, and the rows of a read that may depend on it.

        Args:
            read: Gets the time, or None where the statement asks for it itself.
            scope: Later programs with the same scope wait for this one.
        """
        statement = self.dialect.server_now()
        if statement is None or self.dialect.now_inside() is None:
            now = yield from self.store_now()
            [rows] = yield from self._reads(scope, read(now))
            return now, rows
        # The clock is looked at behind the lock and the rows: what they call past is past.
        rows, [(told,)] = yield from self._reads(scope, read(None), Step(statement))
        return self.dialect.time_from(told), rows

    def _reads(self, scope: Sequence[str] | None, *steps: Step) -> Program[list[Rows]]:
        if scope is None:
            return (yield steps)
        return (yield from self.locked(scope, *steps))
