"""All threads of one application object in this process (signals.md 7, 8, 11).

Nothing here is shared between application objects: two of them in one process know nothing
of each other's runs. ``sending`` decides where input goes, ``queues`` holds it, ``turns`` starts
what waits, ``aborting`` ends runs, ``parked`` looks after those that wait for an answer,
``subscription`` shows everything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.bus.timers import within
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.contracts.signal_sink import (
    Accepted,
    IfIdle,
    SendSignalResult,
    SignalTarget,
)
from mastra_core.errors import ClosedError, RunArgumentError, RunTimeoutError
from mastra_core.loop.interrupt import Interrupt
from mastra_core.messages.detect import MessageInput
from mastra_core.streaming.output import ModelOutput
from mastra_core.threads.aborting import RunAborts
from mastra_core.threads.claims import ThreadClaims
from mastra_core.threads.history import HistoryPage
from mastra_core.threads.outside import OutsideThreads
from mastra_core.threads.parked import SUSPENDED_RUN_TTL_SECONDS, ParkedRuns
from mastra_core.threads.queue_events import QueueListener
from mastra_core.threads.queues import QueueLimits
from mastra_core.threads.record import ActiveRun, Reservation, ThreadAgent, ThreadRecord
from mastra_core.threads.run_signals import ThreadSignals
from mastra_core.threads.sending import SignalSender
from mastra_core.threads.signing import EventSigner
from mastra_core.threads.state_signals import StateSender
from mastra_core.threads.subscription import ThreadSubscription
from mastra_core.threads.table import ThreadTable
from mastra_core.threads.thread_key import thread_key
from mastra_core.threads.turns import GivenUp, ThreadTurns
from mastra_core.wire.signals import Signal

__all__ = ("ThreadRuntime",)


class ThreadRuntime:
    """
    Routes signals, starts turns, keeps runs of one thread apart.

    Args:
        clock: Gives times.
        ids: Gives ids.
        suspended_run_ttl: Seconds that a parked run keeps its thread.
        limits: How much input may wait.
        signer: Tells control events of ours from those of strangers.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        suspended_run_ttl: float = SUSPENDED_RUN_TTL_SECONDS,
        limits: QueueLimits | None = None,
        signer: EventSigner | None = None,
    ) -> None:
        self.tasks = TaskSupervisor("threads")
        #: What only waits for its time.
        self._timers = TaskSupervisor("thread timers")
        self._table = ThreadTable(limits or QueueLimits())
        self._turns = ThreadTurns(
            self._table, clock=clock, ids=ids, tasks=self.tasks, timers=self._timers
        )
        self._parked = ParkedRuns(
            self._table,
            clock=clock,
            ttl=suspended_run_ttl,
            tasks=self.tasks,
            timers=self._timers,
            free=self._turns.freed,
        )
        self._sender = SignalSender(
            self._table,
            clock=clock,
            ids=ids,
            tasks=self.tasks,
            turns=self._turns,
            parked=self._parked,
        )
        self._aborts = RunAborts(self._table, tasks=self.tasks)
        self.clock = clock
        self._ids = ids
        #: Signs what tells other processes to do something; it counts what it refuses.
        self.signer = signer or EventSigner()
        #: States of lanes that are sent from outside.
        self.states = StateSender(clock=clock, ids=ids, patience=self._lane_patience)

    def _lane_patience(self) -> float:
        """How long another process may take; in one process they wait for each other anyway."""
        return 0.0 if self.outside is None else self.outside.reach.ttl_seconds

    @property
    def on_idle(self) -> Callable[[str, str], None] | None:
        """Told the thread whenever a run of it has ended (notifications.md S18)."""
        return self._turns.on_idle

    @on_idle.setter
    def on_idle(self, callback: Callable[[str, str], None] | None) -> None:
        self._turns.on_idle = callback

    @property
    def on_given_up(self) -> GivenUp | None:
        """Told what will never get a turn, and why (signals.md G22)."""
        return self._turns.on_given_up

    @on_given_up.setter
    def on_given_up(self, callback: GivenUp | None) -> None:
        self._turns.on_given_up = callback

    @property
    def outside(self) -> OutsideThreads | None:
        """Shares the threads with other processes; None if nobody else can reach them."""
        return self._table.outside

    @outside.setter
    def outside(self, outside: OutsideThreads | None) -> None:
        self._table.outside = outside

    @property
    def claims(self) -> ThreadClaims | None:
        """Threads that sessions claim, here and elsewhere; None where there is no bus."""
        return self._table.claims

    @claims.setter
    def claims(self, claims: ThreadClaims | None) -> None:
        self._table.claims = claims

    async def take_claimed(
        self,
        agent: ThreadAgent,
        resource_id: str,
        thread_id: str,
        signal: Signal,
        options: Mapping[str, Any],
    ) -> Accepted:
        """
        A signal for a session of this process, from another one: it starts a run, or has one of
        its own after the active one.

        Raises:
            MastraError: The run can't be set up.
        """
        target = SignalTarget(
            resource_id=resource_id, thread_id=thread_id, if_idle=IfIdle(stream_options=options)
        )
        return await self._sender.queue(agent, signal, target, owner_id=None).accepted

    # -- for those who share threads -------------------------------------------------------

    def record(self, resource_id: str | None, thread_id: str) -> ThreadRecord:
        """What is known of a thread; made if nothing was."""
        return self._table.of(resource_id, thread_id)

    def known_record(self, key: str) -> ThreadRecord | None:
        """What is known of a thread; None if nothing is."""
        return self._table.by_key(key)

    def drop_if_forgettable(self, record: ThreadRecord) -> None:
        """Forget a thread on which nothing happens."""
        self._table.drop_if_forgettable(record)

    def look_after(self, record: ThreadRecord) -> None:
        """Something waits behind a run that may wait for an answer."""
        self._parked.look_after(record)

    def queue_turn(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        *,
        run_id: str | None,
        stream_options: Mapping[str, Any],
        number: int = 0,
        is_begun: bool = False,
    ) -> None:
        """
        Input that was accepted elsewhere gets a run of its own when the thread is free; first what
        a dead run had begun to answer.
        """
        self._turns.adopt(
            *(record, agent, signal),
            run_id=run_id,
            options=stream_options,
            number=number,
            is_begun=is_begun,
        )
        self._parked.look_after(record)

    def after_run(self, record: ThreadRecord) -> None:
        """If the thread is free, whatever waits gets its turn."""
        self._turns.go_on(record)

    def give_up(self, record: ThreadRecord, run_id: str, *, holder: str) -> None:
        """Another run has the thread, or none can have it: a reservation is needed no more."""
        self._turns.give_up(record, run_id, holder=holder)

    def remember(self, key: str, signal_id: str, answer: Accepted) -> None:
        """A signal that was taken: its repetition has no second effect."""
        self._sender.remember(key, signal_id, answer)

    def has_taken(self, key: str, signal_id: str) -> bool:
        """Was this signal taken here lately, or cancelled?"""
        return self._sender.has_taken(key, signal_id)

    def is_cancelled(self, key: str, signal_id: str) -> bool:
        """Was this signal cancelled, here or in another process?"""
        return self._sender.is_cancelled(key, signal_id)

    def forget_signals(self, key: str, signal_ids: Sequence[str]) -> None:
        """These were cancelled in another process."""
        self._sender.forget(key, list(signal_ids))

    # -- looking --------------------------------------------------------------------------

    def known_threads(self) -> list[str]:
        """Keys of the threads of which something is known here."""
        return self._table.keys()

    def is_active(self, resource_id: str | None, thread_id: str) -> bool:
        """Does a run hold the thread: reserved, running or waiting for an answer?"""
        record = self._table.find(resource_id, thread_id)
        if record is None:
            return False
        record = self._parked.expire(record)
        self._parked.look_at(record)
        self._table.drop_if_forgettable(record)
        return not record.is_idle

    def active_run_id(self, resource_id: str | None, thread_id: str) -> str | None:
        """Id of the run that holds the thread; None if it is idle."""
        record = self._table.find(resource_id, thread_id)
        holder = record.holder if record is not None else None
        if holder is not None:
            return holder.run_id
        if record is None or self.outside is None:
            return None
        remote = self.outside.reach.remote_run(record.key)
        return remote[0] if remote is not None else None

    def active_runs(self) -> list[dict[str, str]]:
        """``{run_id, resource_id?, thread_id}`` of every thread that a run holds here."""
        found = []
        for record in self._table:
            if (holder := record.holder) is not None:
                resource = {"resource_id": record.resource_id} if record.resource_id else {}
                thread = {"thread_id": record.thread_id}
                found.append({"run_id": holder.run_id, **resource, **thread})
        return found

    def counts(self) -> dict[str, int]:
        """What this process keeps for threads: all zero when nothing happens on any of them."""
        outside = {} if self.outside is None else self.outside.reach.counts()
        return {**self._table.counts(), **outside}

    # -- input ----------------------------------------------------------------------------

    def send_signal(
        self, agent: ThreadAgent, value: Mapping[str, Any] | Signal, target: SignalTarget
    ) -> SendSignalResult:
        """Create a signal and route it; see ``SignalSender.send``."""
        return self._sender.send(agent, value, target)

    def send_created(
        self, agent: ThreadAgent, signal: Signal, target: SignalTarget
    ) -> SendSignalResult:
        """Route a signal whose id was given here just now."""
        return self._sender.send_created(agent, signal, target)

    def queue_signal(
        self,
        agent: ThreadAgent,
        value: Mapping[str, Any] | Signal,
        target: SignalTarget,
        *,
        owner_id: str | None = None,
    ) -> SendSignalResult:
        """Create a signal that gets a run of its own; see ``SignalSender.queue``."""
        return self._sender.queue(agent, value, target, owner_id=owner_id)

    def would_take(self, agent: ThreadAgent, target: SignalTarget) -> bool:
        """Would a signal find a way into this thread, as things stand?"""
        return self._sender.would_take(agent, target)

    def continue_with_messages(
        self,
        agent: ThreadAgent,
        messages: MessageInput,
        *,
        resource_id: str,
        thread_id: str,
        run_id: str | None = None,
        stream_options: Mapping[str, Any] | None = None,
    ) -> str:
        """
        Go on with the conversation after the active run and its input (signals.md 8.6).

        Returns:
            The id of the run that gets the messages.

        Raises:
            ClosedError: The application is closed.
        """
        self._check_open()
        record = self._parked.expire(self._table.of(resource_id, thread_id))
        started = self._turns.go_on_with(
            record, agent, messages, run_id=run_id, options=stream_options or {}
        )
        self._parked.look_after(record)
        return started

    def cancel_signals(
        self, resource_id: str | None, thread_id: str, signal_ids: Sequence[str]
    ) -> list[str]:
        """Remove waiting signals; the ids of those that were (signals.md 8.4)."""
        return self._sender.cancel(resource_id, thread_id, list(signal_ids))

    def cancel_owner(
        self, resource_id: str | None, thread_id: str, *, agent_id: str, owner_id: str
    ) -> list[str]:
        """Remove what an agent queued for an owner; the ids of what was."""
        return self._sender.cancel_owner(
            resource_id, thread_id, agent_id=agent_id, owner_id=owner_id
        )

    def watch_queue(
        self,
        resource_id: str | None,
        thread_id: str,
        listener: QueueListener,
        *,
        agent_id: str,
        owner_id: str | None,
    ) -> Callable[[], None]:
        """
        Tell a listener how many turns wait, now and whenever that changes (signals.md 8.3).

        Raises:
            ClosedError: The application is closed.
        """
        self._check_open()
        record = self._table.of(resource_id, thread_id)
        stop = record.watchers.watch(record.queues, listener, agent_id=agent_id, owner_id=owner_id)

        def unsubscribe() -> None:
            stop()
            self._table.drop_if_forgettable(record)

        return unsubscribe

    def _check_open(self) -> None:
        if self.tasks.is_closed:
            raise ClosedError(what="application")

    # -- runs -----------------------------------------------------------------------------

    async def reserve(
        self, resource_id: str | None, thread_id: str, *, run_id: str, agent_id: str
    ) -> Reservation:
        """
        Wait until no run is at work on the thread, then promise it to this one.

        A parked run of the same agent doesn't hold up others (signals.md 11.4).

        Raises:
            ClosedError: The application is closed, perhaps while we waited.
        """
        while True:
            self._check_open()
            # A thread that nobody used between two runs was forgotten: never keep its record.
            record = self._parked.expire(self._table.of(resource_id, thread_id))
            known = record.reservation
            reserved = self._try_reserve(record, run_id=run_id, agent_id=agent_id)
            if reserved is not None:
                self._aborts.begin(run_id, reserved.interrupt)
                if reserved is known or await self._owns(record, reserved):
                    return reserved
                continue
            change = record.change()
            self._parked.look_after(record)
            try:
                await change
            finally:
                record.stop_waiting(change)

    async def _owns(self, record: ThreadRecord, reserved: Reservation) -> bool:
        """Is the thread ours now? If another process has it, this waits until it is free."""
        outside = self.outside
        if outside is None or await outside.own_reserved(record, reserved):
            return True
        await outside.reach.wait_until_free(record.key)
        return False

    def _try_reserve(
        self, record: ThreadRecord, *, run_id: str, agent_id: str
    ) -> Reservation | None:
        reservation, active = record.reservation, record.active
        if reservation is not None:
            return reservation if reservation.run_id == run_id else None
        if active is not None:
            is_other = active.run_id != run_id and active.agent.id != agent_id
            if active.lifecycle != "suspended" or is_other:
                return None
        reserved = self._turns.reserve(record, run_id=run_id, agent_id=agent_id)
        if active is not None and active.run_id == run_id and active.interrupt.is_aborted:
            # Aborted while it was parked: what goes on now is its end.
            reserved.interrupt.abort()
        return reserved

    def cancel_reservation(self, resource_id: str | None, thread_id: str, run_id: str) -> None:
        """The run could not be set up: the thread is free again."""
        self._turns.give_back(resource_id, thread_id, run_id)

    def fence_of(self, resource_id: str | None, thread_id: str) -> FenceToken | None:
        """What the writes of a run carry that owns the thread; None where nobody looks at it."""
        if self.outside is None:
            return None
        return self.outside.reach.fence(thread_key(resource_id, thread_id))

    def signals_for(self, resource_id: str | None, thread_id: str, run_id: str) -> ThreadSignals:
        """The queues that this run drains."""
        return ThreadSignals(self._table.of(resource_id, thread_id), run_id, self.outside)

    def register(
        self,
        resource_id: str | None,
        thread_id: str,
        *,
        agent: ThreadAgent,
        output: ModelOutput,
        interrupt: Interrupt,
        stream_options: Mapping[str, Any],
    ) -> None:
        """The run starts now; readers of the thread get its chunks."""
        record = self._table.of(resource_id, thread_id)
        if record.reservation is not None:
            record.reservation.settle(output.run_id)
        record.reservation = None
        record.active = active = ActiveRun(
            run_id=output.run_id,
            agent=agent,
            output=output,
            interrupt=interrupt,
            stream_options=stream_options,
        )
        if self.outside is not None:
            self.outside.begin(record, active, stream_id=self._ids.new("stream"))
        for subscription in record.subscriptions:
            subscription.add_run(output.run_id, output.buffer)

    def parked(self, resource_id: str | None, thread_id: str, run_id: str) -> None:
        """The run waits for an answer; it keeps the thread."""
        record = self._table.of(resource_id, thread_id)
        active = record.active
        if active is not None and active.run_id == run_id:
            self._parked.park(record, active)

    def ended(self, resource_id: str | None, thread_id: str, output: ModelOutput) -> None:
        """A segment is over: a parked run keeps the thread, an ended one frees it."""
        record = self._table.of(resource_id, thread_id)
        active = record.active
        if active is None or active.output is not output:
            record.notify()
        elif output.status == "suspended":
            self._parked.park(record, active)
            record.notify()
            if self.outside is not None:
                self.outside.finish(record, active, None)
        elif self.outside is None:
            self._turns.freed(record, active)
        else:
            # Others hear everything that it said before anything else happens (8.1).
            self.outside.finish(record, active, lambda: self._free_if_active(record, active))

    def _free_if_active(self, record: ThreadRecord, ended: ActiveRun) -> None:
        if record.active is ended:
            self._turns.freed(record, ended)

    def check_new(self, run_id: str) -> None:
        """
        Refuse a second run under the id of one that this process knows.

        Raises:
            RunArgumentError: It is being set up, at work, or waits for an answer.
            ClosedError: The application is closed.
        """
        self._check_open()
        if run_id in self._aborts.at_work or self._table.of_run(run_id) is not None:
            raise RunArgumentError(
                f"There is a run {run_id!r} already.",
                id="AGENT_RUN_ID_IN_USE",
                hint="Leave run_id out, and each run gets an id of its own.",
                details={"argument": "run_id"},
            )

    def entered(self, output: ModelOutput, interrupt: Interrupt) -> None:
        """This run is at work now."""
        self._aborts.begin(output.run_id, interrupt)
        self._aborts.at_work[output.run_id] = (output, interrupt)

    def left(self, output: ModelOutput) -> None:
        """This run, or this segment of it, is at work no more."""
        known = self._aborts.at_work.get(output.run_id)
        if known is not None and known[0] is output:
            del self._aborts.at_work[output.run_id]

    def look_at_run(self, run_id: str) -> None:
        """Somebody did something to this parked run and doesn't know how it ended."""
        for record in self._table:
            if record.active is not None and record.active.run_id == run_id:
                self._parked.look_at(record)

    def release_parked(self, run_id: str) -> None:
        """A parked run has ended without an answer: its thread is free."""
        for record in self._table:
            active = record.active
            if active is not None and active.run_id == run_id:
                self._turns.freed(record, active)
                return

    # -- aborting -------------------------------------------------------------------------

    def abort(
        self,
        resource_id: str | None,
        thread_id: str,
        *,
        clear_pending_signals: bool = False,
        expected_run_id: str | None = None,
        local_only: bool = False,
    ) -> bool:
        """Abort the run of a thread (signals.md 8.5); False if there is none."""
        record = self._table.find(resource_id, thread_id)
        if record is None:
            return False
        is_aborted = self._aborts.abort_thread(
            record,
            clear=clear_pending_signals,
            expected_run_id=expected_run_id,
            local_only=local_only,
        )
        self._table.drop_if_forgettable(record)
        return is_aborted

    async def abort_and_wait(
        self,
        resource_id: str | None,
        thread_id: str,
        *,
        clear_pending_signals: bool,
        expected_run_id: str | None,
        local_only: bool,
        timeout_ms: int,
    ) -> bool:
        """
        Abort the run of a thread, in whichever process, and wait until it is over (G13).

        Returns:
            False if there is no (such) run.

        Raises:
            RunTimeoutError: It isn't over in time; it was asked to end.
            LeaseUnavailableError: Nobody knows whose the thread is.
            PubSubError: The process that has the thread can't be asked.
            ClosedError: The application is closed.
        """
        self._check_open()
        record = self._table.of(resource_id, thread_id)
        holder, outside = record.holder, self._table.outside
        aborted = False

        async def work() -> None:
            nonlocal aborted
            if holder is not None:
                await record.until_over(holder.run_id)
                aborted = True
            elif outside is not None and not local_only:
                aborted = await outside.abort_and_wait(
                    record,
                    clear_pending_signals=clear_pending_signals,
                    expected_run_id=expected_run_id,
                    request_id=self._ids.new("request"),
                )

        try:
            is_asked = self._aborts.abort_thread(
                record,
                clear=clear_pending_signals,
                expected_run_id=expected_run_id,
                # Others are asked below, by who knows for certain whose the thread is.
                local_only=True,
            )
            if holder is not None and not is_asked:
                return False
            if not await within(self.clock, work(), timeout_ms / 1000):
                raise RunTimeoutError(
                    f"The run of thread {thread_id!r} isn't over {timeout_ms} ms after it was "
                    "asked to end.",
                    id="AGENT_THREAD_ABORT_TIMEOUT",
                    run_id=holder.run_id if holder is not None else "",
                    limit_ms=timeout_ms,
                    what="end",
                )
            return aborted
        finally:
            self._table.drop_if_forgettable(record)

    def abort_run(self, run_id: str, *, agent_id: str) -> bool:
        """
        Abort a run that is at work or being set up here; False if there is none.

        Raises:
            ForeignRunError: It is another agent's.
        """
        return self._aborts.abort_at_work(run_id, agent_id=agent_id)

    def abort_stream(self, run_id: str, *, agent_id: str) -> bool:
        """
        Abort a run by its id, wherever it stands; one that hasn't begun is aborted when it does.

        Raises:
            ForeignRunError: It is another agent's.
        """
        return self._aborts.abort_stream(run_id, agent_id=agent_id)

    # -- reading --------------------------------------------------------------------------

    def subscribe(
        self,
        resource_id: str | None,
        thread_id: str,
        *,
        hide_signals: bool | Sequence[str] | None = None,
        history: Callable[[], Awaitable[HistoryPage]] | None = None,
    ) -> ThreadSubscription:
        """
        Follow all runs of a thread from now on, and the active one from its start.

        Raises:
            ClosedError: The application is closed.
        """
        self._check_open()
        record = self._table.of(resource_id, thread_id)

        def unsubscribe(subscription: ThreadSubscription) -> None:
            with suppress(ValueError):
                record.subscriptions.remove(subscription)
            if self.outside is not None:
                self.outside.unfollow(record.key, subscription)
            self._table.drop_if_forgettable(record)

        def abort(**options: Any) -> bool:
            return self.abort(resource_id, thread_id, **options)

        subscription = ThreadSubscription(
            hide_signals=hide_signals,
            active_run_id=lambda: self.active_run_id(resource_id, thread_id),
            abort=abort,
            unsubscribe=unsubscribe,
            history=history,
        )
        record.subscriptions.append(subscription)
        if record.active is not None and not record.active.interrupt.is_aborted:
            subscription.add_run(record.active.run_id, record.active.output.buffer)
        if self.outside is not None:
            subscription.ready = self.tasks.start(
                self.outside.follow(record.key, subscription), name=f"follow:{record.key}"
            )
        return subscription

    # -- the end --------------------------------------------------------------------------

    async def close(self, *, grace: float = 0.0) -> None:
        """Stop all turns that this runtime started and end all subscriptions."""
        await self._timers.close()
        await self.tasks.close(grace=grace)
        for record in self._table:
            for subscription in list(record.subscriptions):
                subscription.unsubscribe()
            # Whoever waits for the thread learns that it will never be free.
            record.notify()

    async def store_waiting(self) -> None:
        """
        Store accepted signals whose turn will not come in this process; called when its runs
        have ended and the store is still open.
        """
        await self._turns.store_waiting()
