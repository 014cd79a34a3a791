"""Runs that wait for an answer: how long they keep their thread, and who looks after them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Final

from mastra_core.base.clock import Clock
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.threads.record import ActiveRun, ThreadRecord
from mastra_core.threads.table import ThreadTable

__all__ = ("LOOK_SECONDS", "SUSPENDED_RUN_TTL_SECONDS", "ParkedRuns")

logger = logging.getLogger(__name__)

#: How long a parked run is kept in memory; later it is resumed from storage (R56).
SUSPENDED_RUN_TTL_SECONDS: Final = 30 * 60.0

#: How often whoever waits for a parked run looks whether it was answered elsewhere.
LOOK_SECONDS: Final = 5.0


class ParkedRuns:
    """
    Looks after the threads that parked runs hold.

    Args:
        table: The threads.
        clock: Says how long a run has been parked.
        ttl: Seconds after which a parked run gives its thread free.
        tasks: Own single looks.
        timers: Own what waits for its time.
        free: Gives the thread of an ended run to whatever waits.
    """

    def __init__(
        self,
        table: ThreadTable,
        *,
        clock: Clock,
        ttl: float,
        tasks: TaskSupervisor,
        timers: TaskSupervisor,
        free: Callable[[ThreadRecord, ActiveRun], None],
    ) -> None:
        self._table = table
        self._clock = clock
        self._ttl = ttl
        self._tasks = tasks
        self._timers = timers
        self._free = free
        #: When a run was parked, per thread, the oldest first.
        self._parked_at: dict[str, float] = {}
        #: Threads whose parked run is being looked up.
        self._looking: set[str] = set()
        self._is_watching = False

    # -- parking --------------------------------------------------------------------------

    def park(self, record: ThreadRecord, active: ActiveRun) -> None:
        """The run waits for an answer from now on."""
        active.lifecycle = "suspended"
        if active.parked_at is None:
            active.parked_at = self._clock.monotonic()
            self._forget(active.parked_at)
            self._parked_at.pop(record.key, None)
            self._parked_at[record.key] = active.parked_at
        self.look_after(record)

    def expire(self, record: ThreadRecord) -> ThreadRecord:
        """Free a thread whose run was parked too long ago; the record that it has then."""
        active = record.active
        if active is None or active.parked_at is None:
            return record
        if self._clock.monotonic() < active.parked_at + self._ttl:
            return record
        self._free(record, active)
        return self._table.current(record)

    def _forget(self, now: float) -> None:
        """Let go of threads whose run was parked too long ago, though nobody asks for them."""
        while self._parked_at:
            key, parked_at = next(iter(self._parked_at.items()))
            if now < parked_at + self._ttl:
                return
            del self._parked_at[key]
            record = self._table.by_key(key)
            if record is not None:
                self._table.drop_if_forgettable(self.expire(record))

    # -- looking --------------------------------------------------------------------------

    def look_at(self, record: ThreadRecord) -> None:
        """Find out, in the background, whether a run that is parked here was answered elsewhere."""
        active = record.active
        if active is None or active.lifecycle != "suspended" or record.key in self._looking:
            return
        if self._tasks.is_closed:
            return
        self._looking.add(record.key)

        async def look() -> None:
            try:
                await self._let_go_if_answered(record, active)
            finally:
                self._looking.discard(record.key)

        self._tasks.start(look(), name=f"parked:{active.run_id}")

    def look_after(self, record: ThreadRecord) -> None:
        """Look now, and again and again as long as something waits behind a parked run."""
        if not record.waits_for_parked or self._timers.is_closed:
            return
        self.look_at(record)
        if not self._is_watching:
            self._is_watching = True
            self._timers.start(self._watch(), name="parked-runs")

    async def _watch(self) -> None:
        try:
            while waiting := [r for r in self._table if r.waits_for_parked]:
                await self._clock.sleep(self._next_look(waiting))
                for record in waiting:
                    current = self.expire(record)
                    if current.waits_for_parked and current.active is not None:
                        await self._let_go_if_answered(current, current.active)
                    self._table.drop_if_forgettable(current)
        finally:
            self._is_watching = False

    def _next_look(self, waiting: Sequence[ThreadRecord]) -> float:
        """Seconds until some run was parked for too long, but not more than ``LOOK_SECONDS``."""
        parked = [
            r.active.parked_at for r in waiting if r.active and r.active.parked_at is not None
        ]
        first = min(parked, default=math.inf) + self._ttl
        return max(min(first - self._clock.monotonic(), LOOK_SECONDS), 0.0)

    async def _let_go_if_answered(self, record: ThreadRecord, parked: ActiveRun) -> None:
        """Another process may have answered a run that was parked here: its row tells."""
        try:
            is_parked = await parked.agent.is_parked(parked.run_id)
        except Exception:
            logger.warning(
                "parked run can't be looked up", exc_info=True, extra={"run_id": parked.run_id}
            )
            return
        is_ours = record.active is parked and parked.lifecycle == "suspended"
        if not is_parked and is_ours and record.reservation is None:
            self._free(record, parked)
