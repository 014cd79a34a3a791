"""Whose turn it is when a thread is free, and starting it (signals.md 8.2, 8.6)."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.errors import MastraError, SignalQueueFullError
from mastra_core.loop.interrupt import Interrupt
from mastra_core.messages.detect import MessageInput
from mastra_core.messages.signals import message_from_signal
from mastra_core.threads.broadcasting import show_failure
from mastra_core.threads.futures import settle, settle_error, stopped
from mastra_core.threads.queues import QueuedTurn
from mastra_core.threads.record import ActiveRun, Reservation, ThreadAgent, ThreadRecord
from mastra_core.threads.table import ThreadTable
from mastra_core.wire.signals import Signal

__all__ = ("TURN_ATTEMPTS", "GivenUp", "ThreadTurns")

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Told the agent's id, resource, thread, signal, and why no run could start for it.
GivenUp = Callable[[str, str, str, Signal, Exception], Awaitable[None]]

#: How often a queued turn is tried that can't start, and the pauses between (signals.md G22).
TURN_ATTEMPTS: Final = 10
_RETRY_FIRST: Final = 1.0
_RETRY_LONGEST: Final = 60.0
#: Who gets the thread sooner after a signal was kept has it before anybody else can have answered
#: that and died: that takes most of the time of a lease, of which this much counts at most.
_AT_ONCE_SECONDS: Final = 0.25
_AT_ONCE_SHARE: Final = 1 / 3
#: What answers input of the run that ended comes before what waits for a run of its own.
_FOLLOW_UP: Final = 0
_QUEUED: Final = 1


class ThreadTurns:
    """Starts the runs that signals and continuations cause, one after the other per thread."""

    def __init__(
        self,
        table: ThreadTable,
        *,
        clock: Clock,
        ids: Ids,
        tasks: TaskSupervisor,
        timers: TaskSupervisor,
    ) -> None:
        self._table = table
        self._clock = clock
        self._ids = ids
        self._tasks = tasks
        self._timers = timers
        self._numbers = itertools.count()
        #: The run that ended last on a thread, while its follow-up is chosen.
        self._last_runs: dict[str, ActiveRun] = {}
        #: Told the thread whenever a run of it has ended and nothing waits.
        self.on_idle: Callable[[str, str], None] | None = None
        #: Told what will never get a turn, and why (signals.md G22).
        self.on_given_up: GivenUp | None = None

    # -- asking for a turn ----------------------------------------------------------------

    def reserve(self, record: ThreadRecord, *, run_id: str, agent_id: str) -> Reservation:
        """Promise the thread to a run that is being set up."""
        reservation = Reservation(run_id=run_id, agent_id=agent_id, interrupt=Interrupt())
        if self._table.outside is not None:
            reservation.winner = asyncio.get_running_loop().create_future()
        record.reservation = reservation
        return reservation

    def wake(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        options: Mapping[str, Any],
        accepted: asyncio.Future[Accepted],
        *,
        is_turn: bool = False,
        is_named: bool = False,
    ) -> None:
        """
        Start a run on an idle thread with this signal; ``accepted`` gets its output.

        Args:
            record: The thread.
            agent: Whose run it is.
            signal: Opens the run.
            options: Options of the run.
            accepted: Told how the signal was taken.
            is_turn: If another process has the thread, the signal gets a run of its own there
                (signals.md G11).
            is_named: Another process may have got the same signal, and answered it meanwhile.
        """
        run_id = self._ids.new("run")
        self.reserve(record, run_id=run_id, agent_id=agent.id)
        # What a wake starts spans the background tasks that it causes (signals.md 6.2).
        options = {"until_idle": True, **options}
        outside = self._table.outside
        # Now: what is sent behind it, and waits here, is kept at once.
        number = outside.next_number() if outside is not None else 0

        async def wake() -> None:
            try:
                answer = await self._start(
                    record,
                    run_id,
                    self._wake_here_or_there(
                        *(record, agent, signal, run_id, options),
                        number=number,
                        is_turn=is_turn,
                        is_named=is_named,
                    ),
                )
            except SignalQueueFullError as exc:
                # No run has failed: another process has one, and no room for more input.
                settle_error(accepted, exc)
            except Exception as exc:  # noqa: BLE001 - the sender gets it
                settle_error(accepted, exc)
                self._show_failure(record, run_id, str(exc))
            except BaseException:
                settle_error(accepted, stopped())
                raise
            else:
                settle(accepted, answer)

        self._tasks.start(wake(), name=f"wake:{run_id}")

    async def _wake_here_or_there(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        run_id: str,
        options: Mapping[str, Any],
        *,
        number: int,
        is_turn: bool,
        is_named: bool,
    ) -> Accepted:
        """Start the run, unless another process has the thread: then it gets the signal."""
        signals, outside = [signal], self._table.outside
        if outside is not None:
            entry = outside.entry_of(
                *(agent, signal), run_id=run_id, turn=is_turn, options=options, number=number
            )
            begun = self._clock.monotonic()
            owner = await outside.own(record, entry, run_id, is_new=True)
            if owner is not None:
                # A turn gets the run that it was promised, wherever that runs.
                return Accepted(action="deliver", run_id=run_id if is_turn else owner)
            if outside.is_cancelled(record, signal):
                # It was taken back while the thread was being taken.
                await outside.reach.answered(record.key, [signal.id])
                self.give_back(record.resource_id, record.thread_id, run_id)
                return Accepted(action="discard")
            at_once = min(_AT_ONCE_SECONDS, _AT_ONCE_SHARE * outside.reach.ttl_seconds)
            may_be_known = is_named or self._clock.monotonic() - begun > at_once
            if may_be_known and await outside.is_answered(record, agent, signal):
                self.give_back(record.resource_id, record.thread_id, run_id)
                return Accepted(action="deliver", run_id=None)
            opening = await outside.opening(record, entry, run_id)
            if not opening:
                if opening is None:
                    self.adopt(
                        *(record, agent, signal),
                        run_id=run_id,
                        options=options,
                        number=entry.number,
                    )
                self.give_back(record.resource_id, record.thread_id, run_id)
                return Accepted(action="deliver", run_id=run_id if opening is None else None)
            signals = opening
        elif is_named and await self._is_answered(record, agent, signal):
            self.give_back(record.resource_id, record.thread_id, run_id)
            return Accepted(action="deliver", run_id=None)
        try:
            output = await agent.start_turn(
                signals,
                run_id=run_id,
                thread_id=record.thread_id,
                resource_id=record.resource_id,
                stream_options=options,
            )
        except Exception:
            if outside is not None:
                # Its sender learns that it wasn't taken, so nobody may answer it later.
                await outside.reach.answered(record.key, [signal.id])
            raise
        return Accepted(action="wake", run_id=run_id, output=output)

    def queue(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        options: Mapping[str, Any],
        *,
        owner_id: str | None = None,
        is_named: bool = False,
    ) -> str:
        """
        Let a signal wait for a run of its own; returns the id of that run.

        Args:
            record: The thread.
            agent: Whose run it is.
            signal: What waits.
            options: Options of the run.
            owner_id: Who may count and cancel it.
            is_named: It may have been sent before, and answered.

        Raises:
            SignalQueueFullError: Too much waits already.
        """
        record.queues.admit(signal, thread_id=record.thread_id)
        run_id = self._ids.new("run")
        record.queues.queue(
            QueuedTurn(
                signals=(signal,),
                agent=agent,
                run_id=run_id,
                stream_options=dict(options),
                order=(_QUEUED, next(self._numbers)),
                term=self._term(record),
                owner_id=owner_id,
                is_named=is_named,
            )
        )
        return run_id

    def adopt(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        *,
        run_id: str | None,
        options: Mapping[str, Any],
        number: int,
        is_begun: bool = False,
    ) -> None:
        """Let a signal that was accepted elsewhere wait for a run of its own here."""
        turn = QueuedTurn(
            signals=(signal,),
            agent=agent,
            run_id=run_id or self._ids.new("run"),
            stream_options=dict(options),
            order=(_QUEUED, next(self._numbers)),
            term=self._term(record),
            number=number,
            is_begun=is_begun,
        )
        self._place(record, turn)

    def _place(self, record: ThreadRecord, turn: QueuedTurn) -> None:
        """Let a turn wait among those that were accepted before it and after it."""
        later = record.queues.later_than(turn.accepted)
        turn.order = (_QUEUED, next(self._numbers)) if later is None else later.order
        record.queues.adopt_turn(turn, before=later)

    def go_on_with(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        messages: MessageInput,
        *,
        run_id: str | None,
        options: Mapping[str, Any],
    ) -> str:
        """Messages get a run of their own, after the active one and its input; its id."""
        turn = QueuedTurn(
            messages=messages,
            agent=agent,
            run_id=run_id or self._ids.new("run"),
            stream_options=dict(options),
            order=(_QUEUED, next(self._numbers)),
        )
        record.queues.continuations.append(turn)
        self.go_on(record)
        return turn.run_id

    # -- taking turns ---------------------------------------------------------------------

    def freed(self, record: ThreadRecord, ended: ActiveRun) -> None:
        """The run is over: its thread goes to whatever waits."""
        record.active = None
        record.queues.restart()
        self._last_runs[record.key] = ended
        try:
            self.go_on(record)
        finally:
            self._last_runs.pop(record.key, None)
            record.notify()

    def go_on(self, record: ThreadRecord) -> None:
        """If the thread is free, whatever waits gets its turn (signals.md 8.2)."""
        # No await until the queue is consistent.
        if not record.is_idle:
            return
        if self._tasks.is_closed:
            # Nobody's turn comes any more; ``store_waiting`` keeps what waits.
            record.notify()
            return
        record.queues.fold_pre_run()
        turn = self._next(record)
        if turn is None:
            record.notify()
            if self._table.outside is not None:
                self._table.outside.rest(record)
            if self.on_idle is not None:
                self.on_idle(record.resource_id, record.thread_id)
            self._table.drop_if_forgettable(record)
            return
        record.starting = turn
        self.reserve(record, run_id=turn.run_id, agent_id=turn.agent.id)
        self._tasks.start(self._run(record, turn), name=f"turn:{turn.run_id}")

    def _next(self, record: ThreadRecord) -> QueuedTurn | None:
        last = self._last_runs.get(record.key)
        # Without a run that ended here it is input of one that could not start.
        agent = last.agent if last is not None else record.waiting_agent
        if agent is not None and (first := record.queues.take_follow_up()) is not None:
            return QueuedTurn(
                signals=(first,),
                is_follow_up=True,
                agent=agent,
                run_id=self._ids.new("run"),
                stream_options=last.stream_options if last is not None else {},
                order=(_FOLLOW_UP, next(self._numbers)),
                term=self._term(record),
            )
        return record.queues.take_turn()

    async def _run(self, record: ThreadRecord, turn: QueuedTurn) -> None:
        try:
            await self._start(record, turn.run_id, self._start_queued(record, turn))
        except Exception as exc:  # noqa: BLE001 - whoever reads the thread learns it
            await self._failed(record, turn, exc)
        finally:
            if record.starting is turn:
                record.starting = None

    async def _start_queued(self, record: ThreadRecord, turn: QueuedTurn) -> None:
        """Start a turn; if another process has the thread by now, it gets the input."""
        if turn.messages is not None:
            await turn.agent.continue_turn(
                turn.messages,
                run_id=turn.run_id,
                thread_id=record.thread_id,
                resource_id=record.resource_id,
                stream_options=turn.stream_options,
            )
            return
        first, outside = turn.signals[0], self._table.outside
        for signal in turn.signals[1:]:
            record.queues.adopt(signal, pre_run=True)
        signals = [first]
        if outside is not None:
            entry = outside.entry_of(
                turn.agent,
                first,
                run_id=turn.run_id,
                turn=not turn.is_follow_up,
                options=turn.stream_options,
                number=turn.number,
            )
            turn.number = entry.number
            if await outside.own(record, entry, turn.run_id, is_new=False) is not None:
                return
            if turn.is_cancelled:
                # It was taken back while the thread was being taken.
                record.starting = None
                await outside.reach.answered(record.key, [first.id])
                self.give_back(record.resource_id, record.thread_id, turn.run_id)
                return
            # Another answer may have come behind it: elsewhere, or here to what it was asked with.
            may_be_known = turn.is_named or turn.is_begun
            has_waited = turn.term is None or self._term(record) is not turn.term
            if (has_waited or may_be_known) and await outside.is_answered(
                record, turn.agent, first
            ):
                # Whoever had the thread meanwhile has found it in the inbox.
                self.give_back(record.resource_id, record.thread_id, turn.run_id)
                return
            opening = await outside.opening(record, entry, turn.run_id)
            if not opening:
                record.queues.starting = None
                if opening is None:
                    # Turns from elsewhere wait now, too: it isn't the first any more.
                    self._place(record, turn)
                self.give_back(record.resource_id, record.thread_id, turn.run_id)
                return
            signals = opening
        elif turn.is_named and await self._is_answered(record, turn.agent, first):
            self.give_back(record.resource_id, record.thread_id, turn.run_id)
            return
        # No await from here until it is handed off.
        if turn.is_cancelled:
            signals.remove(first)
        if not signals:
            record.queues.starting = None
            self.give_back(record.resource_id, record.thread_id, turn.run_id)
            return
        record.queues.hand_off(turn)
        await turn.agent.start_turn(
            signals,
            run_id=turn.run_id,
            thread_id=record.thread_id,
            resource_id=record.resource_id,
            stream_options=turn.stream_options,
        )

    async def _is_answered(self, record: ThreadRecord, agent: ThreadAgent, signal: Signal) -> bool:
        return signal.id in await agent.answered(
            thread_id=record.thread_id, message_ids=[signal.id]
        )

    def _term(self, record: ThreadRecord) -> object | None:
        """The lease of the thread: as long as it is the same one, nobody else had it."""
        outside = self._table.outside
        return None if outside is None else outside.reach.term(record.key)

    async def _failed(self, record: ThreadRecord, turn: QueuedTurn, error: Exception) -> None:
        failures = turn.failures + 1
        is_over = turn.is_cancelled or failures >= TURN_ATTEMPTS
        logger.error(
            "queued turn could not start",
            exc_info=error,
            extra={"run_id": turn.run_id, "failures": failures, "final": is_over},
        )
        fate = "was cancelled" if is_over else "was requeued and will deliver on the next turn"
        self._show_failure(
            record,
            turn.run_id,
            f"failed to start follow-up run for queued message: {error}; the message {fate}",
        )
        current = self._table.current(record)
        outside = self._table.outside
        is_kept = outside is not None and outside.keeps_input
        if is_over:
            if outside is not None:
                # What failed so often would fail for ever.
                await outside.reach.answered(record.key, [one.id for one in turn.signals])
            self._table.drop_if_forgettable(current)
        else:
            if record.starting is turn:
                # It waits in one place, and nobody is told of a change.
                record.queues.starting = None
            current.queues.put_back(
                replace(turn, failures=failures, rests=True, is_handed_off=False)
            )
            if not self._timers.is_closed:
                retry = self._retry_later(current, turn.run_id, failures)
                self._timers.start(retry, name=f"retry:{turn.run_id}")
        if not turn.is_cancelled and (is_over or not is_kept):
            for signal in turn.signals:
                await self.store(current, turn.agent, signal)
        if is_over and not turn.is_cancelled:
            for signal in turn.signals:
                await self._tell_given_up(record, turn.agent, signal, error)

    async def _tell_given_up(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, error: Exception
    ) -> None:
        # One from the inbox is marked as failed there.
        if self.on_given_up is None or signal.type == "notification":
            return
        try:
            await self.on_given_up(agent.id, record.resource_id, record.thread_id, signal, error)
        except MastraError:
            logger.exception("nobody was told of a signal given up", extra={"id": signal.id})

    def _show_failure(self, record: ThreadRecord, run_id: str, text: str) -> None:
        """Readers learn that a run could not start; those elsewhere, if the thread is ours."""
        show_failure(record, run_id, text)
        outside = self._table.outside
        if outside is not None and outside.reach.term(record.key) is not None:
            outside.tell_failure(record.key, run_id, text)

    async def _retry_later(self, record: ThreadRecord, run_id: str, failures: int) -> None:
        """Nobody may come to this thread for a long time: try again by ourselves (G22)."""
        await self._clock.sleep(min(_RETRY_FIRST * 2 ** (failures - 1), _RETRY_LONGEST))
        if record in self._table:
            record.queues.restart(run_id)
            self.go_on(record)

    async def _start(
        self, record: ThreadRecord, run_id: str, starting: Coroutine[Any, Any, T]
    ) -> T:
        """Set a run up; one that can't be gives its thread back."""
        try:
            return await starting
        except BaseException:
            self.give_back(record.resource_id, record.thread_id, run_id)
            raise

    def give_back(self, resource_id: str | None, thread_id: str, run_id: str) -> None:
        """The run could not be set up: the thread is free again."""
        record = self._table.find(resource_id, thread_id)
        if record is None or record.reservation is None or record.reservation.run_id != run_id:
            return
        # Nobody answers what this run had taken already.
        record.taken.pop(run_id, None)
        starting = record.starting
        if starting is not None and starting.run_id == run_id and starting.is_follow_up:
            # They are answered together, whenever that will be.
            starting.signals = (*starting.signals[:1], *record.queues.take_pre_run())
        record.reservation.settle(run_id)
        record.reservation = None
        record.notify()
        self.go_on(record)

    def give_up(self, record: ThreadRecord, run_id: str, *, holder: str) -> None:
        """Another run has the thread, or none can have it: a reservation is needed no more."""
        reservation = record.reservation
        if reservation is not None and reservation.run_id == run_id:
            reservation.settle(holder)
            record.reservation = None
            record.notify()

    # -- what never gets a turn -----------------------------------------------------------

    async def store(self, record: ThreadRecord, agent: ThreadAgent, signal: Signal) -> None:
        """An accepted signal whose turn can't start now must not live in memory alone."""
        row = message_from_signal(
            signal, thread_id=record.thread_id, resource_id=record.resource_id or None
        )
        writing = None if signal.transient else agent.store_message(row)
        if writing is None:
            return
        try:
            await writing
        except MastraError:
            logger.exception("waiting signal not stored", extra={"signal_id": signal.id})

    async def store_waiting(self) -> None:
        """
        Store accepted signals whose turn will not come in this process; called when its runs
        have ended and the store is still open.
        """
        outside = self._table.outside
        for record in self._table:
            if outside is not None and outside.reach.inbox is not None:
                # What was accepted is in the inbox: another process, or the next start, has it.
                continue
            queues = record.queues
            waiting = [
                (record.waiting_agent, signal)
                for signal in (*queues.take_pre_run(), *queues.take_pending())
            ]
            waiting += [(turn.agent, signal) for turn in queues.turns() for signal in turn.signals]
            queues.clear()
            queues.continuations.clear()
            for agent, signal in waiting:
                if agent is not None:
                    await self.store(record, agent, signal)
