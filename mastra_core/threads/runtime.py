"""All threads of one application object in this process (signals.md 7, 8, 11).

Nothing here is shared between application objects: two of them in one process know nothing
of each other's runs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.contracts.signal_sink import Accepted, SendSignalResult, SignalTarget
from mastra_core.errors import (
    ClosedError,
    ForeignRunError,
    MastraError,
    RunAbortedError,
    RunArgumentError,
    SignalError,
    SignalPersistUnavailableError,
)
from mastra_core.loop.interrupt import Interrupt
from mastra_core.messages.signals import create_signal, echo_chunk, message_from_signal
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.streaming.output import ModelOutput
from mastra_core.threads.accepted import AcceptedSignals
from mastra_core.threads.outside import OutsideThreads
from mastra_core.threads.record import (
    ActiveRun,
    QueuedTurn,
    Reservation,
    ThreadAgent,
    ThreadRecord,
)
from mastra_core.threads.routing import Route, decide_route
from mastra_core.threads.state_signals import StateSender
from mastra_core.threads.subscription import ThreadSubscription
from mastra_core.threads.thread_key import thread_key
from mastra_core.wire.signals import Signal

__all__ = (
    "LOOK_SECONDS",
    "SUSPENDED_RUN_TTL_SECONDS",
    "TURN_ATTEMPTS",
    "ThreadRuntime",
    "ThreadSignals",
)

logger = logging.getLogger(__name__)

#: How long a parked run is kept in memory; later it is resumed from storage (R56).
SUSPENDED_RUN_TTL_SECONDS: Final = 30 * 60.0

#: How often whoever waits for a parked run looks whether it was answered elsewhere.
LOOK_SECONDS: Final = 5.0

#: How often a queued turn is tried that can't start, and the pauses between (signals.md G22).
TURN_ATTEMPTS: Final = 10
_RETRY_FIRST: Final = 1.0
_RETRY_LONGEST: Final = 60.0
#: What answers input of the run that ended comes before what waits for a run of its own.
_FOLLOW_UP: Final = 0
_QUEUED: Final = 1


class ThreadSignals:
    """The queues of one thread, as its run drains them."""

    def __init__(
        self, record: ThreadRecord, run_id: str, outside: OutsideThreads | None = None
    ) -> None:
        self._record = record
        self._run_id = run_id
        self._outside = outside

    def _is_aborted(self) -> bool:
        active = self._record.active
        reservation = self._record.reservation
        for holder in (active, reservation):
            if holder is not None and holder.run_id == self._run_id:
                return holder.interrupt.is_aborted
        return False

    def drain_pre_run(self) -> list[Signal]:
        """Signals for the first request."""
        if self._is_aborted():
            return []
        drained = self._record.take(self._run_id, self._record.pre_run)
        self._record.pre_run.clear()
        return drained

    def drain_pending(self) -> list[Signal]:
        """Signals that arrived during the step."""
        if self._is_aborted():
            return []
        drained = self._record.take(self._run_id, self._record.pending)
        self._record.pending.clear()
        return drained

    def assert_owned(self) -> None:
        """Before a write to the thread: it is still this run's (signals.md G3)."""
        if self._outside is not None:
            self._outside.guard(self._record.key)


