"""Put signals into threads (signals.md 6, 7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.tasks import TaskSupervisor
from mastra_core.contracts.signal_sink import (
    Accepted,
    AcceptedAction,
    SendSignalResult,
    SignalTarget,
)
from mastra_core.errors import (
    ClosedError,
    DeliveryError,
    SignalError,
    SignalPersistUnavailableError,
    SignalQueueFullError,
)
from mastra_core.messages.signals import create_signal, message_from_signal
from mastra_core.threads.accepted import AcceptedSignals
from mastra_core.threads.broadcasting import show_persisted
from mastra_core.threads.futures import copy_outcome, quiet, settle, settle_error, stopped
from mastra_core.threads.outside import OutsideThreads
from mastra_core.threads.parked import ParkedRuns
from mastra_core.threads.record import ThreadAgent, ThreadRecord
from mastra_core.threads.routing import Route, decide_route
from mastra_core.threads.table import ThreadTable
from mastra_core.threads.turns import ThreadTurns
from mastra_core.wire.signals import Signal

__all__ = ("SignalSender",)

logger = logging.getLogger(__name__)


class SignalSender:
    """Creates signals, decides where they go, and puts them there."""

    def __init__(
        self,
        table: ThreadTable,
        *,
        clock: Clock,
        ids: Ids,
        tasks: TaskSupervisor,
        turns: ThreadTurns,
        parked: ParkedRuns,
    ) -> None:
        self._table = table
        self._clock = clock
        self._ids = ids
        self._tasks = tasks
        self._turns = turns
        self._parked = parked
        self._accepted = AcceptedSignals(clock)
        #: Threads whose owner is being looked for, and by how many.
        self._searching: dict[str, int] = {}

    # -- sending --------------------------------------------------------------------------

    def send(
        self, agent: ThreadAgent, value: Mapping[str, Any] | Signal, target: SignalTarget
    ) -> SendSignalResult:
        """
        Create a signal and route it.

        A signal that brings its own id is looked up in the thread first, so that sending it
        twice, also after a crash, has the effect of sending it once (notifications.md S15).

        Raises:
            SignalError: No thread is named.
            InvalidSignalError: The signal is malformed.
            ClosedError: The application is closed.
        """
        self._check_open()
        record = self._record_of(target)
        brings_id = isinstance(value, Signal) or bool(value.get("id"))
        try:
            signal = self._created(value, record.key)
        finally:
            self._table.drop_if_forgettable(record)
        record = self._table.current(record)
        if not brings_id:
            return _noted(record, self._route_anywhere(record, agent, signal, target))
        if (earlier := self._taken_before(record, agent, signal)) is not None:
            return earlier
        return _noted(record, self._route_once(record, agent, signal, target))

    def _taken_before(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal
    ) -> SendSignalResult | None:
        """What became of this signal when it was sent here before; None if it is to be taken."""
        earlier = self._accepted.get(record.key, signal.id)
        # What was taken may still get lost: once the thread is free, its rows decide.
        if earlier is None or (earlier.done() and record.is_at_rest and agent.stores_messages):
            return None
        self._table.drop_if_forgettable(record)
        return SendSignalResult(signal=signal, accepted=quiet(earlier))

    def send_created(
        self, agent: ThreadAgent, signal: Signal, target: SignalTarget
    ) -> SendSignalResult:
        """Route a signal whose id was given here just now, so nobody can have sent it before."""
        self._check_open()
        record = self._record_of(target)
        accepted = signal.replace(accepted_at=self._accepted.time_for(record.key))
        return _noted(record, self._route_anywhere(record, agent, accepted, target))

    def queue(
        self,
        agent: ThreadAgent,
        value: Mapping[str, Any] | Signal,
        target: SignalTarget,
        *,
        owner_id: str | None,
    ) -> SendSignalResult:
        """
        Create a signal that gets a run of its own; it wakes an idle thread (signals.md 7.4).

        One that brings its own id is answered once, as with ``send``.

        Raises:
            SignalError: Resource or thread isn't named.
            InvalidSignalError: The signal is malformed.
            ClosedError: The application is closed.
        """
        self._check_open()
        if target.thread_id is None or target.resource_id is None:
            raise SignalError("resourceId and threadId are required to queue a message")
        is_named = isinstance(value, Signal) or bool(value.get("id"))
        record = self._table.find(target.resource_id, target.thread_id)
        if record is not None:
            record = self._parked.expire(record)
        # No await until the queues are consistent.
        if record is None or record.is_idle:
            # As peers read the clock: on an idle thread the signal is there, then accepted.
            signal = create_signal(value, clock=self._clock, ids=self._ids)
            record = self._table.of(target.resource_id, target.thread_id)
            signal = signal.replace(accepted_at=self._accepted.time_for(record.key))
            signal = _with_branch(signal, target, is_active=False)
        else:
            signal = self._created(value, record.key)
        if is_named and (earlier := self._taken_before(record, agent, signal)) is not None:
            return earlier
        if record.is_idle:
            waking = self._wake(record, agent, signal, target, is_turn=True, is_named=is_named)
            return _noted(record, waking)
        options = target.if_idle.stream_options
        if options is None:
            options = record.active.stream_options if record.active is not None else {}
        queued = self._queue(record, agent, signal, options, owner_id=owner_id, is_named=is_named)
        return _noted(record, queued)

    def would_take(self, agent: ThreadAgent, target: SignalTarget) -> bool:
        """Would a signal find a way into this thread, as things stand?"""
        self._check_open()
        record = self._parked.expire(self._record_of(target))
        route = decide_route(record.holder, agent_id=agent.id, target=target, is_transient=False)
        self._table.drop_if_forgettable(record)
        return route.kind not in ("blocked", "discard")

    def _created(self, value: Mapping[str, Any] | Signal, key: str) -> Signal:
        now = self._accepted.time_for(key)
        return create_signal(value, clock=self._clock, ids=self._ids, accepted_at=now)

    def _check_open(self) -> None:
        if self._tasks.is_closed:
            raise ClosedError(what="application")

    def _record_of(self, target: SignalTarget) -> ThreadRecord:
        if target.run_id is not None:
            record = self._table.of_run(target.run_id)
            if record is not None:
                return record
        if target.thread_id is None or target.resource_id is None:
            raise SignalError("No active agent run found for signal target")
        return self._table.of(target.resource_id, target.thread_id)

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
                    settle(accepted, Accepted(action="deliver", run_id=None))
                    settle(persisted, None)
                    return
                if self._accepted.is_cancelled(record.key, signal.id):
                    settle(accepted, Accepted(action="discard"))
                    settle(persisted, None)
                    return
                # The thread may have been used and forgotten meanwhile.
                current = self._table.current(record)
                result = self._route_anywhere(current, agent, signal, target, is_named=True)
                if result.persisted is not None:
                    await copy_outcome(result.persisted, persisted)
                else:
                    settle(persisted, None)
                await copy_outcome(result.accepted, accepted)
            except BaseException as exc:
                for future in (accepted, persisted):
                    settle_error(future, exc if isinstance(exc, Exception) else stopped())
                if not isinstance(exc, Exception):
                    raise
            finally:
                self._table.drop_if_forgettable(self._table.current(record))

        self._tasks.start(work(), name=f"signal:{signal.id}")
        wants_persist = "persist" in (target.if_idle.behavior, target.if_active.behavior)
        return SendSignalResult(
            signal=signal,
            accepted=quiet(accepted),
            persisted=quiet(persisted) if wants_persist else None,
        )

    # -- routing --------------------------------------------------------------------------

    def _route_anywhere(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        target: SignalTarget,
        *,
        is_named: bool = False,
    ) -> SendSignalResult:
        """
        Route by what this process knows, unless it matters what runs elsewhere (G10).

        ``is_named``: others may be sending it, too, since its id wasn't made here just now.
        """
        outside = self._table.outside
        branches = target.if_active, target.if_idle
        is_plain = (target.if_active.behavior, target.if_idle.behavior) == ("deliver", "wake") and (
            not any(branch.attributes for branch in branches)
        )
        if outside is None or is_plain or not record.is_idle:
            return self._route(record, agent, signal, target, is_named=is_named)
        if outside.reach.held_by(record.key) is not None:
            return self._route(record, agent, signal, target, is_named=is_named)
        return self._route_by_lease(outside, record, agent, signal, target, is_named=is_named)

    def _route_by_lease(
        self,
        outside: OutsideThreads,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        target: SignalTarget,
        *,
        is_named: bool,
    ) -> SendSignalResult:
        """Idle here: whether a run elsewhere has the thread decides the branch."""
        loop = asyncio.get_running_loop()
        persisted: asyncio.Future[None] = loop.create_future()
        accepted: asyncio.Future[Accepted] = loop.create_future()

        async def work() -> Accepted:
            # Whose it is decides: if nobody knows, the sender has to (field report R101).
            owner = await outside.reach.known_owner(record.key)
            current = self._table.current(record)
            if owner is None or not current.is_idle:
                result = self._route(current, agent, signal, target, is_named=is_named)
            else:
                result = self._route_to_owner(current, agent, signal, target, is_named=is_named)
            if result.persisted is not None:
                await copy_outcome(result.persisted, persisted)
            return await result.accepted

        self._answer(work(), accepted, name=f"route:{signal.id}")
        accepted.add_done_callback(lambda _: settle(persisted, None))
        wants_persist = "persist" in (target.if_idle.behavior, target.if_active.behavior)
        return SendSignalResult(
            signal=signal,
            accepted=quiet(accepted),
            persisted=quiet(persisted) if wants_persist else None,
        )

    def _answer(
        self, work: Coroutine[Any, Any, Accepted], future: asyncio.Future[Accepted], *, name: str
    ) -> None:
        """What the work returns or raises is what the future says."""

        async def run() -> None:
            try:
                settle(future, await work)
            except Exception as exc:  # noqa: BLE001 - whoever awaits the future gets it
                settle_error(future, exc)
            except BaseException:
                settle_error(future, stopped())
                raise

        self._tasks.start(run(), name=name)

    def _route_to_owner(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        target: SignalTarget,
        *,
        is_named: bool,
    ) -> SendSignalResult:
        """The branch for an active run, which another process has."""
        signal = _with_branch(signal, target, is_active=True)
        behavior = target.if_active.behavior
        if behavior == "discard" or (behavior == "persist" and signal.transient):
            self._table.drop_if_forgettable(record)
            return self._settled(record, signal, "discard", Route(kind="discard"))
        if behavior == "persist":
            return self._persist(record, agent, signal, echo=False)
        return self._wake(record, agent, signal, target, is_named=is_named)

    def _route(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        target: SignalTarget,
        *,
        is_named: bool,
    ) -> SendSignalResult:
        # No await from here until the queues are consistent.
        record = self._parked.expire(record)
        route = decide_route(
            record.holder, agent_id=agent.id, target=target, is_transient=bool(signal.transient)
        )
        signal = _with_branch(signal, target, is_active=route.is_active)
        match route.kind:
            case "pending" | "pre_run":
                return self._join(record, agent, signal, route)
            case "queue":
                return self._queue(record, agent, signal, target.if_idle.stream_options or {})
            case "blocked":
                self._parked.look_at(record)
                return self._settled(record, signal, "blocked", route)
            case "discard":
                self._table.drop_if_forgettable(record)
                return self._settled(record, signal, "discard", Route(kind="discard"))
            case "persist_active" | "persist_idle":
                return self._persist(record, agent, signal, echo=route.kind == "persist_idle")
            case "wake":
                return self._wake(record, agent, signal, target, is_named=is_named)

    def _join(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, route: Route
    ) -> SendSignalResult:
        """The run that has the thread gets the signal; it may drop a request for it."""
        try:
            record.queues.admit(signal, thread_id=record.thread_id)
        except SignalQueueFullError as exc:
            return self._refused(signal, exc)
        queue = record.queues.pending if route.kind == "pending" else record.queues.pre_run
        queue.append(signal)
        record.waiting_agent = agent
        holder = record.holder
        assert holder is not None
        holder.interrupt.signal_arrived()
        self._parked.look_after(record)
        return self._settled(record, signal, "deliver", route)

    def _queue(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        options: Mapping[str, Any],
        *,
        owner_id: str | None = None,
        is_named: bool = False,
    ) -> SendSignalResult:
        try:
            run_id = self._turns.queue(
                record, agent, signal, options, owner_id=owner_id, is_named=is_named
            )
        except SignalQueueFullError as exc:
            return self._refused(signal, exc)
        self._parked.look_after(record)
        return self._settled(record, signal, "deliver", Route(kind="queue", run_id=run_id))

    def _wake(
        self,
        record: ThreadRecord,
        agent: ThreadAgent,
        signal: Signal,
        target: SignalTarget,
        *,
        is_turn: bool = False,
        is_named: bool = False,
    ) -> SendSignalResult:
        accepted: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        self._accepted.remember(record.key, signal.id, accepted)
        options: Mapping[str, Any] = target.if_idle.stream_options or {}
        claims = self._table.claims
        claim = claims.local(record.resource_id, record.thread_id) if claims is not None else None
        if claim is not None:
            # Its session runs it; of the caller only the context counts (signals.md 18.2).
            context = {name: options[name] for name in ("request_context",) if name in options}
            agent, options = claim.agent, {**claim.options(), **context}
        elif record.key in self._searching or target.if_idle.require_claimed_owner:
            self._wake_owner(record, signal, accepted)
            return SendSignalResult(signal=signal, accepted=quiet(accepted))
        self._turns.wake(
            record, agent, signal, options, accepted, is_turn=is_turn, is_named=is_named
        )
        return SendSignalResult(signal=signal, accepted=quiet(accepted))

    def _wake_owner(
        self, record: ThreadRecord, signal: Signal, accepted: asyncio.Future[Accepted]
    ) -> None:
        """Have the session that claims the thread take the signal; nothing starts here."""
        claims = self._table.claims
        resource_id, thread_id = record.resource_id, record.thread_id

        async def work() -> Accepted:
            # While the owner is looked for, all that is sent goes the same way (row 6).
            self._searching[record.key] = self._searching.get(record.key, 0) + 1
            try:
                if claims is None:
                    raise DeliveryError(f"No claimed thread owner responded for thread {thread_id}")
                return await claims.wake_owner(signal, resource_id=resource_id, thread_id=thread_id)
            finally:
                self._searching[record.key] -= 1
                if not self._searching[record.key]:
                    del self._searching[record.key]
                self._table.drop_if_forgettable(self._table.current(record))

        self._answer(work(), accepted, name=f"claimed:{signal.id}")

    def _settled(
        self, record: ThreadRecord, signal: Signal, action: AcceptedAction, route: Route
    ) -> SendSignalResult:
        future: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        reason = "thread-blocked" if action == "blocked" else None
        answer = Accepted(action=action, run_id=route.run_id, reason=reason)
        outside = self._table.outside
        if action == "deliver" and outside is not None:
            keeping = outside.accept(record, signal, answer)
            self._answer(keeping, future, name=f"keep:{signal.id}")
        else:
            future.set_result(answer)
        if action == "deliver":
            self._accepted.remember(record.key, signal.id, future)
        return SendSignalResult(signal=signal, accepted=quiet(future))

    def _refused(self, signal: Signal, error: Exception) -> SendSignalResult:
        future: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        settle_error(future, error)
        return SendSignalResult(signal=signal, accepted=future)

    def _persist(
        self, record: ThreadRecord, agent: ThreadAgent, signal: Signal, *, echo: bool
    ) -> SendSignalResult:
        row = message_from_signal(
            signal, thread_id=record.thread_id, resource_id=record.resource_id or None
        )
        writing = agent.store_message(row)
        if writing is None:
            self._table.drop_if_forgettable(record)
            return self._refused(
                signal,
                SignalPersistUnavailableError(
                    f"Agent {agent.id!r} has no memory, so nothing can be persisted."
                ),
            )

        async def write() -> None:
            try:
                await writing
            finally:
                current = self._table.current(record)
                self._table.drop_if_forgettable(current)
            if echo:
                run_id = self._ids.new("run")
                show_persisted(current, signal, agent_id=agent.id, run_id=run_id)

        task = self._tasks.start(write(), name=f"persist:{signal.id}")
        accepted: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        accepted.set_result(Accepted(action="persist"))
        return SendSignalResult(signal=signal, accepted=accepted, persisted=quiet(task))

    def remember(self, key: str, signal_id: str, answer: Accepted) -> None:
        """A signal that was taken: its repetition has no second effect."""
        taken: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
        taken.set_result(answer)
        self._accepted.remember(key, signal_id, taken)

    def has_taken(self, key: str, signal_id: str) -> bool:
        """Was this signal taken here lately, or cancelled?"""
        return self.is_cancelled(key, signal_id) or (self._accepted.get(key, signal_id) is not None)

    def is_cancelled(self, key: str, signal_id: str) -> bool:
        """Was this signal cancelled, here or in another process?"""
        return self._accepted.is_cancelled(key, signal_id)

    # -- taking back ----------------------------------------------------------------------

    def cancel(self, resource_id: str | None, thread_id: str, signal_ids: list[str]) -> list[str]:
        """Remove waiting signals of any agent; those that come later are dropped, too."""
        record = self._table.of(resource_id, thread_id)
        for signal_id in signal_ids:
            self._accepted.cancel(record.key, signal_id)
        gone = record.cancel(signal_ids)
        if self._table.outside is not None:
            # Also those that wait elsewhere, or are on their way.
            self._table.outside.cancelled(record.key, signal_ids)
        self._table.drop_if_forgettable(record)
        return gone

    def forget(self, key: str, signal_ids: list[str]) -> None:
        """These were cancelled in another process."""
        for signal_id in signal_ids:
            self._accepted.cancel(key, signal_id)
        record = self._table.by_key(key)
        if record is not None:
            record.cancel(signal_ids)

    def cancel_owner(
        self, resource_id: str | None, thread_id: str, *, agent_id: str, owner_id: str
    ) -> list[str]:
        """Remove what this agent queued for this owner."""
        record = self._table.find(resource_id, thread_id)
        if record is None:
            return []
        gone = record.queues.cancel_owner(agent_id, owner_id)
        if gone and self._table.outside is not None:
            self._table.outside.cancelled(record.key, gone)
        self._table.drop_if_forgettable(record)
        return gone


def _noted(record: ThreadRecord, result: SendSignalResult) -> SendSignalResult:
    """Log what became of a signal, once that is decided (signals.md G18)."""

    def note(accepted: asyncio.Future[Accepted]) -> None:
        if accepted.cancelled():
            return
        error = accepted.exception()
        answer = None if error is not None else accepted.result()
        logger.info(
            "signal routed",
            extra={
                "signal_id": result.signal.id,
                "signal_type": result.signal.type,
                "resource_id": record.resource_id,
                "thread_id": record.thread_id,
                "action": answer.action if answer is not None else "refused",
                "run_id": answer.run_id if answer is not None else None,
                "error": getattr(error, "id", type(error).__name__) if error is not None else None,
            },
        )

    if isinstance(result.accepted, asyncio.Future):
        result.accepted.add_done_callback(note)
    return result


def _with_branch(signal: Signal, target: SignalTarget, *, is_active: bool) -> Signal:
    """The signal with the attributes of the branch that was taken (signals.md 7.3)."""
    branch = target.if_active.attributes if is_active else target.if_idle.attributes
    if not branch:
        return signal
    return signal.replace(attributes={**(signal.attributes or {}), **branch})
