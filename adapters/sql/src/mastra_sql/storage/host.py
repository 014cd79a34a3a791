"""What a domain store gets from its adapter, and what all of them do alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.pace import Pace
from mastra_sql.dialect import SqlDialect
from mastra_sql.executor import Executor, PacedExecutor, Program, Step
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