class ThreadRuntime:
    """Routes signals, starts turns, keeps runs of one thread apart."""

    def __init__(
        self, *, clock: Clock, ids: Ids, suspended_run_ttl: float = SUSPENDED_RUN_TTL_SECONDS
    ) -> None:
        self.clock = clock
        self._clock = clock
        self._ids = ids
        self._suspended_run_ttl = suspended_run_ttl
        self._records: dict[str, ThreadRecord] = {}
        self._accepted = AcceptedSignals(clock)
        #: When a run was parked, per thread, the oldest first.
        self._parked_at: dict[str, float] = {}
        #: Threads whose parked run is being looked up.
        self._looking: set[str] = set()
        self._is_watching = False
        #: Runs at work in this process, with or without a thread.
        self._at_work: dict[str, tuple[ModelOutput, Interrupt]] = {}
        #: The run that ended last on a thread, while its follow-up is chosen.
        self._last_runs: dict[str, ActiveRun] = {}
        #: States of lanes that are sent from outside.
        self.states = StateSender(clock=clock, ids=ids)
        self.tasks = TaskSupervisor("threads")
        #: What only waits for its time.
        self._timers = TaskSupervisor("thread timers")
        self._turn_numbers = itertools.count()
        #: Told the thread whenever a run of it has ended (notifications.md S18).
        self.on_idle: Callable[[str, str], None] | None = None
        #: Shares the threads with other processes; None if nobody else can reach them.
        self.outside: OutsideThreads | None = None

    # -- records --------------------------------------------------------------------------

    def record(self, resource_id: str | None, thread_id: str) -> ThreadRecord:
        """What is known of a thread; made if nothing was."""
        key = thread_key(resource_id, thread_id)
        record = self._records.get(key)
        if record is None:
            record = ThreadRecord(key=key, thread_id=thread_id, resource_id=resource_id or "")
            self._records[key] = record
        return record

    def known_record(self, key: str) -> ThreadRecord | None:
        """What is known of a thread; None if nothing is."""
        return self._records.get(key)

    def drop_if_forgettable(self, record: ThreadRecord) -> None:
        """Forget a thread on which nothing happens."""
        if record.is_forgettable and self._records.get(record.key) is record:
            del self._records[record.key]

    def _expire_parked(self, record: ThreadRecord) -> ThreadRecord:
        """Free a thread whose run was parked too long ago; the record that it has then."""
        active = record.active
        if active is None or active.parked_at is None:
            return record
        if self._clock.monotonic() < active.parked_at + self._suspended_run_ttl:
            return record
        self._free(record, active)
        return self.record(record.resource_id, record.thread_id)

    def is_active(self, resource_id: str | None, thread_id: str) -> bool:
        """Does a run hold the thread: reserved, running or waiting for an answer?"""
        record = self._records.get(thread_key(resource_id, thread_id))
        if record is None:
            return False
        record = self._expire_parked(record)
        self._look_at(record)
        self.drop_if_forgettable(record)
        return not record.is_idle

    def active_run_id(self, resource_id: str | None, thread_id: str) -> str | None:
        """Id of the run that holds the thread; None if it is idle."""
        record = self._records.get(thread_key(resource_id, thread_id))
        if record is None:
            return None
        holder = record.active or record.reservation
        if holder is not None:
            return holder.run_id
        remote = self.outside.reach.remote_run(record.key) if self.outside is not None else None
        return remote[0] if remote is not None else None

    # -- sending --------------------------------------------------------------------------

    def send_signal(
        self, agent: ThreadAgent, value: Mapping[str, Any] | Signal, target: SignalTarget
    ) -> SendSignalResult:
        """
        Create a signal and route it (signals.md 6, 7).

        A signal that brings its own id is looked up in the thread first, so that sending it
        twice, also after a crash, has the effect of sending it once (notifications.md S15).

        Raises:
            SignalError: No thread is named.
            InvalidSignalError: The signal is malformed.
            ClosedError: The application is closed.
        """
        self._check_open()
        record = self._target_record(target)
        brings_id = isinstance(value, Signal) or bool(value.get("id"))
        accepted_at = self._clock.now()
        signal = create_signal(value, clock=self._clock, ids=self._ids, accepted_at=accepted_at)
        if not brings_id:
            return self._route_anywhere(record, agent, signal, target)
        earlier = self._accepted.get(record.key, signal.id)
        # What was taken may still get lost: once the thread is free, its rows decide.
        if earlier is not None and not (
            earlier.done() and record.is_at_rest and agent.stores_messages
        ):
            self.drop_if_forgettable(record)
            return SendSignalResult(signal=signal, accepted=_quiet(earlier))
        return self._route_once(record, agent, signal, target)

    def send_created(
        self, agent: ThreadAgent, signal: Signal, target: SignalTarget
    ) -> SendSignalResult:
        """Route a signal whose id was given here just now, so nobody can have sent it before."""
        self._check_open()
        accepted = signal.replace(accepted_at=self._clock.now())
        return self._route(self._target_record(target), agent, accepted, target)

    def would_take(self, agent: ThreadAgent, target: SignalTarget) -> bool:
        """Would a signal find a way into this thread, as things stand?"""
        self._check_open()
        record = self._expire_parked(self._target_record(target))
        route = decide_route(record, agent_id=agent.id, target=target, is_transient=False)
        self.drop_if_forgettable(record)
        return route.kind not in ("blocked", "discard")

    def _check_open(self) -> None:
        if self.tasks.is_closed:
            raise ClosedError(what="application")

    def _target_record(self, target: SignalTarget) -> ThreadRecord:
        if target.run_id is not None:
            for record in self._records.values():
                holder = record.active or record.reservation
                if holder is not None and holder.run_id == target.run_id:
                    return record
        if target.thread_id is None or target.resource_id is None:
            raise SignalError("No active agent run found for signal target")
        return self.record(target.resource_id, target.thread_id)

    def _route_once(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, target: SignalTarget
    ) -> SendSignalResult:
        """Route unless the thread has the row already; routing happens when that is known."""
        loop = asyncio.get_running_loop()
        persisted: asyncio.Future[None] = loop.create_future()
        accepted: asyncio.Future[Accepted] = loop.create_future()
        self._accepted.remember(record.key, signal.id, accepted)

        async def work() -> None:
            try:
                if await agent.has_message(thread_id=record.thread_id, message_id=signal.id):
                    _settle(accepted, Accepted(action="deliver", run_id=None))
                    _settle(persisted, None)
                    return
                # The thread may have been used and forgotten meanwhile.
                current = self.record(record.resource_id, record.thread_id)
                result = self._route_anywhere(current, agent, signal, target)
                if result.persisted is not None:
                    await _copy(result.persisted, persisted)
                else:
                    _settle(persisted, None)
                await _copy(result.accepted, accepted)
            except BaseException as exc:
                for future in (accepted, persisted):
                    if not future.done():
                        future.set_exception(exc if isinstance(exc, Exception) else _stopped())
                        future.exception()
                if not isinstance(exc, Exception):
                    raise
            finally:
                self.drop_if_forgettable(self.record(record.resource_id, record.thread_id))

        self.tasks.start(work(), name=f"signal:{signal.id}")
        wants_persist = "persist" in (target.if_idle.behavior, target.if_active.behavior)
        return SendSignalResult(
            signal=signal,
            accepted=_quiet(accepted),
            persisted=_quiet(persisted) if wants_persist else None,
        )

    def _route_anywhere(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, target: SignalTarget
    ) -> SendSignalResult:
        """Route by what this process knows, unless it matters what runs elsewhere (G10)."""
        outside = self.outside
        branches = target.if_active, target.if_idle
        is_plain = (target.if_active.behavior, target.if_idle.behavior) == ("deliver", "wake") and (
            not any(branch.attributes for branch in branches)
        )
        if outside is None or is_plain or not record.is_idle:
            return self._route(record, agent, signal, target)
        if outside.reach.held_by(record.key) is not None:
            return self._route(record, agent, signal, target)
        return self._route_by_lease(record, agent, signal, target)

    def _route_by_lease(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, target: SignalTarget
    ) -> SendSignalResult:
        """Idle here: whether a run elsewhere has the thread decides the branch."""
        outside = self.outside
        assert outside is not None
        loop = asyncio.get_running_loop()
        persisted: asyncio.Future[None] = loop.create_future()
        accepted: asyncio.Future[Accepted] = loop.create_future()

        async def work() -> Accepted:
            owner = await outside.reach.owner(record.key)
            current = self.record(record.resource_id, record.thread_id)
            if owner is None or not current.is_idle:
                result = self._route(current, agent, signal, target)
            else:
                result = self._route_to_owner(current, agent, signal, target)
            if result.persisted is not None:
                await _copy(result.persisted, persisted)
            return await result.accepted

        self._answer(work(), accepted, name=f"route:{signal.id}")
        accepted.add_done_callback(lambda _: _settle(persisted, None))
        wants_persist = "persist" in (target.if_idle.behavior, target.if_active.behavior)
        return SendSignalResult(
            signal=signal,
            accepted=_quiet(accepted),
            persisted=_quiet(persisted) if wants_persist else None,
        )

    def _answer(
        self, work: Coroutine[Any, Any, Accepted], future: asyncio.Future[Accepted], *, name: str
    ) -> None:
        """What the work returns or raises is what the future says."""

        async def run() -> None:
            try:
                _settle(future, await work)
            except Exception as exc:  # noqa: BLE001 - whoever awaits the future gets it
                _settle_error(future, exc)
            except BaseException:
                _settle_error(future, _stopped())
                raise

        self.tasks.start(run(), name=name)

    def _route_to_owner(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, target: SignalTarget
    ) -> SendSignalResult:
        """The branch for an active run, which another process has."""
        if target.if_active.attributes:
            attributes = {**(signal.attributes or {}), **target.if_active.attributes}
            signal = signal.replace(attributes=attributes)
        behavior = target.if_active.behavior
        if behavior == "discard" or (behavior == "persist" and signal.transient):
            self.drop_if_forgettable(record)
            return self._settled(record, signal, "discard", Route(kind="discard"))
        if behavior == "persist":
            return self._persist(record, agent, signal, echo=False)
        plain = replace(target, if_idle=replace(target.if_idle, behavior="wake", attributes=None))
        return self._wake(record, agent, signal, plain)

    def _route(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, target: SignalTarget
    ) -> SendSignalResult:
        # No await from here until the queues are consistent.
        record = self._expire_parked(record)
        route = decide_route(
            record, agent_id=agent.id, target=target, is_transient=bool(signal.transient)
        )
        branch = target.if_active.attributes if route.is_active else target.if_idle.attributes
        if branch:
            signal = signal.replace(attributes={**(signal.attributes or {}), **branch})
        match route.kind:
            case "pending":
                record.pending.append(signal)
                record.waiting_agent = agent
                self.look_after(record)
                return self._settled(record, signal, "deliver", route)
            case "pre_run":
                record.pre_run.append(signal)
                record.waiting_agent = agent
                return self._settled(record, signal, "deliver", route)
            case "queue":
                run_id = self._ids.new("run")
                options = target.if_idle.stream_options or {}
                self.queue_turn(record, agent, signal, run_id=run_id, stream_options=options)
                return self._settled(record, signal, "deliver", Route(kind="queue", run_id=run_id))
            case "blocked":
                self._look_at(record)
                return self._settled(record, signal, "blocked", route)
            case "discard":
                self.drop_if_forgettable(record)
                return self._settled(record, signal, "discard", Route(kind="discard"))
            case "persist_active" | "persist_idle":
                return self._persist(record, agent, signal, echo=route.kind == "persist_idle")
            case "wake":
                return self._wake(record, agent, signal, target)

    def queue_turn(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        *,
        run_id: str | None,
        stream_options: Mapping[str, Any],
    ) -> None:
        """Input that gets a run of its own when the thread is free."""
        record.idle.append(
            QueuedTurn(
                signal=signal,
                agent=agent,
                run_id=run_id or self._ids.new("run"),
                stream_options=dict(stream_options),
                order=(_QUEUED, next(self._turn_numbers)),
            )
        )
        self.look_after(record)

    def _settled(
        self, record: ThreadRecord, signal: Signal, action: Any, route: Route
    ) -> SendSignalResult:
        future: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        reason = "thread-blocked" if action == "blocked" else None
        answer = Accepted(action=action, run_id=route.run_id, reason=reason)
        if action == "deliver" and self.outside is not None:
            keeping = self.outside.accept(record, signal, answer)
            self._answer(keeping, future, name=f"keep:{signal.id}")
        else:
            future.set_result(answer)
        if action == "deliver":
            self._accepted.remember(record.key, signal.id, future)
        return SendSignalResult(signal=signal, accepted=_quiet(future))

    def _persist(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, *, echo: bool
    ) -> SendSignalResult:
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[Accepted] = loop.create_future()
        row = message_from_signal(
            signal, thread_id=record.thread_id, resource_id=record.resource_id or None
        )
        writing = agent.store_message(row)
        if writing is None:
            self.drop_if_forgettable(record)
            accepted.set_exception(
                SignalPersistUnavailableError(
                    f"Agent {agent.id!r} has no memory, so nothing can be persisted."
                )
            )
            return SendSignalResult(signal=signal, accepted=_quiet(accepted))

        async def write() -> None:
            try:
                await writing
            finally:
                current = self.record(record.resource_id, record.thread_id)
                self.drop_if_forgettable(current)
            if echo:
                self._broadcast_persisted(current, agent, signal)

        task = self.tasks.start(write(), name=f"persist:{signal.id}")
        accepted.set_result(Accepted(action="persist"))
        return SendSignalResult(signal=signal, accepted=accepted, persisted=_quiet(task))

    def _broadcast_persisted(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal
    ) -> None:
        """Show readers a stored signal as a run of its own (signals.md 7.5)."""
        run_id = self._ids.new("run")
        buffer = ChunkBuffer()
        usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
        for chunk in (
            {
                "type": "start",
                "runId": run_id,
                "from": "AGENT",
                "payload": {"id": agent.id, "messageId": f"persisted-signal:{signal.id}"},
            },
            echo_chunk(signal),
            {
                "type": "finish",
                "runId": run_id,
                "from": "AGENT",
                "payload": {"stepResult": {"reason": "stop"}, "output": {"usage": usage}},
            },
        ):
            buffer.append(chunk)
        buffer.close()
        for subscription in record.subscriptions:
            subscription.add_run(run_id, buffer)

    def remember(self, key: str, signal_id: str, answer: Accepted) -> None:
        """A signal that was taken: its repetition has no second effect."""
        taken: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        taken.set_result(answer)
        self._accepted.remember(key, signal_id, taken)

    def has_taken(self, key: str, signal_id: str) -> bool:
        """Was this signal taken here lately?"""
        return self._accepted.get(key, signal_id) is not None

    # -- waking and draining ----------------------------------------------------------------

    def _wake(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, target: SignalTarget
    ) -> SendSignalResult:
        run_id = self._ids.new("run")
        self._reserve(record, run_id=run_id, agent_id=agent.id)
        accepted: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._accepted.remember(record.key, signal.id, accepted)
        # What a wake starts spans the background tasks that it causes (signals.md 6.2).
        options = {"until_idle": True, **(target.if_idle.stream_options or {})}

        async def wake() -> None:
            try:
                answer = await self._wake_here_or_there(record, agent, signal, run_id, options)
            except Exception as exc:  # noqa: BLE001 - the sender gets it
                if not accepted.done():
                    accepted.set_exception(exc)
                    accepted.exception()
                self.after_run(record)
            except BaseException:
                _settle_error(accepted, _stopped())
                raise
            else:
                _settle(accepted, answer)

        self.tasks.start(wake(), name=f"wake:{run_id}")
        return SendSignalResult(signal=signal, accepted=_quiet(accepted))

    async def _wake_here_or_there(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        run_id: str,
        options: Mapping[str, Any],
    ) -> Accepted:
        """Start the run, unless another process has the thread: then it gets the signal."""
        signals = [signal]
        if self.outside is not None:
            entry = self.outside.entry_of(agent, signal, run_id=run_id, options=options)
            try:
                owner = await self.outside.own(record, entry, run_id)
            except BaseException:
                self.cancel_reservation(record.resource_id, record.thread_id, run_id)
                raise
            if owner is not None:
                return Accepted(action="deliver", run_id=owner)
            signals = [*await self.outside.joined(record, entry, run_id), signal]
        output = await self._start_turn(record, agent, signals, run_id, options)
        return Accepted(action="wake", run_id=run_id, output=output)

    async def _start_turn(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signals: Sequence[Signal],
        run_id: str,
        options: Mapping[str, Any],
    ) -> ModelOutput:
        try:
            return await agent.start_turn(
                signals,
                run_id=run_id,
                thread_id=record.thread_id,
                resource_id=record.resource_id,
                stream_options=options,
            )
        except BaseException:
            self.cancel_reservation(record.resource_id, record.thread_id, run_id)
            raise

    def after_run(self, record: ThreadRecord) -> None:
        """The thread is free: whatever waits gets its turn (signals.md 8.2)."""
        # No await until the queue is consistent.
        if not record.is_idle:
            return
        if self.tasks.is_closed:
            # Nobody's turn comes any more; ``store_waiting`` keeps what waits.
            record.notify()
            return
        record.pending.extendleft(reversed(record.pre_run))
        record.pre_run.clear()
        turn = self._next_turn(record)
        if turn is None:
            record.notify()
            if self.outside is not None:
                self.outside.rest(record)
            if self.on_idle is not None:
                self.on_idle(record.resource_id, record.thread_id)
            self.drop_if_forgettable(record)
            return
        self._reserve(record, run_id=turn.run_id, agent_id=turn.agent.id)
        self.tasks.start(self._run_queued(record, turn), name=f"turn:{turn.run_id}")

    def _next_turn(self, record: ThreadRecord) -> QueuedTurn | None:
        last = self._last_runs.get(record.key)
        if record.pending and last is not None:
            first = record.pending.popleft()
            record.pre_run.extend(record.pending)
            record.pending.clear()
            return QueuedTurn(
                signal=first,
                agent=last.agent,
                run_id=self._ids.new("run"),
                stream_options=last.stream_options,
                order=(_FOLLOW_UP, next(self._turn_numbers)),
            )
        for turn in record.idle:
            if not turn.rests:
                record.idle.remove(turn)
                return turn
        return None

    def _retry_failed(self, record: ThreadRecord, run_id: str | None = None) -> None:
        """Turns that could not start, or this one, may be tried again, in their order."""
        record.idle = deque(
            replace(turn, rests=turn.rests and run_id not in (None, turn.run_id))
            for turn in record.idle
        )

    async def _run_queued(self, record: ThreadRecord, turn: QueuedTurn) -> None:
        try:
            await self._start_queued(record, turn)
        except Exception as exc:
            failures = turn.failures + 1
            is_over = failures >= TURN_ATTEMPTS
            logger.exception(
                "queued turn could not start",
                extra={"run_id": turn.run_id, "failures": failures, "final": is_over},
            )
            self._broadcast_failure(record, turn.run_id, exc, is_over=is_over)
            current = self.record(record.resource_id, record.thread_id)
            if is_over:
                self.drop_if_forgettable(current)
            else:
                current.put_back(replace(turn, failures=failures, rests=True))
                if not self._timers.is_closed:
                    retry = self._retry_later(current, turn.run_id, failures)
                    self._timers.start(retry, name=f"retry:{turn.run_id}")
            await self._store(current, turn.agent, turn.signal)

    async def _start_queued(self, record: ThreadRecord, turn: QueuedTurn) -> None:
        """Start a turn; if another process has the thread by now, it gets the input."""
        signals = [turn.signal]
        if self.outside is not None:
            entry = self.outside.entry_of(
                turn.agent,
                turn.signal,
                run_id=turn.run_id,
                turn=turn.order[0] == _QUEUED,
                options=turn.stream_options,
            )
            try:
                owner = await self.outside.own(record, entry, turn.run_id)
            except BaseException:
                self.cancel_reservation(record.resource_id, record.thread_id, turn.run_id)
                raise
            if owner is not None:
                return
            signals = [*await self.outside.joined(record, entry, turn.run_id), turn.signal]
        await self._start_turn(record, turn.agent, signals, turn.run_id, turn.stream_options)

    async def _retry_later(self, record: ThreadRecord, run_id: str, failures: int) -> None:
        """Nobody may come to this thread for a long time: try again by ourselves (G22)."""
        await self._clock.sleep(min(_RETRY_FIRST * 2 ** (failures - 1), _RETRY_LONGEST))
        if self._records.get(record.key) is record:
            self._retry_failed(record, run_id)
            self.after_run(record)

    async def _store(self, record: ThreadRecord, agent: ThreadAgent, signal: Signal) -> None:
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

    def _broadcast_failure(
        self, record: ThreadRecord, run_id: str, error: Exception, *, is_over: bool
    ) -> None:
        buffer = ChunkBuffer()
        fate = "was cancelled" if is_over else "was requeued and will deliver on the next turn"
        text = f"failed to start follow-up run for queued message: {error}; the message {fate}"
        buffer.append({"type": "error", "runId": run_id, "payload": {"error": text}})
        buffer.close()
        for subscription in record.subscriptions:
            subscription.add_run(run_id, buffer)

    # -- runs -----------------------------------------------------------------------------

    def _reserve(self, record: ThreadRecord, *, run_id: str, agent_id: str) -> Reservation:
        reservation = Reservation(run_id=run_id, agent_id=agent_id, interrupt=Interrupt())
        if self.outside is not None:
            reservation.holder = asyncio.get_running_loop().create_future()
        record.reservation = reservation
        return reservation

    def give_up(self, record: ThreadRecord, run_id: str, *, holder: str) -> None:
        """Another run has the thread, or none can have it: a reservation is needed no more."""
        reservation = record.reservation
        if reservation is not None and reservation.run_id == run_id:
            reservation.settle(holder)
            record.reservation = None
            record.notify()

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
            record = self._expire_parked(self.record(resource_id, thread_id))
            reservation = record.reservation
            if reservation is not None and reservation.run_id == run_id:
                return reservation
            active = record.active
            is_exempt = (
                active is not None
                and active.lifecycle == "suspended"
                and (active.run_id == run_id or active.agent.id == agent_id)
            )
            if reservation is None and (active is None or is_exempt):
                reserved = self._reserve(record, run_id=run_id, agent_id=agent_id)
                if active is not None and active.run_id == run_id and active.interrupt.is_aborted:
                    # Aborted while it was parked: what goes on now is its end.
                    reserved.interrupt.abort()
                if self.outside is None or await self.outside.own_reserved(record, reserved):
                    return reserved
                await self.outside.reach.wait_until_free(record.key)
                continue
            change = record.change()
            self.look_after(record)
            try:
                await change
            finally:
                record.stop_waiting(change)

    def _look_at(self, record: ThreadRecord) -> None:
        """Find out, in the background, whether a run that is parked here was answered elsewhere."""
        active = record.active
        if active is None or active.lifecycle != "suspended" or record.key in self._looking:
            return
        if self.tasks.is_closed:
            return
        self._looking.add(record.key)

        async def look() -> None:
            try:
                await self._let_go_if_answered(record, active)
            finally:
                self._looking.discard(record.key)

        self.tasks.start(look(), name=f"parked:{active.run_id}")

    def look_after(self, record: ThreadRecord) -> None:
        """Look now, and again and again as long as something waits behind a parked run."""
        if not record.waits_for_parked or self._timers.is_closed:
            return
        self._look_at(record)
        if not self._is_watching:
            self._is_watching = True
            self._timers.start(self._watch_parked(), name="parked-runs")

    async def _watch_parked(self) -> None:
        try:
            while waiting := [r for r in self._records.values() if r.waits_for_parked]:
                await self._clock.sleep(self._next_look(waiting))
                for record in waiting:
                    current = self._expire_parked(record)
                    if current.waits_for_parked and current.active is not None:
                        await self._let_go_if_answered(current, current.active)
                    self.drop_if_forgettable(current)
        finally:
            self._is_watching = False

    def _next_look(self, waiting: Sequence[ThreadRecord]) -> float:
        """Seconds until some run was parked for too long, but not more than ``LOOK_SECONDS``."""
        parked = [
            r.active.parked_at for r in waiting if r.active and r.active.parked_at is not None
        ]
        first = min(parked, default=math.inf) + self._suspended_run_ttl
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

    def cancel_reservation(self, resource_id: str | None, thread_id: str, run_id: str) -> None:
        """The run could not be set up: the thread is free again."""
        record = self._records.get(thread_key(resource_id, thread_id))
        if record is None or record.reservation is None or record.reservation.run_id != run_id:
            return
        record.reservation.settle(run_id)
        record.reservation = None
        record.notify()
        self.after_run(record)

    def signals_for(self, resource_id: str | None, thread_id: str, run_id: str) -> ThreadSignals:
        """The queues that this run drains."""
        return ThreadSignals(self.record(resource_id, thread_id), run_id, self.outside)

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
        record = self.record(resource_id, thread_id)
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
        record = self.record(resource_id, thread_id)
        active = record.active
        if active is not None and active.run_id == run_id:
            self._park(record, active)

    def _park(self, record: ThreadRecord, active: ActiveRun) -> None:
        active.lifecycle = "suspended"
        if active.parked_at is None:
            active.parked_at = self._clock.monotonic()
            self._forget_parked(active.parked_at)
            self._parked_at.pop(record.key, None)
            self._parked_at[record.key] = active.parked_at
        self.look_after(record)

    def _forget_parked(self, now: float) -> None:
        """Let go of threads whose run was parked too long ago, though nobody asks for them."""
        while self._parked_at:
            key, parked_at = next(iter(self._parked_at.items()))
            if now < parked_at + self._suspended_run_ttl:
                return
            del self._parked_at[key]
            record = self._records.get(key)
            if record is not None:
                self.drop_if_forgettable(self._expire_parked(record))

    def ended(self, resource_id: str | None, thread_id: str, output: ModelOutput) -> None:
        """A segment is over: a parked run keeps the thread, an ended one frees it."""
        record = self.record(resource_id, thread_id)
        active = record.active
        if active is None or active.output is not output:
            record.notify()
            return
        if output.status == "suspended":
            self._park(record, active)
            record.notify()
            if self.outside is not None:
                self.outside.finish(record, active, None)
            return
        if self.outside is None:
            self._free(record, active)
        else:
            # Others hear everything that it said before anything else happens (8.1).
            self.outside.finish(record, active, lambda: self._free_if_active(record, active))

    def _free_if_active(self, record: ThreadRecord, ended: ActiveRun) -> None:
        if record.active is ended:
            self._free(record, ended)

    def _free(self, record: ThreadRecord, ended: ActiveRun) -> None:
        """The run is over: its thread goes to whatever waits."""
        record.active = None
        self._retry_failed(record)
        self._last_runs[record.key] = ended
        try:
            self.after_run(record)
        finally:
            self._last_runs.pop(record.key, None)
            record.notify()

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
        record = self._records.get(thread_key(resource_id, thread_id))
        if record is None:
            return False
        holder = record.active or record.reservation
        if expected_run_id is not None and (holder is None or holder.run_id != expected_run_id):
            return False
        if clear_pending_signals:
            if self.outside is not None:
                self.outside.cancelled(record.key, record.waiting_signals())
            record.pre_run.clear()
            record.pending.clear()
            record.idle.clear()
        if holder is None:
            return (
                self.outside is not None
                and not local_only
                and self.outside.ask_abort(record.key, clear_pending_signals=clear_pending_signals)
            )
        holder.interrupt.abort()
        if isinstance(holder, ActiveRun) and self.outside is not None:
            self.outside.tell_abort(holder)
        if isinstance(holder, ActiveRun) and holder.lifecycle == "suspended":
            self._abort_parked(record, holder)
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
        buffer = ChunkBuffer()
        buffer.append({"type": "abort", "runId": parked.run_id})
        buffer.close()
        for subscription in record.subscriptions:
            subscription.add_run(parked.run_id, buffer)
        self.tasks.start(parked.agent.cancel_parked(parked.run_id), name=f"cancel:{parked.run_id}")

    def check_new(self, run_id: str) -> None:
        """
        Refuse a second run under the id of one that this process knows.

        Raises:
            RunArgumentError: It is being set up, at work, or waits for an answer.
            ClosedError: The application is closed.
        """
        self._check_open()
        holders = (h for r in self._records.values() for h in (r.active, r.reservation))
        if run_id in self._at_work or any(h is not None and h.run_id == run_id for h in holders):
            raise RunArgumentError(
                f"There is a run {run_id!r} already.",
                id="AGENT_RUN_ID_IN_USE",
                hint="Leave run_id out, and each run gets an id of its own.",
                details={"argument": "run_id"},
            )

    def entered(self, output: ModelOutput, interrupt: Interrupt) -> None:
        """This run is at work now."""
        self._at_work[output.run_id] = (output, interrupt)

    def left(self, output: ModelOutput) -> None:
        """This run, or this segment of it, is at work no more."""
        known = self._at_work.get(output.run_id)
        if known is not None and known[0] is output:
            del self._at_work[output.run_id]

    def abort_run(self, run_id: str, *, agent_id: str) -> bool:
        """
        Abort a run that is at work or being set up here; False if there is none.

        Raises:
            ForeignRunError: It is another agent's.
        """
        found: tuple[str, Interrupt] | None = None
        if run_id in self._at_work:
            output, interrupt = self._at_work[run_id]
            found = (output.agent_id, interrupt)
        for record in self._records.values():
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

    def look_at_run(self, run_id: str) -> None:
        """Somebody did something to this parked run and doesn't know how it ended."""
        for record in list(self._records.values()):
            if record.active is not None and record.active.run_id == run_id:
                self._look_at(record)

    def release_parked(self, run_id: str) -> None:
        """A parked run has ended without an answer: its thread is free."""
        for record in list(self._records.values()):
            active = record.active
            if active is not None and active.run_id == run_id:
                self._free(record, active)
                return

    # -- reading --------------------------------------------------------------------------

    def subscribe(
        self,
        resource_id: str | None,
        thread_id: str,
        *,
        hide_signals: bool | Sequence[str] | None = None,
    ) -> ThreadSubscription:
        """
        Follow all runs of a thread from now on, and the active one from its start.

        Raises:
            ClosedError: The application is closed.
        """
        self._check_open()
        record = self.record(resource_id, thread_id)

        def unsubscribe(subscription: ThreadSubscription) -> None:
            with suppress(ValueError):
                record.subscriptions.remove(subscription)
            if self.outside is not None:
                self.outside.unfollow(record.key, subscription)
            self.drop_if_forgettable(record)

        def abort(**options: Any) -> bool:
            return self.abort(resource_id, thread_id, **options)

        subscription = ThreadSubscription(
            hide_signals=hide_signals,
            active_run_id=lambda: self.active_run_id(resource_id, thread_id),
            abort=abort,
            unsubscribe=unsubscribe,
        )
        record.subscriptions.append(subscription)
        if record.active is not None and not record.active.interrupt.is_aborted:
            subscription.add_run(record.active.run_id, record.active.output.buffer)
        if self.outside is not None:
            subscription.ready = self.tasks.start(
                self.outside.follow(record.key, subscription), name=f"follow:{record.key}"
            )
        return subscription

    async def close(self, *, grace: float = 0.0) -> None:
        """Stop all turns that this runtime started and end all subscriptions."""
        await self._timers.close()
        await self.tasks.close(grace=grace)
        for record in list(self._records.values()):
            for subscription in list(record.subscriptions):
                subscription.unsubscribe()
            # Whoever waits for the thread learns that it will never be free.
            record.notify()

    async def store_waiting(self) -> None:
        """
        Store accepted signals whose turn will not come in this process; called when its runs
        have ended and the store is still open.
        """
        for record in list(self._records.values()):
            if self.outside is not None and self.outside.reach.inbox is not None:
                # What was accepted is in the inbox: another process, or the next start, has it.
                continue
            waiting = [
                (record.waiting_agent, signal) for signal in (*record.pre_run, *record.pending)
            ]
            waiting += [(turn.agent, turn.signal) for turn in record.idle]
            for queue in (record.pre_run, record.pending, record.idle):
                queue.clear()
            for agent, signal in waiting:
                if agent is not None:
                    await self._store(record, agent, signal)


def _stopped() -> RunAbortedError:
    return RunAbortedError("The application was closed before the signal was taken.")


def _settle(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _settle_error(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()


async def _copy(source: Awaitable[Any], target: asyncio.Future[Any]) -> None:
    try:
        _settle(target, await source)
    except Exception as exc:  # noqa: BLE001 - whoever awaits the target gets it
        _settle_error(target, exc)


def _quiet(future: asyncio.Future[Any]) -> asyncio.Future[Any]:
    """Nobody has to await it: an exception that nobody fetched is no news."""

    def fetch(done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            done.exception()

    future.add_done_callback(fetch)
    return future
