"""The queues of one thread, as its run drains them (signals.md 9)."""

from __future__ import annotations

from collections.abc import Sequence

from mastra_core.threads.outside import OutsideThreads
from mastra_core.threads.record import ThreadRecord
from mastra_core.wire.signals import Signal

__all__ = ("ThreadSignals",)


class ThreadSignals:
    """Gives a run the input that arrived for it; an aborted one gets none."""

    def __init__(
        self, record: ThreadRecord, run_id: str, outside: OutsideThreads | None = None
    ) -> None:
        self._record = record
        self._run_id = run_id
        self._outside = outside

    def _is_aborted(self) -> bool:
        interrupt = self._record.interrupt_of(self._run_id)
        return interrupt is not None and interrupt.is_aborted

    def drain_pre_run(self) -> list[Signal]:
        """Signals for the first request."""
        return [] if self._is_aborted() else self._take(self._record.queues.take_pre_run())

    def drain_pending(self) -> list[Signal]:
        """Signals that arrived during the step."""
        return [] if self._is_aborted() else self._take(self._record.queues.take_pending())

    def put_back(self, signals: Sequence[Signal]) -> None:
        """These were drained and didn't enter the transcript: they wait again, at their place."""
        self._record.put_back(self._run_id, signals)

    def _take(self, signals: list[Signal]) -> list[Signal]:
        return self._record.take(self._run_id, signals)

    def assert_owned(self) -> None:
        """
        Before a write to the thread: it is still this run's (signals.md G3).

        Raises:
            LeaseLostError: It isn't.
        """
        if self._outside is not None:
            self._outside.guard(self._record.key)

    async def are_kept(self) -> bool:
        """
        Does the inbox still hold what this run took?

        Raises:
            StorageError: It can't be read.
        """
        taken = self._record.taken.get(self._run_id)
        if self._outside is None or not taken:
            return False
        waiting = await self._outside.reach.waiting(self._record.key)
        return any(entry.signal.id in taken for entry in waiting)
