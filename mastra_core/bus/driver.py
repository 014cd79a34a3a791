"""What a store must offer so that the event engine can run on it (pubsub_and_lease.md 8.1).

A driver keeps the log and the state of groups; it decides nothing. Subscriptions,
redelivery, batching, backpressure and closing are the engine's, once for all stores.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from mastra_core.contracts.pubsub import (
    Cursor,
    DeadLetter,
    FenceToken,
    PubSubCapabilities,
    StartFrom,
)
from mastra_core.errors import PubSubError
from mastra_core.wire.events import Event

__all__ = (
    "Ack",
    "BusDriver",
    "Claim",
    "Claims",
    "Dead",
    "DirectDriver",
    "Entry",
    "GiveBack",
    "ListeningDriver",
    "Nack",
    "Outgoing",
    "Page",
    "Position",
    "RememberingDriver",
    "Settlement",
    "Start",
    "position_from_cursor",
)

#: A place in the log of one topic, comparable within it: ``(epoch, sequence)``, or the two
#: parts of a stream id. Reading goes on *after* it.
Position: TypeAlias = tuple[int, int]

#: Where a subscription begins; a number is the index of the first event that it wants.
Start: TypeAlias = StartFrom | int


@dataclass(slots=True)
class Outgoing:
    """One event on its way into the log, already in the driver's own form."""

    event: Event
    #: What ``encode`` made of the event.
    payload: Any
    #: Bytes of the JSON form of ``event.data``.
    size: int
    dedupe_id: str | None = None
    fence: FenceToken | None = None


@dataclass(slots=True)
class Entry:
    """One event in the log; its envelope carries ``topic``, ``index`` and ``cursor``."""

    position: Position
    event: Event


@dataclass(slots=True)
class Page:
    """What a read gave."""

    entries: Sequence[Entry]
    #: Read on after this; not before the last entry.
    position: Position
    #: Indexes of the first event that is gone and of the first that is there.
    gap: tuple[int, int] | None = None
    #: Nothing was behind it when it was read, and whoever writes later gives a hint.
    is_last: bool = False


@dataclass(slots=True)
class Claim:
    """One event that this consumer holds for now."""

    position: Position
    event: Event
    #: Deliveries to this group including this one; a crash of the former holder counts.
    attempt: int
    last_error: str | None = None


@dataclass(slots=True)
class Claims:
    """The answer to a claim."""

    claims: Sequence[Claim]
    #: When the earliest event that is held or delayed becomes claimable; None without one.
    next_due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Ack:
    """The event is done for this group."""

    position: Position
    attempt: int


@dataclass(frozen=True, slots=True)
class Nack:
    """The group shall have it again after ``delay_ms``."""

    position: Position
    attempt: int
    delay_ms: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Not worked on: claimable at once, and this delivery doesn't count."""

    position: Position
    attempt: int


@dataclass(frozen=True, slots=True)
class Dead:
    """The group gives up; the event becomes a dead letter in the same step."""

    position: Position
    attempt: int
    error: str | None = None


Settlement: TypeAlias = Ack | Nack | GiveBack | Dead


