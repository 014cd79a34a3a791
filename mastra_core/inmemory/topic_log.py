"""One topic in this process's memory: its log, its groups, its dead letters.

Plain data and plain functions; nothing here waits. The clock's readings are handed in.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mastra_core.bus import (
    Ack,
    Claim,
    Claims,
    Dead,
    Entry,
    GiveBack,
    Nack,
    Outgoing,
    Page,
    Position,
    Settlement,
    Start,
    position_from_cursor,
)
from mastra_core.bus.dedupe import DedupeWindow
from mastra_core.bus.trimming import is_trimmable
from mastra_core.contracts.pubsub import Cursor, DeadLetter
from mastra_core.errors import PubSubError
from mastra_core.wire.events import Event

__all__ = ("LogLimits", "TopicLog")

_WEEK_MS = 7 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """What bounds the memory of one topic."""

    max_entries: int = 10_000
    max_bytes: int = 64 * 1024 * 1024
    #: Events that a live group hasn't settled are kept until there are so many.
    max_unsettled: int = 100_000
    max_dead: int = 10_000
    dead_retention_ms: int = _WEEK_MS
    dedupe_window_ms: int = 120_000


@dataclass(slots=True)
class _Held:
    """An event that a group has been given and that isn't settled."""

    attempt: int
    consumer: str | None
    visible_at: float
    last_error: str | None = None
    #: Kept after the log has let it go.
    entry: Entry | None = None


@dataclass(slots=True)
class _Group:
    cursor: int
    held: dict[int, _Held] = field(default_factory=dict)
    #: Held events by the time at which they come again; outdated entries are passed over.
    due: list[tuple[float, int]] = field(default_factory=list)
    consumers: set[str] = field(default_factory=set)
    #: Dead letters that were asked for again: delivered before anything new.
    requeued: int = 0

    @property
    def floor(self) -> int:
        """The highest sequence number below everything that isn't settled."""
        # Requeued dead letters have numbers below 0; the log keeps nothing for them.
        lowest = min((seq for seq in self.held if seq > 0), default=self.cursor + 1)
        return min(self.cursor, lowest - 1)


