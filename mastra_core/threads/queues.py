"""What waits for the runs of one thread, in order and within limits (signals.md 1, 8, G6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from mastra_core.base.isotime import epoch_ms
from mastra_core.base.jsonjs import encode
from mastra_core.errors import ConfigError, SignalQueueFullError, shown
from mastra_core.messages.detect import MessageInput
from mastra_core.wire.signals import Signal

if TYPE_CHECKING:
    from mastra_core.threads.record import ThreadAgent

__all__ = (
    "MAX_PROCESS_SIGNALS",
    "MAX_PROCESS_SIZE",
    "MAX_SIGNALS",
    "MAX_SIZE",
    "QueueLimits",
    "QueueMeter",
    "QueuedTurn",
    "ThreadQueues",
    "accepted_ms",
)

_MIB: Final = 1024 * 1024
#: Waiting signals of one thread and their bytes, then those of all threads together.
MAX_SIGNALS: Final = 1000
MAX_SIZE: Final = 8 * _MIB
MAX_PROCESS_SIGNALS: Final = 100_000
MAX_PROCESS_SIZE: Final = 256 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """
    How much input may wait; more is refused when it is sent.

    Args:
        signals: Waiting signals of one thread.
        size: Their bytes as JSON.
        process_signals: Waiting signals of all threads of one application.
        process_size: Their bytes.

    Raises:
        ConfigError: A limit isn't a positive number.
    """

    signals: int = MAX_SIGNALS
    size: int = MAX_SIZE
    process_signals: int = MAX_PROCESS_SIGNALS
    process_size: int = MAX_PROCESS_SIZE

    def __post_init__(self) -> None:
        for name in ("signals", "size", "process_signals", "process_size"):
            limit = getattr(self, name)
            if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
                raise ConfigError(f"The limit {name} is a positive number, not {shown(limit)}.")


class QueueMeter:
    """How much waits on all threads together."""

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self.signals = 0
        self.size = 0


@dataclass(slots=True, kw_only=True, eq=False)
class QueuedTurn:
    """Input that gets a run of its own when the thread is free: signals, or messages."""

    agent: ThreadAgent
    run_id: str
    stream_options: Mapping[str, Any]
    #: Turns are taken in this order, also after one could not start.
    order: tuple[int, int]
    signals: tuple[Signal, ...] = ()
    messages: MessageInput | None = None
    #: It answers input of the run before, so it comes before all others.
    is_follow_up: bool = False
    #: Who may count and cancel what it queued (signals.md 8.3).
    owner_id: str | None = None
    #: The lease that this process had when it began to wait; None if it had none.
    term: object | None = None
    #: How often it could not start.
    failures: int = 0
    #: It rests until its next try.
    rests: bool = False
    #: Nobody wants it any more: a start that fails doesn't bring it back.
    is_cancelled: bool = False
    #: Its run is being set up: it can't be taken back any more.
    is_handed_off: bool = False
    #: As ``InboxEntry.number``; 0 if it was never kept.
    number: int = 0
    #: Its id wasn't made when it was queued: it may have been sent before, and answered.
    is_named: bool = False
    #: A dead run had entered it: it stands in the transcript, so nothing else comes before it.
    is_begun: bool = False

    @property
    def accepted(self) -> tuple[bool, int, int]:
        """The order of acceptance, as that of the inbox, behind what was begun."""
        return not self.is_begun, accepted_ms(self.signals[0]), self.number


def accepted_ms(signal: Signal) -> int:
    """When it was accepted, as its sender's clock says."""
    return epoch_ms(signal.accepted_at or signal.created_at)