@runtime_checkable
class BusDriver(Protocol):
    """One store under the engine; rules E1-E6.

    What the store refuses is raised as ``PubSubError``; a lost connection as
    ``PubSubConnectionError``, upon which the engine reads again after a pause.
    """

    capabilities: PubSubCapabilities

    async def open(self) -> None:
        """Connect; called once, before anything else."""
        ...

    async def close(self) -> None:
        """Let go of everything; a running ``wake`` ends or is cancelled before."""
        ...

    def encode(self, topic: str, event: Event) -> tuple[Any, int]:
        """
        The event in the form that ``append`` takes, and the bytes of its JSON data.

        Raises:
            WireEncodeError: It has no form outside this process.
        """
        ...

    async def append(self, topic: str, batch: Sequence[Outgoing]) -> Sequence[Exception | None]:
        """
        Put the events into the log, in this order, and tell other processes.

        An event whose ``dedupe_id`` is known is not stored again. An event whose fence is
        old gets its ``FencedOutError`` in the answer; the others are stored. Positions
        become visible in order (E5).

        Raises:
            PubSubConnectionError: Nobody knows what was stored.
        """
        ...

    async def locate(self, topic: str, start: Start) -> Position:
        """
        The position after which a subscription reads.

        ``earliest`` is before the first retained event, ``latest`` the current end; a cursor
        of an older epoch means the start of the current one.
        """
        ...

    async def read_after(self, topic: str, position: Position, limit: int) -> Page:
        """At most ``limit`` events after the position; a position of an older epoch is the start."""
        ...

    async def watch(self, topics: Collection[str]) -> None:
        """From when this returns, ``wake`` speaks of exactly these topics."""
        ...

    async def wake(self) -> Collection[str] | None:
        """
        Wait for a hint; None means that every topic may have news.

        Returns at least once per poll interval of the store, so that a lost hint costs no
        more than that (E1).
        """
        ...

    async def join_group(self, topic: str, group: str, consumer: str, start: Start) -> None:
        """Make the group if it isn't there; an existing one keeps its place."""
        ...

    async def leave_group(self, topic: str, group: str, consumer: str) -> None:
        """Forget the consumer; what it still holds is claimable at once."""
        ...

    async def claim(
        self,
        topic: str,
        group: str,
        consumer: str,
        *,
        limit: int,
        ack_wait_ms: int,
        ordered: bool,
    ) -> Claims:
        """
        Take events for this consumer in one atomic step.

        First those whose time has come again, by position, with ``attempt`` one higher; then
        new ones. ``ordered``: at most one, and a new one only if the group holds none. A group
        that is gone is made anew at the start of the current epoch.
        """
        ...

    async def settle(
        self, topic: str, group: str, consumer: str, settlements: Sequence[Settlement]
    ) -> Sequence[DeadLetter]:
        """
        Settle what this consumer holds in this attempt; anything else is left alone.

        Returns:
            The dead letters that this made.
        """
        ...

    async def extend(
        self,
        topic: str,
        group: str,
        consumer: str,
        held: Sequence[tuple[Position, int]],
        ack_wait_ms: int,
    ) -> None:
        """Start the time of these (position, attempt) anew, where they are still this consumer's."""
        ...

    async def clear(self, topic: str) -> None:
        """Forget log, groups and what they hold; the index restarts at 0. Dead letters stay."""
        ...

    async def trim(self, topic: str, *, run_id: str, produced_before_ms: int | None) -> None:
        """Delete the events of the run; with a time only those produced until then, unpinned."""
        ...

    async def list_dead(self, topic: str, group: str | None) -> list[DeadLetter]:
        """Dead letters, oldest first."""
        ...

    async def requeue_dead(self, topic: str, dead_letter_id: str) -> bool:
        """Give it to its group again, attempt 1; False if it isn't there."""
        ...

    async def purge_dead(self, topic: str) -> int:
        """Forget the dead letters of the topic; how many there were."""
        ...


@runtime_checkable
class DirectDriver(BusDriver, Protocol):
    """A driver whose log lies in this process, so that nothing needs waiting."""

    def append_now(self, topic: str, outgoing: Outgoing) -> None:
        """As ``append`` of one event, whose refusal is raised."""
        ...

    def read_now(self, topic: str, position: Position, limit: int) -> Page:
        """As ``read_after``."""
        ...


@runtime_checkable
class RememberingDriver(BusDriver, Protocol):
    """A driver that knows what it wrote itself, so that its own subscribers get it at once."""

    def remembered(self, topic: str, position: Position, limit: int) -> Page | None:
        """As ``read_after``, without waiting; None if that has to be asked for."""
        ...


@runtime_checkable
class ListeningDriver(BusDriver, Protocol):
    """A driver that asks nothing while it waits to be told of what comes."""

    def ask_again(self) -> None:
        """The next read of every topic asks the store: a flush waits for what is there now."""
        ...


def position_from_cursor(cursor: Cursor, topic: str) -> Position:
    """
    The epoch and number that a cursor names.

    Raises:
        PubSubError: It is none of ours.
    """
    epoch, _, seq = cursor.value.partition(":")
    if not (epoch.isdecimal() and seq.isdecimal()):
        raise PubSubError(f"{cursor.value!r} is not a cursor of topic {topic!r}.")
    return (int(epoch), int(seq))
