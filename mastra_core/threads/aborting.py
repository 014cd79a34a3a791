"""End the run of a thread from outside, and perhaps what waits behind it (signals.md 8.5)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from mastra_core.base.tasks import TaskSupervisor
from mastra_core.errors import ForeignRunError
from mastra_core.loop.interrupt import Interrupt
from mastra_core.streaming.output import ModelOutput
from mastra_core.threads.broadcasting import show_abort
from mastra_core.threads.record import ActiveRun, ThreadRecord
from mastra_core.threads.table import ThreadTable

__all__ = ("MAX_ABORTED_IDS", "RunAborts")

#: Runs that were aborted before they began; the oldest are forgotten.
MAX_ABORTED_IDS: Final = 10_000


class RunAborts:
    """Aborts runs by thread or by id, also those that haven't begun."""

    def __init__(self, table: ThreadTable, *, tasks: TaskSupervisor) -> None:
        self._table = table
        self._tasks = tasks
        #: Runs at work in this process, with or without a thread.
        self.at_work: dict[str, tuple[ModelOutput, Interrupt]] = {}
        self._unborn: OrderedDict[str, None] = OrderedDict()

    def abort_thread(
        self,
        record: ThreadRecord,
        *,
        clear: bool,
        expected_run_id: str | None = None,
        local_only: bool = False,
    ) -> bool:
        """Abort the run of a thread; False if there is none, or not the expected one."""
        holder, outside = record.holder, self._table.outside
        active_id = holder.run_id if holder is not None else None
        if holder is None and outside is not None and not local_only:
            remote = outside.reach.remote_run(record.key)
            active_id = remote[0] if remote is not None else None
        if expected_run_id is not None and active_id != expected_run_id:
            return False
        if clear:
            cleared = record.queues.clear()
            if outside is not None:
                outside.cancelled(record.key, cleared)
            if record.starting is not None:
                record.starting.is_cancelled = True
                record.queues.changed()
        if holder is None:
            return (
                outside is not None
                and not local_only
                and outside.ask_abort(record.key, clear_pending_signals=clear)
            )
        # A parked run may be about to go on: what is being set up is the same run.
        for part in (record.active, record.reservation):
            if part is not None and part.run_id == holder.run_id:
                part.interrupt.abort()
        active = record.active
        if active is not None and outside is not None:
            outside.tell_abort(active)
        if active is not None and active.lifecycle == "suspended":
            self._abort_parked(record, active)
        else:
            for subscription in record.subscriptions:
                subscription.cut_run(holder.run_id)
        return True

    def _abort_parked(self, record: ThreadRecord, parked: ActiveRun) -> None:
        """
        One that waits for data is removed; one that waits for a decision stays, and its
        answer finds it aborted (signals.md 8.5 step 6, decisions.md 3 and 10).
        """
        if parked.output.record.waits_for_approval:
            return
        show_abort(record, parked.run_id)
        self._tasks.start(parked.agent.cancel_parked(parked.run_id), name=f"cancel:{parked.run_id}")

    def abort_at_work(self, run_id: str, *, agent_id: str) -> bool:
        """
        Abort a run that is at work or being set up here; False if there is none.

        Raises:
            ForeignRunError: It is another agent's.
        """
        found: tuple[str, Interrupt] | None = None
        if run_id in self.at_work:
            output, interrupt = self.at_work[run_id]
            found = (output.agent_id, interrupt)
        for record in self._table:
            reservation = record.reservation
            if reservation is not None and reservation.run_id == run_id:
                found = (reservation.agent_id, reservation.interrupt)
        if found is None:
            return False
        owner, interrupt = found
        if owner != agent_id:
            raise ForeignRunError(run_id=run_id, agent_id=agent_id, owner=owner)
        interrupt.abort()
        return True

    def abort_stream(self, run_id: str, *, agent_id: str) -> bool:
        """
        Abort a run by its id, wherever it stands; one that isn't known (yet) is aborted when it
        begins, and the answer is False.

        Raises:
            ForeignRunError: It is another agent's.
        """
        if self.abort_at_work(run_id, agent_id=agent_id):
            record = self._table.of_run(run_id)
            if record is not None:
                for subscription in record.subscriptions:
                    subscription.cut_run(run_id)
            return True
        record = self._table.of_run(run_id)
        if record is None:
            self._unborn[run_id] = None
            while len(self._unborn) > MAX_ABORTED_IDS:
                self._unborn.popitem(last=False)
            return False
        assert record.active is not None
        if record.active.agent.id != agent_id:
            owner = record.active.agent.id
            raise ForeignRunError(run_id=run_id, agent_id=agent_id, owner=owner)
        return self.abort_thread(record, clear=False, expected_run_id=run_id)

    def begin(self, run_id: str, interrupt: Interrupt) -> None:
        """A run begins: perhaps it was aborted before."""
        if run_id in self._unborn:
            del self._unborn[run_id]
            interrupt.abort()
