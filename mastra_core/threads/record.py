"""What this process knows about one thread: its run, its queues, its readers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from mastra_core.errors import MastraError
from mastra_core.loop.interrupt import Interrupt
from mastra_core.messages.detect import MessageInput
from mastra_core.streaming.output import ModelOutput
from mastra_core.threads.queue_events import QueueWatchers
from mastra_core.threads.queues import QueuedTurn, ThreadQueues
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal

if TYPE_CHECKING:
    from mastra_core.threads.announce import RunAnnouncer
    from mastra_core.threads.subscription import ThreadSubscription

__all__ = ("ActiveRun", "Holder", "Reservation", "ThreadAgent", "ThreadRecord")


class ThreadAgent(Protocol):
    """What the runtime asks of an agent."""

    @property
    def id(self) -> str: ...

    def start_turn(
        self,
        signals: Sequence[Signal],
        *,
        run_id: str,
        thread_id: str,
        resource_id: str,
        stream_options: Mapping[str, Any],
    ) -> Coroutine[Any, Any, ModelOutput]:
        """
        Start a run that these signals open; its thread is reserved for it already.

        Raises:
            MastraError: The run can't be set up; nothing was started.
        """
        ...

    def continue_turn(
        self,
        messages: MessageInput,
        *,
        run_id: str,
        thread_id: str,
        resource_id: str,
        stream_options: Mapping[str, Any],
    ) -> Coroutine[Any, Any, ModelOutput]:
        """
        Start a run with messages; its thread is reserved for it already.

        Raises:
            MastraError: The run can't be set up; nothing was started.
        """
        ...

    async def cancel_parked(self, run_id: str) -> None:
        """End a run that waits for data, without an answer."""
        ...

    async def is_parked(self, run_id: str) -> bool:
        """
        Does this run, which was parked here, still wait for an answer? One that another
        process is answering doesn't: whoever waits for the other here would wait for ever.
        """
        ...

    @property
    def stores_messages(self) -> bool:
        """Does this agent store messages?"""
        ...

    def store_message(self, message: Message) -> Awaitable[None] | None:
        """Store one row of the thread; None if this agent has no memory."""
        ...

    async def answered(self, *, thread_id: str, message_ids: Sequence[str]) -> set[str]:
        """Which of these have a stored row that an answer follows?"""
        ...

    async def has_message(self, *, thread_id: str, message_id: str) -> bool:
        """Is there a stored row with this id in the thread?"""
        ...


@dataclass(slots=True, kw_only=True)
class Reservation:
    """The thread is promised to a run that is being set up."""

    run_id: str
    agent_id: str
    interrupt: Interrupt
    #: Which run has the thread, once that is known; None where nobody else could have it.
    winner: asyncio.Future[str] | None = None
    #: Signals whose senders wait for that, too, and why one was refused by who has the thread.
    offers: dict[str, MastraError | None] = field(default_factory=dict)

    def settle(self, run_id: str) -> None:
        """This run has the thread; the first word counts."""
        if self.winner is not None and not self.winner.done():
            self.winner.set_result(run_id)


@dataclass(slots=True, kw_only=True)
class ActiveRun:
    """The run that the thread belongs to now."""

    run_id: str
    agent: ThreadAgent
    output: ModelOutput
    interrupt: Interrupt
    stream_options: Mapping[str, Any]
    lifecycle: Literal["running", "suspended"] = "running"
    #: When it was parked, by the monotonic clock.
    parked_at: float | None = None
    #: Tells other processes what it says.
    announcer: RunAnnouncer | None = None
    announcing: asyncio.Task[None] | None = None
    #: Another process has the thread by now.
    is_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who has a thread, as far as this process knows."""

    run_id: str
    agent_id: str
    state: Literal["reserved", "running", "suspended"]
    interrupt: Interrupt


