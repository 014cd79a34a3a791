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

    def locked(self, scopes: Sequence[Sequence[str]], *steps: Step) -> Program[list[Rows]]:
        """The rows of these reads; later programs with one of the scopes wait for this one."""
        locks = [lock for scope in scopes if (lock := self.dialect.lock(scope)) is not None]
        # In one order everywhere, so that no two wait for each other.
        locks.sort(key=lambda lock: lock[1])
        results = yield (*(Step(*lock) for lock in locks), *steps)
        return results[len(locks) :]

    def settled(self, *steps: Step) -> Program[list[Rows]]:
        """
        The rows of reads that lock one table and join others.

        Waiting for a lock brings the locked row up to date, but not what is joined to it. So
        where others write at the same time, the first reading locks and the second one sees.
        """
        if self.dialect.is_alone:
            return (yield steps)
        return (yield (*steps, *steps))[len(steps) :]

    def timed(
        self,
        read: Callable[[datetime | None], Sequence[Step]],
        scopes: Sequence[Sequence[str]] = (),
    ) -> Program[tuple[datetime, list[Rows]]]:
        """
        The store's time, and the rows of reads that may depend on it.

        Args:
            read: Gets the time, or None where the statements ask for it themselves.
            scopes: Later programs with one of them wait for this one.
        """
        statement = self.dialect.server_now()
        if statement is None or self.dialect.now_inside() is None:
            now = yield from self.store_now()
            return now, (yield from self.locked(scopes, *read(now)))
        # The clock is looked at behind locks and rows: what they call past is past.
        *results, [(told,)] = yield from self.locked(scopes, *read(None), Step(statement))
        return self.dialect.time_from(told), results