class TopicLog:
    """Events in order, with dense numbers; epochs count how often it was cleared."""

    def __init__(self, topic: str, limits: LogLimits) -> None:
        self.topic = topic
        self.limits = limits
        self.epoch = 1
        self.last_seq = 0
        self.bytes = 0
        self.groups: dict[str, _Group] = {}
        self.dead: OrderedDict[str, DeadLetter] = OrderedDict()
        self._entries: list[Entry] = []
        self._seqs: list[int] = []
        self._sizes: list[int] = []
        self._trimmed = 0
        #: When it was written or joined, for the hub.
        self.used_ms = 0
        self._dedupe: DedupeWindow | None = None

    @property
    def is_in_use(self) -> bool:
        """Whether a group has consumers or dead letters are kept."""
        return bool(self.dead) or any(group.consumers for group in self.groups.values())

    # -- the log ---------------------------------------------------------------------------------

    def append(self, outgoing: Outgoing, now_ms: int, *, is_numbered: bool = True) -> bool:
        """
        Store one event; False if its dedupe id is known.

        Args:
            outgoing: The payload is the event as it is kept.
            now_ms: The wall clock.
            is_numbered: Whether this log owns the index; else the publisher's stays.

        Raises:
            PubSubError: A live group is too far behind to let anything go.
        """
        if outgoing.dedupe_id is not None:
            if self._dedupe is None:
                self._dedupe = DedupeWindow(self.limits.dedupe_window_ms)
            if self._dedupe.is_known(outgoing.dedupe_id, now_ms):
                return False
        self._make_room(outgoing.size)
        if outgoing.dedupe_id is not None and self._dedupe is not None:
            self._dedupe.add(outgoing.dedupe_id, now_ms)
        self.last_seq = seq = self.last_seq + 1
        event: Event = outgoing.payload
        if is_numbered:
            event.index = seq - 1
        event.cursor = f"{self.epoch}:{seq}"
        self._entries.append(Entry((self.epoch, seq), event))
        self._seqs.append(seq)
        self._sizes.append(outgoing.size)
        self.bytes += outgoing.size
        return True

    def locate(self, start: Start) -> Position:
        """The position after which a subscription that starts so reads."""
        if start == "latest":
            return (self.epoch, self.last_seq)
        if isinstance(start, Cursor):
            return self._position_from_cursor(start)
        if isinstance(start, int):
            return (self.epoch, start)
        # Before the first retained event, so that what was trimmed long ago is no gap.
        return (self.epoch, self._trimmed)

    def read_after(self, position: Position, limit: int) -> Page:
        """Events after the position; one of another epoch is the start of this one."""
        epoch, after = position
        if epoch != self.epoch:
            after = 0
        gap = (after, self._trimmed) if after < self._trimmed else None
        first = bisect_right(self._seqs, after)
        entries = self._entries[first : first + limit]
        end = entries[-1].position if entries else (self.epoch, max(after, self._trimmed))
        return Page(entries, end, gap)

    def clear(self) -> None:
        """Start a new epoch; dead letters stay."""
        self.epoch += 1
        self.last_seq = self.bytes = self._trimmed = 0
        self._entries, self._seqs, self._sizes = [], [], []
        self.groups = {
            name: _Group(cursor=0, consumers=group.consumers)
            for name, group in self.groups.items()
            if group.consumers
        }
        self._dedupe = None

    def trim(self, run_id: str, produced_before_ms: int | None) -> None:
        """Delete the events of a run (3.9); those that groups hold stay with them."""
        doomed = [is_trimmable(entry.event, run_id, produced_before_ms) for entry in self._entries]
        if not any(doomed):
            return
        for place, entry in enumerate(self._entries):
            if doomed[place]:
                self._hand_to_holders(entry)
        keep = [place for place, gone in enumerate(doomed) if not gone]
        self._entries = [self._entries[place] for place in keep]
        self._seqs = [self._seqs[place] for place in keep]
        self._sizes = [self._sizes[place] for place in keep]
        self.bytes = sum(self._sizes)

    def _position_from_cursor(self, cursor: Cursor) -> Position:
        position = position_from_cursor(cursor, self.topic)
        return position if position[0] == self.epoch else (self.epoch, 0)

    def _make_room(self, size: int) -> None:
        """Let the oldest events go; those of a live group only as it settles them."""
        limits = self.limits
        excess = len(self._entries) + 1 - limits.max_entries
        if excess <= 0 and self.bytes + size <= limits.max_bytes:
            return
        if excess > 0:
            # A tenth at once, so that the cost is shared by many appends.
            excess += limits.max_entries // 10
        freed, count = 0, 0
        while count < len(self._entries) and (
            count < excess or self.bytes - freed + size > limits.max_bytes
        ):
            freed += self._sizes[count]
            count += 1
        allowed = self._settled_entries()
        if allowed < count:
            count = allowed
            left = len(self._entries) - count
            if left >= limits.max_unsettled or self.bytes + size > 4 * limits.max_bytes:
                raise PubSubError(
                    f"Topic {self.topic!r} holds {left} events that a group hasn't settled; "
                    "nothing more is taken.",
                    id="MASTRA_PUBSUB_TOPIC_FULL",
                )
        self._drop_first(count)

    def _settled_entries(self) -> int:
        """How many of the oldest events no live group needs."""
        floors = [group.floor for group in self.groups.values() if group.consumers]
        return bisect_right(self._seqs, min(floors)) if floors else len(self._entries)

    def _drop_first(self, count: int) -> None:
        if count <= 0:
            return
        for entry in self._entries[:count]:
            self._hand_to_holders(entry)
        self.bytes -= sum(self._sizes[:count])
        self._trimmed = self._seqs[count - 1]
        del self._entries[:count], self._seqs[:count], self._sizes[:count]

    def _hand_to_holders(self, entry: Entry) -> None:
        """A group without consumers may still hold it."""
        for group in self.groups.values():
            held = group.held.get(entry.position[1])
            if held is not None:
                held.entry = entry

    # -- groups ----------------------------------------------------------------------------------

    def join(self, name: str, consumer: str, start: Start) -> None:
        """Make the group unless it is there, and count the consumer in."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = _Group(cursor=self.locate(start)[1])
        group.consumers.add(consumer)

    def leave(self, name: str, consumer: str, now: float) -> None:
        """Count the consumer out; what it holds is claimable at once."""
        group = self.groups.get(name)
        if group is None:
            return
        group.consumers.discard(consumer)
        for seq, held in group.held.items():
            if held.consumer == consumer:
                held.attempt -= 1
                held.consumer = None
                self._show(group, seq, held, now)

    def claim(
        self,
        name: str,
        consumer: str,
        *,
        limit: int,
        visible_at: float,
        now: float,
        ordered: bool,
    ) -> Claims:
        """Take what came back, then what is new."""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = _Group(cursor=0)
        group.consumers.add(consumer)
        seqs = self._take_due(group, now, 1 if ordered else limit)
        fresh = limit - len(seqs)
        if ordered:
            fresh = 0 if group.held else min(1, fresh)
        if fresh > 0:
            seqs += self._take_new(group, fresh)
        claims = []
        for seq in seqs:
            held = group.held[seq]
            entry = held.entry or self._entry(seq)
            if entry is None:
                del group.held[seq]
                continue
            held.attempt += 1
            held.consumer = consumer
            self._show(group, seq, held, visible_at)
            claims.append(Claim(entry.position, entry.event, held.attempt, held.last_error))
        return Claims(claims, self._next_due_ms(group, now))

    def settle(
        self,
        name: str,
        consumer: str,
        settlements: Sequence[Settlement],
        *,
        now: float,
        now_ms: int,
        new_id: Callable[[], str],
    ) -> list[DeadLetter]:
        """Settle what this consumer holds; the dead letters that this made."""
        group = self.groups.get(name)
        letters: list[DeadLetter] = []
        for settlement in settlements:
            held = self._held_by(group, consumer, settlement.position, settlement.attempt)
            if group is None or held is None:
                continue
            seq = settlement.position[1]
            match settlement:
                case Ack():
                    del group.held[seq]
                case Nack(delay_ms=delay_ms, error=error):
                    held.last_error = error or held.last_error
                    held.consumer = None
                    self._show(group, seq, held, now + delay_ms / 1000)
                case GiveBack():
                    held.attempt -= 1
                    held.consumer = None
                    self._show(group, seq, held, now)
                case Dead(error=error):
                    entry = held.entry or self._entry(seq)
                    del group.held[seq]
                    if entry is not None:
                        held.last_error = error or held.last_error
                        letter = self._bury(new_id(), name, entry, held, now_ms)
                        letters.append(letter)
        return letters

    def extend(
        self, name: str, consumer: str, held: Sequence[tuple[Position, int]], visible_at: float
    ) -> None:
        """Start the time anew of what this consumer still holds."""
        group = self.groups.get(name)
        for position, attempt in held:
            found = self._held_by(group, consumer, position, attempt)
            if group is not None and found is not None:
                found.visible_at = visible_at
                heapq.heappush(group.due, (visible_at, position[1]))

    def _held_by(
        self, group: _Group | None, consumer: str, position: Position, attempt: int
    ) -> _Held | None:
        if group is None or position[0] != self.epoch:
            return None
        held = group.held.get(position[1])
        if held is None or held.consumer != consumer or held.attempt != attempt:
            return None
        return held

    def _show(self, group: _Group, seq: int, held: _Held, at: float) -> None:
        """Make it claimable at that time."""
        held.visible_at = at
        heapq.heappush(group.due, (at, seq))

    def _take_due(self, group: _Group, now: float, limit: int) -> list[int]:
        """Held events whose time has come, lowest first."""
        due: set[int] = set()
        while group.due and group.due[0][0] <= now:
            _, seq = heapq.heappop(group.due)
            held = group.held.get(seq)
            if held is not None and held.visible_at <= now:
                due.add(seq)
        taken = sorted(due)
        for seq in taken[limit:]:
            heapq.heappush(group.due, (group.held[seq].visible_at, seq))
        return taken[:limit]

    def _take_new(self, group: _Group, limit: int) -> list[int]:
        first = bisect_right(self._seqs, group.cursor)
        seqs = self._seqs[first : first + limit]
        for seq in seqs:
            group.held[seq] = _Held(attempt=0, consumer=None, visible_at=0.0)
        if seqs:
            group.cursor = seqs[-1]
        return seqs

    def _next_due_ms(self, group: _Group, now: float) -> int | None:
        while group.due:
            at, seq = group.due[0]
            held = group.held.get(seq)
            if held is not None and held.visible_at == at:
                return max(0, int((at - now) * 1000) + 1)
            heapq.heappop(group.due)
        return None

    def _entry(self, seq: int) -> Entry | None:
        place = bisect_left(self._seqs, seq)
        if place < len(self._seqs) and self._seqs[place] == seq:
            return self._entries[place]
        return None

    # -- dead letters ----------------------------------------------------------------------------

    def list_dead(self, group: str | None, now_ms: int) -> list[DeadLetter]:
        """Dead letters that are still kept, oldest first."""
        self._forget_old_dead(now_ms)
        return [
            replace(letter, event=letter.event.copy())
            for letter in self.dead.values()
            if group is None or letter.group == group
        ]

    def requeue(self, dead_letter_id: str, now: float, now_ms: int) -> bool:
        """Give the event to its group again, as if for the first time."""
        self._forget_old_dead(now_ms)
        letter = self.dead.pop(dead_letter_id, None)
        if letter is None:
            return False
        name = letter.group or ""
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = _Group(cursor=self.last_seq)
        # Its place in the log may be gone or belong to another epoch: it gets one of its own.
        group.requeued += 1
        seq = -group.requeued
        entry = Entry((self.epoch, seq), letter.event)
        held = _Held(attempt=0, consumer=None, visible_at=now, entry=entry)
        group.held[seq] = held
        self._show(group, seq, held, now)
        return True

    def purge_dead(self) -> int:
        """Forget them; how many there were."""
        count = len(self.dead)
        self.dead.clear()
        return count

    def _bury(self, id: str, group: str, entry: Entry, held: _Held, now_ms: int) -> DeadLetter:
        letter = DeadLetter(
            id=id,
            topic=self.topic,
            group=group,
            event=entry.event,
            attempts=held.attempt,
            last_error=held.last_error,
            dead_at_ms=now_ms,
        )
        self._forget_old_dead(now_ms)
        self.dead[id] = letter
        if len(self.dead) > self.limits.max_dead:
            self.dead.popitem(last=False)
        return replace(letter, event=letter.event.copy())

    def _forget_old_dead(self, now_ms: int) -> None:
        oldest = now_ms - self.limits.dead_retention_ms
        while self.dead:
            if next(iter(self.dead.values())).dead_at_ms > oldest:
                return
            self.dead.popitem(last=False)