@dataclass(slots=True, kw_only=True)
class ThreadRecord:
    """State of one thread in this process; only the rooms of ``threads`` change it."""

    key: str
    thread_id: str
    resource_id: str
    queues: ThreadQueues
    active: ActiveRun | None = None
    reservation: Reservation | None = None
    #: Whose input waits in the queues of a run.
    waiting_agent: ThreadAgent | None = None
    #: What each run here has taken out of the queues and not answered yet.
    taken: dict[str, list[str]] = field(default_factory=dict)
    subscriptions: list[ThreadSubscription] = field(default_factory=list)
    watchers: QueueWatchers = field(default_factory=QueueWatchers)
    _waiters: list[asyncio.Future[None]] = field(default_factory=list)

    def take(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """These signals are this run's to answer."""
        drained = list(signals)
        if drained:
            self.taken.setdefault(run_id, []).extend(signal.id for signal in drained)
        return drained

    def cancel(self, signal_ids: Sequence[str]) -> list[str]:
        """
        Remove signals that wait, also one whose turn waits for the lease of the thread; the ids
        of those that did.
        """
        gone = self.queues.cancel(signal_ids)
        turn = self.starting
        if turn is None or turn.is_handed_off or turn.is_cancelled or not turn.signals:
            return gone
        # What follows the first one waits in a queue.
        first = turn.signals[0].id
        if first not in set(signal_ids):
            return gone
        turn.is_cancelled = True
        self.queues.changed()
        return [*gone, first]

    @property
    def starting(self) -> QueuedTurn | None:
        """The turn that is being started."""
        return self.queues.starting

    @starting.setter
    def starting(self, turn: QueuedTurn | None) -> None:
        self.queues.starting = turn
        self.queues.changed()

    def put_back(self, run_id: str, signals: Sequence[Signal]) -> None:
        """This run can't answer these; they come before what arrived since."""
        back = {signal.id for signal in signals}
        taken = self.taken.get(run_id, [])
        self.taken[run_id] = [one for one in taken if one not in back]
        self.queues.restore(signals)

    def known_signals(self) -> set[str]:
        """Signals that wait here or are being answered here."""
        taken = {one for ids in self.taken.values() for one in ids}
        starting = self.starting.signals if self.starting is not None else ()
        return {*self.queues.signal_ids(), *taken, *(signal.id for signal in starting)}

    @property
    def holder(self) -> Holder | None:
        """
        Who has the thread; None if it is idle.

        This is the one place that is asked. A run of this process that is set up counts before
        the one that it goes on with.
        """
        active, reservation = self.active, self.reservation
        if active is not None:
            return Holder(
                run_id=active.run_id,
                agent_id=active.agent.id,
                state=active.lifecycle,
                interrupt=active.interrupt,
            )
        if reservation is not None:
            return Holder(
                run_id=reservation.run_id,
                agent_id=reservation.agent_id,
                state="reserved",
                interrupt=reservation.interrupt,
            )
        return None

    def holds(self, run_id: str) -> bool:
        """Does this run have the thread, or is it the next to get it?"""
        return any(h is not None and h.run_id == run_id for h in (self.active, self.reservation))

    def interrupt_of(self, run_id: str) -> Interrupt | None:
        """What stops this run, if it has the thread."""
        for holder in (self.active, self.reservation):
            if holder is not None and holder.run_id == run_id:
                return holder.interrupt
        return None

    @property
    def is_idle(self) -> bool:
        """Nothing runs, is being set up or waits for an answer here."""
        return self.holder is None

    @property
    def is_at_rest(self) -> bool:
        """Idle, and nothing waits for a run."""
        return self.is_idle and not self.queues

    @property
    def only_rests(self) -> bool:
        """Idle, and what waits couldn't start and is tried again later."""
        return self.is_idle and self.queues.only_rest

    @property
    def is_forgettable(self) -> bool:
        """Nothing would be lost with this record."""
        is_watched = bool(self.subscriptions or self.watchers or self._waiters)
        return self.is_at_rest and not is_watched

    @property
    def waits_for_parked(self) -> bool:
        """Something waits behind a run that waits for an answer."""
        if self.active is None or self.active.lifecycle != "suspended":
            return False
        return bool(self.queues or self._waiters)

    @property
    def waits_for_decision(self) -> bool:
        """Is its run parked on an approval?"""
        active = self.active
        is_parked = active is not None and active.lifecycle == "suspended"
        return is_parked and active is not None and active.output.record.waits_for_approval

    def notify(self) -> None:
        """Something about the run of this thread changed."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def change(self) -> asyncio.Future[None]:
        """The next change, to wait for; what happens from now on counts."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    async def until_over(self, run_id: str) -> None:
        """
        Until this run has said and stored all that it will and the thread is handed on, or it
        waits for a decision, with which it will end.
        """
        while self.holds(run_id):
            if self.reservation is None and self.waits_for_decision:
                return
            change = self.change()
            try:
                await change
            finally:
                self.stop_waiting(change)

    def stop_waiting(self, waiter: asyncio.Future[None]) -> None:
        """Nobody waits for this change any more."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