@dataclass(slots=True)
class ThreadQueues:
    """The four queues of one thread; each is first in, first out."""

    meter: QueueMeter
    #: For the first request of the run that is being set up.
    pre_run: deque[Signal] = field(default_factory=deque)
    #: For the next step of the run that is active.
    pending: deque[Signal] = field(default_factory=deque)
    #: Answers to input of a run that has ended, which could not start.
    restored: deque[QueuedTurn] = field(default_factory=deque)
    #: Messages that go on a conversation, a run each.
    continuations: deque[QueuedTurn] = field(default_factory=deque)
    #: Input that asked for a run of its own.
    idle: deque[QueuedTurn] = field(default_factory=deque)
    #: The turn that is being started.
    starting: QueuedTurn | None = None
    #: Called after the number of idle turns may have changed.
    changed: Callable[[], None] = lambda: None
    _sizes: dict[str, int] = field(default_factory=dict)
    _size: int = 0

    def __bool__(self) -> bool:
        return bool(self.pre_run or self.pending) or any(True for _ in self.turns())

    @property
    def only_rest(self) -> bool:
        """Is all that waits, if anything does, to be tried again later?"""
        return not (self.pre_run or self.pending) and all(turn.rests for turn in self.turns())

    # -- in -------------------------------------------------------------------------------

    def admit(self, signal: Signal, *, thread_id: str) -> None:
        """
        Count a signal that is going to wait.

        Raises:
            SignalQueueFullError: It would be too much; nothing was counted.
        """
        size = len(encode(signal.to_wire()))
        limits, meter = self.meter.limits, self.meter
        for used, limit, unit in (
            (len(self._sizes) + 1, limits.signals, "signals"),
            (self._size + size, limits.size, "bytes"),
        ):
            if used > limit:
                raise SignalQueueFullError(thread_id=thread_id, limit=limit, unit=unit)
        for used, limit, unit in (
            (meter.signals + 1, limits.process_signals, "signals"),
            (meter.size + size, limits.process_size, "bytes"),
        ):
            if used > limit:
                raise SignalQueueFullError(
                    f"All threads together already have {limit} {unit} waiting.",
                    thread_id=thread_id,
                    limit=limit,
                    unit=unit,
                )
        self._count(signal, size)

    def adopt(self, signal: Signal, *, pre_run: bool) -> None:
        """Let a signal wait that was accepted elsewhere, whatever waits already."""
        self._count(signal, len(encode(signal.to_wire())))
        (self.pre_run if pre_run else self.pending).append(signal)

    def adopt_in_order(self, signal: Signal) -> None:
        """The same for the run that is being set up: behind what was accepted before it."""
        self._count(signal, len(encode(signal.to_wire())))
        at = accepted_ms(signal)
        later = (n for n, one in enumerate(self.pre_run) if accepted_ms(one) > at)
        self.pre_run.insert(next(later, len(self.pre_run)), signal)

    def restore(self, signals: Sequence[Signal]) -> None:
        """Let signals wait again that were taken, before all others."""
        for signal in signals:
            self._count(signal, len(encode(signal.to_wire())))
        self.pending.extendleft(reversed(signals))

    def adopt_turn(self, turn: QueuedTurn, *, before: QueuedTurn | None = None) -> None:
        """Let a turn wait that was accepted elsewhere, whatever waits already."""
        for signal in turn.signals:
            self._count(signal, len(encode(signal.to_wire())))
        if before is None:
            self.queue(turn)
        else:
            self.idle.insert(self.idle.index(before), turn)
            self.changed()

    def later_than(self, accepted: tuple[bool, int, int]) -> QueuedTurn | None:
        """The first idle turn that was accepted after this."""
        return next((turn for turn in self.idle if turn.accepted > accepted), None)

    def queue(self, turn: QueuedTurn) -> None:
        """Let an admitted turn wait behind all others."""
        self.idle.append(turn)
        self.changed()

    def put_back(self, turn: QueuedTurn) -> None:
        """Queue a turn that could not start, at its old place."""
        for signal in turn.signals:
            self._count(signal, len(encode(signal.to_wire())))
        queue = self.idle if turn.messages is None else self.continuations
        if turn.is_follow_up:
            queue = self.restored
        queue.append(turn)
        # One that was adopted has the number of the one before which it waits.
        ordered = sorted(queue, key=lambda one: (one.order, one.accepted if one.signals else ()))
        queue.clear()
        queue.extend(ordered)
        self.changed()

    def restart(self, run_id: str | None = None) -> None:
        """Turns that rest, or this one, may be tried again."""
        for queue in (self.restored, self.continuations, self.idle):
            turns = [
                replace(turn, rests=turn.rests and run_id not in (None, turn.run_id))
                for turn in queue
            ]
            queue.clear()
            queue.extend(turns)

    # -- out ------------------------------------------------------------------------------

    def take_pre_run(self) -> list[Signal]:
        """What the first request of the run is to see."""
        return self._take(self.pre_run)

    def take_pending(self) -> list[Signal]:
        """What the next step of the run is to see."""
        return self._take(self.pending)

    def _take(self, queue: deque[Signal]) -> list[Signal]:
        taken = list(queue)
        queue.clear()
        for signal in taken:
            self._discount(signal)
        return taken

    def fold_pre_run(self) -> None:
        """What no first request came for is answered before all other input."""
        self.pending.extendleft(reversed(self.pre_run))
        self.pre_run.clear()

    def take_follow_up(self) -> Signal | None:
        """The signal that opens a follow-up run; those behind it go into its first request."""
        if not self.pending:
            return None
        first = self.pending.popleft()
        self._discount(first)
        self.pre_run.extend(self.pending)
        self.pending.clear()
        return first

    def take_turn(self) -> QueuedTurn | None:
        """The next turn that doesn't rest: continuations before what asked for its own run."""
        for turn in self.turns():
            if not turn.rests:
                self._remove(turn)
                self.starting = turn
                self.changed()
                return turn
        return None

    def _remove(self, turn: QueuedTurn) -> None:
        for queue in (self.restored, self.continuations, self.idle):
            if turn in queue:
                queue.remove(turn)
        for signal in turn.signals:
            self._discount(signal)

    # -- away -----------------------------------------------------------------------------

    def cancel(self, signal_ids: Sequence[str]) -> list[str]:
        """Remove these signals wherever they wait; the ids of those that did."""
        wanted = set(signal_ids)
        gone: list[str] = []
        for queue in (self.pre_run, self.pending):
            for signal in [signal for signal in queue if signal.id in wanted]:
                queue.remove(signal)
                self._discount(signal)
                gone.append(signal.id)
        for turn in [*self.restored, *self.idle]:
            dropped = [signal for signal in turn.signals if signal.id in wanted]
            if not dropped:
                continue
            gone += [signal.id for signal in dropped]
            for signal in dropped:
                self._discount(signal)
            turn.signals = tuple(s for s in turn.signals if s.id not in wanted)
            if not turn.signals:
                self._remove(turn)
        self.changed()
        return gone

    def cancel_owner(self, agent_id: str, owner_id: str) -> list[str]:
        """Remove what this agent queued for this owner."""
        return self._drop(
            [t for t in self.idle if t.agent.id == agent_id and t.owner_id == owner_id]
        )

    def clear(self) -> list[str]:
        """Remove all input; what goes on a conversation stays (signals.md 8.5)."""
        gone = [signal.id for queue in (self.pre_run, self.pending) for signal in queue]
        self.take_pre_run()
        self.take_pending()
        return gone + self._drop([*self.restored, *self.idle])

    def _drop(self, turns: Sequence[QueuedTurn]) -> list[str]:
        for turn in turns:
            self._remove(turn)
        self.changed()
        return [signal.id for turn in turns for signal in turn.signals]

    # -- looking --------------------------------------------------------------------------

    def count(self, agent_id: str, owner_id: str | None) -> int:
        """
        How many turns wait, also the one that waits for the lease of the thread; with an owner
        only what this agent queued for it.
        """
        waiting = list(self.idle)
        first = self.starting
        if first is not None and not (first.is_cancelled or first.is_handed_off):
            waiting += [] if first.is_follow_up or first.messages is not None else [first]
        if owner_id is None:
            return len(waiting)
        return sum(t.agent.id == agent_id and t.owner_id == owner_id for t in waiting)

    def hand_off(self, turn: QueuedTurn) -> None:
        """The run of this turn is being set up: it waits no more, and can't be taken back."""
        turn.is_handed_off = True
        self.changed()

    def turn_of(self, signal_id: str) -> QueuedTurn | None:
        """The turn in which a signal waits; None if it waits for a run that is there."""
        return next((t for t in self.turns() if any(s.id == signal_id for s in t.signals)), None)

    def signal_ids(self) -> list[str]:
        """Everything that waits."""
        waiting = [signal.id for signal in (*self.pre_run, *self.pending)]
        return waiting + [signal.id for turn in self.turns() for signal in turn.signals]

    def durable_ids(self) -> list[str]:
        """Everything that waits and may be stored."""
        waiting = [*self.pre_run, *self.pending]
        waiting += [signal for turn in self.turns() for signal in turn.signals]
        return [signal.id for signal in waiting if not signal.transient]

    def turns(self) -> Iterator[QueuedTurn]:
        """Everything that waits for a run of its own, in its order."""
        yield from [*self.restored, *self.continuations, *self.idle]

    def _count(self, signal: Signal, size: int) -> None:
        if signal.id in self._sizes:
            return
        self._sizes[signal.id] = size
        self._size += size
        self.meter.signals += 1
        self.meter.size += size

    def _discount(self, signal: Signal) -> None:
        size = self._sizes.pop(signal.id, None)
        if size is not None:
            self._size -= size
            self.meter.signals -= 1
            self.meter.size -= size
