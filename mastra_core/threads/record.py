"""What this process knows about one thread: its run, its queues, its readers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from mastra_core.loop.interrupt import Interrupt
from mastra_core.streaming.output import ModelOutput
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal

if TYPE_CHECKING:
    from mastra_core.threads.announce import RunAnnouncer
    from mastra_core.threads.subscription import ThreadSubscription

__all__ = ("ActiveRun", "QueuedTurn", "Reservation", "ThreadAgent", "ThreadRecord")


class ThreadAgent(Protocol):
    """What the runtime asks of an agent."""

    @property
    def id(self) -> str: ...

    async def start_turn(
        self,
        signals: Sequence[Signal],
        *,
        run_id: str,
        thread_id: str,
        resource_id: str,
        stream_options: Mapping[str, Any],
    ) -> ModelOutput:
        """
        Start a run that these signals open; its thread is reserved for it already.

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

    async def has_message(self, *, thread_id: str, message_id: str) -> bool:
        """Is there a stored row with this id in the thread?"""
        ...

    async def answered(self, *, thread_id: str, message_ids: Sequence[str]) -> set[str]:
        """Which of these have a stored row that an answer follows?"""
        ...


@dataclass(slots=True, kw_only=True)
class Reservation:
    """The thread is promised to a run that is being set up."""

    run_id: str
    agent_id: str
    interrupt: Interrupt
    #: Which run has the thread, once that is known; None where nobody else could have it.
    holder: asyncio.Future[str] | None = None

    def settle(self, run_id: str) -> None:
        """This run has the thread; the first word counts."""
        if self.holder is not None and not self.holder.done():
            self.holder.set_result(run_id)


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


@dataclass(slots=True, kw_only=True)
class QueuedTurn:
    """Input that gets a run of its own when the thread is free."""

    signal: Signal
    agent: ThreadAgent
    run_id: str
    stream_options: Mapping[str, Any]
    #: Turns are taken in this order, also after one could not start.
    order: tuple[int, int]
    #: How often it could not start.
    failures: int = 0
    #: It rests until its next try.
    rests: bool = False


@dataclass(slots=True, kw_only=True)
class ThreadRecord:
    """State of one thread in this process; only the runtime changes it."""

    key: str
    thread_id: str
    resource_id: str
    active: ActiveRun | None = None
    reservation: Reservation | None = None
    #: For the first request of the run that is being set up.
    pre_run: deque[Signal] = field(default_factory=deque)
    #: For the next step of the run that is active.
    pending: deque[Signal] = field(default_factory=deque)
    #: A run each, after the active one.
    idle: deque[QueuedTurn] = field(default_factory=deque)
    #: Whose input waits in ``pre_run`` and ``pending``.
    waiting_agent: ThreadAgent | None = None
    #: What each run here has taken out of the queues and not answered yet.
    taken: dict[str, list[str]] = field(default_factory=dict)
    subscriptions: list[ThreadSubscription] = field(default_factory=list)
    _waiters: list[asyncio.Future[None]] = field(default_factory=list)

    def put_back(self, turn: QueuedTurn) -> None:
        """Queue a turn that could not start, at its old place."""
        self.idle.append(turn)
        self.idle = deque(sorted(self.idle, key=lambda waiting: waiting.order))

    def take(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """These signals are this run's to answer."""
        drained = list(signals)
        if drained:
            self.taken.setdefault(run_id, []).extend(signal.id for signal in drained)
        return drained

    def waiting_signals(self) -> list[str]:
        """Signals that no run has taken yet."""
        turns = [turn.signal.id for turn in self.idle]
        return [signal.id for signal in (*self.pre_run, *self.pending)] + turns

    def forget_signal(self, signal_id: str) -> bool:
        """Take a signal out of its queue; False if no queue has it."""
        for queue in (self.pre_run, self.pending):
            for signal in queue:
                if signal.id == signal_id:
                    queue.remove(signal)
                    return True
        for turn in self.idle:
            if turn.signal.id == signal_id:
                self.idle.remove(turn)
                return True
        return False

    def known_signals(self) -> set[str]:
        """Signals that wait here or are being answered here."""
        waiting = {signal.id for signal in (*self.pre_run, *self.pending)}
        turns = {turn.signal.id for turn in self.idle}
        return waiting | turns | {one for ids in self.taken.values() for one in ids}

    @property
    def is_idle(self) -> bool:
        """Nothing runs, is being set up or waits for an answer here."""
        return self.active is None and self.reservation is None

    @property
    def is_at_rest(self) -> bool:
        """Idle, and nothing waits for a run."""
        return self.is_idle and not (self.pre_run or self.pending or self.idle)

    @property
    def is_forgettable(self) -> bool:
        """Nothing would be lost with this record."""
        return self.is_at_rest and not self.subscriptions and not self._waiters

    @property
    def waits_for_parked(self) -> bool:
        """Something waits behind a run that waits for an answer."""
        if self.active is None or self.active.lifecycle != "suspended":
            return False
        return bool(self.pre_run or self.pending or self.idle or self._waiters)

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

    def stop_waiting(self, waiter: asyncio.Future[None]) -> None:
        """Nobody waits for this change any more."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
