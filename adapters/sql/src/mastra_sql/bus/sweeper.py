"""Throws away what nobody wants any more: idle topics, old dead letters, forgotten groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastra_core.contracts.lease import MAX_TTL_MS, MIN_TTL_MS
from mastra_sql.bus.statements import BusStatements
from mastra_sql.executor import Executor, Step, atomic
from mastra_sql.lease.statements import LeaseStatements

if TYPE_CHECKING:
    from mastra_sql.options import BusLimits

__all__ = ("DROP_AT_ONCE", "Sweeper")

#: Events that are deleted in one go, so that nobody else waits for long.
DROP_AT_ONCE: Final = 5_000

#: Topics that one sweep forgets at most before it lets others write.
_AT_ONCE: Final = 100


class Sweeper:
    """Cleans one database; of several processes, the one that has the lease does it."""

    def __init__(
        self,
        executor: Executor,
        statements: BusStatements,
        leases: LeaseStatements,
        limits: BusLimits,
    ) -> None:
        self._executor = executor
        self._statements = statements
        self._leases = leases
        self._limits = limits

    async def sweep(self, key: str, owner: str) -> None:
        """Do it, unless somebody else does."""
        ttl_ms = min(MAX_TTL_MS, max(MIN_TTL_MS, self._limits.sweep_interval_ms * 2))
        acquire = self._leases.acquire(key, owner, ttl_ms, owner, lock_delay_ms=0)
        if await self._executor.write("sweep", acquire):
            await self.forget_topics()
            await self.forget_rest()

    async def forget_topics(self) -> None:
        """Topics that nobody wrote to for their time."""
        idle = Step.of(self._statements.idle_topics(), {"limit": _AT_ONCE})
        while True:
            [rows] = await self._executor.read("sweep", idle)
            for (topic_id,) in rows:
                steps = [
                    Step.of(one, {"topic_id": topic_id}) for one in self._statements.forget_topic()
                ]
                await self._executor.transact("sweep", atomic(*steps))
            if len(rows) < _AT_ONCE:
                return

    async def forget_rest(self) -> None:
        """Dead letters, groups, leases and fences whose time is over; what a clear left over."""
        values = {"limit": DROP_AT_ONCE}
        drop = Step.of(self._statements.drop_old_epochs(of_topic=False), values)
        while len(await self._executor.write("sweep", drop)) == DROP_AT_ONCE:
            pass
        values = {
            "group_ttl_ms": self._limits.group_ttl_ms,
            "dead_retention_ms": self._limits.dead_retention_ms,
        }
        steps = [
            *(Step.of(one, values) for one in self._statements.forget_groups()),
            Step.of(self._statements.forget_dead(), values),
            *self._leases.forget_old(),
        ]
        await self._executor.transact("sweep", atomic(*steps))
