"""The log and the state of groups in a SQL database, as the event engine wants them.

The adapters add how events are inserted and claimed, which is where databases differ, and
how a hint travels. Everything else is here, once.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, NamedTuple

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
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
from mastra_core.bus.topic_class import idle_ttl_ms, is_durable, topic_class
from mastra_core.bus.trimming import is_trimmable
from mastra_core.contracts.pubsub import Cursor, DeadLetter, PubSubCapabilities
from mastra_core.errors import FencedOutError, MastraError, PubSubClosedError, PubSubError
from mastra_core.wire.events import Event
from mastra_sql.bus.database import OpenDatabase
from mastra_sql.bus.dialect import BusDialect
from mastra_sql.bus.envelope import encode_envelope, read_entry
from mastra_sql.bus.errors import bus_errors
from mastra_sql.bus.hints import Doorbell, Hints, Pace
from mastra_sql.bus.remembered import Remembered
from mastra_sql.bus.statements import BusStatements
from mastra_sql.bus.sweeper import DROP_AT_ONCE, Sweeper
from mastra_sql.bus.tables import BusTables
from mastra_sql.executor import Executor, Program, Rows, Step, atomic
from mastra_sql.lease.statements import LeaseStatements
from mastra_sql.options import BusLimits

__all__ = ("Appended", "BusLimits", "ClaimedRow", "NewEvent", "SqlBusDriver", "appended_from")

logger = logging.getLogger(__name__)

#: From so many events that a group hasn't settled, somebody should look (3.9).
_ALARMING: Final = 100_000
#: Every position of this epoch is meant for whatever epoch there is.
_ANY_EPOCH: Final = 0
_ENDED: Final = "closed"


class NewEvent(NamedTuple):
    """One event as it goes into the log."""

    event_id: str
    type: str
    run_id: str
    payload: str


class Appended(NamedTuple):
    """What the log looked like after an append."""

    epoch: int
    first_seq: int
    last_seq: int
    #: Others were told of it already.
    is_told: bool = False


class ClaimedRow(NamedTuple):
    """One event that was claimed, as the database gives it."""

    epoch: int
    seq: int
    attempt: int
    last_error: str | None
    #: None if the event is gone.
    payload: str | None


class SqlBusDriver(ABC):
    """
    Implements ``mastra_core.bus.BusDriver`` on an executor.

    Args:
        open_database: Opens the database, brings the tables up to date, and finds what carries
            hints.
        dialect: Expressions of the database.
        tables: Where everything is.
        leases: Statements about fences, which are in the same database.
        limits: What is kept.
        clock: Measures pauses.
        ids: Makes ids of dead letters.
        capabilities: What the database really does.
        namespace: Keeps the topics of several users of one database apart.
    """

    def __init__(
        self,
        open_database: Callable[[], AbstractAsyncContextManager[OpenDatabase]],
        *,
        dialect: BusDialect,
        tables: BusTables,
        leases: LeaseStatements,
        limits: BusLimits,
        clock: Clock,
        ids: Ids,
        capabilities: PubSubCapabilities,
        namespace: str = "",
    ) -> None:
        self.capabilities: PubSubCapabilities = capabilities
        self.statements = BusStatements(dialect, tables)
        self.limits = limits
        self._dialect = dialect
        self._leases = leases
        self._clock = clock
        self._ids = ids
        self._namespace = namespace
        self._open_database = open_database
        self._opened: AbstractAsyncContextManager[OpenDatabase] | None = None
        self._executor: Executor | None = None
        self._bell: Doorbell | None = None
        self._hints = Hints()
        self._pace = Pace(1.0, 1.0)
        self._watched: frozenset[str] = frozenset()
        #: Epoch and revision of the watched topics when they were last looked at.
        self._revisions: dict[str, tuple[int, int]] = {}
        #: What we wrote ourselves to watched topics, and which of them others wrote to, too.
        self._own: dict[str, Remembered] = {}
        self._foreign: set[str] = set()
        #: Topics that changed and were told of since then.
        self._told: set[str] = set()
        #: Topics whose groups are too far behind to let anything go, until when it is no use.
        self._full_until: dict[str, int] = {}
        #: Groups whose members want one event at a time.
        self._ordered: set[tuple[str, str]] = set()
        #: Groups that somebody here claims for.
        self._groups: set[tuple[str, str, str]] = set()
        self._sweeper: Sweeper | None = None
        self._sweeping: asyncio.Task[None] | None = None

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        opened = self._open_database()
        with bus_errors():
            database = await opened.__aenter__()
        self._opened = opened
        self._executor, self._bell = database.client, database.bell
        self._sweeper = Sweeper(self._executor, self.statements, self._leases, self.limits)
        self._sweeping = asyncio.get_running_loop().create_task(
            self._sweep_forever(), name="bus-sweep"
        )

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])
        if self._bell is not None:
            self._bell.leave(self._hints)
        self._executor = None
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.__aexit__(None, None, None)

    # -- publishing ------------------------------------------------------------------------

    def encode(self, topic: str, event: Event) -> tuple[str, int]:
        return encode_envelope(event)

    async def append(self, topic: str, batch: Sequence[Outgoing]) -> Sequence[Exception | None]:
        errors: Sequence[Exception | None] = [None] * len(batch)
        follows = False
        with bus_errors():
            if any(one.fence is not None or one.dedupe_id is not None for one in batch):
                errors, appended = await self._append_some(topic, batch)
            else:
                events = [self._new(one) for one in batch]
                appended = await self._append_all(topic, events)
                follows = self._remember(topic, events, appended)
            if appended is not None:
                await self._make_room(topic, appended)
        if appended is not None:
            if not follows:
                self._doubt(topic)
            if appended.is_told:
                self._tell_here(topic)
            else:
                self._tell(topic)
        return errors

    def _remember(self, topic: str, events: Sequence[NewEvent], log: Appended) -> bool:
        """Whether all that our subscribers may miss of the topic is remembered."""
        own = self._own.get(topic)
        payloads = [one.payload for one in events]
        return own is None or own.append(log.epoch, log.last_seq, payloads)

    def _doubt(self, topic: str) -> None:
        """There may be more in the topic than what we remember."""
        if topic in self._own:
            self._foreign.add(topic)

    @abstractmethod
    def insert(self, topic: str, events: Sequence[NewEvent]) -> list[Step]:
        """Steps that append the events; the first one gives (topicId, epoch, last, first)."""

    async def _append_all(self, topic: str, events: Sequence[NewEvent]) -> Appended:
        steps = self.insert(topic, events)
        rows = await self._run("publish", steps, durably=self.is_durable(topic))
        return appended_from(rows[0])

    async def _append_some(
        self, topic: str, batch: Sequence[Outgoing]
    ) -> tuple[Sequence[Exception | None], Appended | None]:
        """Only what isn't there yet, and whose fence isn't old."""

        def program() -> Program[tuple[list[Exception | None], Appended | None]]:
            locks = self._locks(topic, batch)
            if locks:
                yield locks
            known, newest = yield from self._look_before(topic, batch)
            errors: list[Exception | None] = []
            events: list[NewEvent] = []
            tokens: dict[str, int] = {}
            for one in batch:
                refusal = None
                if one.fence is not None:
                    key, token = one.fence
                    current = max(newest.get(key, 0), tokens.get(key, 0))
                    if token < current:
                        refusal = FencedOutError(key=key, fence=token, current=current)
                    else:
                        tokens[key] = token
                errors.append(refusal)
                if refusal is None and one.event.id not in known:
                    known.add(one.event.id)
                    events.append(self._new(one))
            steps = self.insert(topic, events) if events else []
            steps += [self._leases.see_fence(self.key(key), at) for key, at in tokens.items()]
            if not steps:
                return errors, None
            results = yield steps
            return errors, appended_from(results[0]) if events else None

        durably = self.is_durable(topic)
        result: tuple[Sequence[Exception | None], Appended | None] = await self._transact(
            "publish", program, durably=durably
        )
        return result

    def _look_before(
        self, topic: str, batch: Sequence[Outgoing]
    ) -> Program[tuple[set[str], dict[str, int]]]:
        ids = [one.event.id for one in batch if one.dedupe_id is not None]
        keys = sorted({one.fence[0] for one in batch if one.fence is not None})
        steps = []
        if ids:
            texts = [self._dialect.text_of(one) for one in ids]
            values = {"topic": self.key(topic), "ids": self._dialect.sql.list_value(texts)}
            steps.append(Step.of(self.statements.known_ids(), values))
        steps += [self._leases.newest_fence(self.key(key)) for key in keys]
        results = yield steps
        known = {self._dialect.name_of(one) for (one,) in results.pop(0)} if ids else set()
        newest = {key: rows[0][0] or 0 for key, rows in zip(keys, results, strict=True)}
        return known, newest

    def _locks(self, topic: str, batch: Sequence[Outgoing]) -> list[Step]:
        """Keep others from changing what is looked at, where reading doesn't."""
        scopes = [("bus", self.key(topic))]
        scopes += [("fence", self.key(key)) for key in sorted(_fence_keys(batch))]
        locks = [self._dialect.sql.lock(scope) for scope in scopes]
        return [Step(*lock) for lock in locks if lock is not None]

    def _new(self, one: Outgoing) -> NewEvent:
        text_of = self._dialect.text_of
        event = one.event
        return NewEvent(
            text_of(event.id), text_of(event.type), text_of(event.run_id), str(one.payload)
        )

    def is_durable(self, topic: str) -> bool:
        """Whether an accepted event must survive a crash of the store itself (8.1)."""
        return is_durable(topic)

    def topic_values(self, topic: str) -> dict[str, Any]:
        """Parameters of a topic's row."""
        idle = idle_ttl_ms(topic)
        if idle is not None and self.limits.idle_ttl_ms is not None:
            idle = self.limits.idle_ttl_ms
        return {
            "topic": self.key(topic),
            "idle_ttl_ms": idle,
            "class": topic_class(topic).value,
        }

    # -- retention -------------------------------------------------------------------------

    async def _make_room(self, topic: str, log: Appended) -> None:
        """Let the oldest events go; those that a group hasn't settled stay."""
        excess = log.last_seq - log.first_seq + 1 - self.limits.max_entries
        if excess <= 0 or log.last_seq < self._full_until.get(topic, 0):
            return
        # A tenth at once, so that the cost is shared by many appends.
        slack = self.limits.max_entries // 10
        target = log.first_seq + excess + slack
        floor_step = Step.of(self.statements.floor(), {"topic": self.key(topic)})
        drop, note = self.statements.drop_before()

        def program() -> Program[int]:
            [[(floor,)]] = yield [floor_step]
            first = target if floor is None else min(target, int(floor))
            if first > log.first_seq:
                values = {"topic": self.key(topic), "epoch": log.epoch, "first": first}
                yield [Step.of(drop, values), Step.of(note, values)]
            return first

        first = await self._transact("trim", program)
        self._full_until.pop(topic, None)
        if first <= log.last_seq - self.limits.max_entries:
            self._full_until[topic] = log.last_seq + max(1, slack)
            if log.last_seq - first >= _ALARMING:
                logger.error(
                    "a group is far behind, its topic grows",
                    extra={"topic": topic, "unsettled": log.last_seq - first + 1},
                )

    async def clear(self, topic: str) -> None:
        values = {"topic": self.key(topic)}
        self._forget_own(topic)
        self._full_until.pop(topic, None)
        drop = Step.of(
            self.statements.drop_old_epochs(of_topic=True), {**values, "limit": DROP_AT_ONCE}
        )
        with bus_errors():
            await self._run("clear", [Step.of(one, values) for one in self.statements.clear()])
            self._doubt(topic)
            self._tell(topic)
            # Others may write in between.
            while len((await self._run("clear", [drop]))[0]) == DROP_AT_ONCE:
                pass

    async def trim(self, topic: str, *, run_id: str, produced_before_ms: int | None) -> None:
        self._forget_own(topic)
        values = {"topic": self.key(topic), "run_id": self._dialect.text_of(run_id)}
        look = Step.of(self.statements.events_of_run(), values)
        hand_over, drop = self.statements.trim()

        def program() -> Program[None]:
            [rows] = yield [look]
            doomed: dict[int, list[int]] = {}
            for epoch, seq, payload in rows:
                entry = read_entry(payload, topic=topic, epoch=epoch, seq=seq)
                if entry and is_trimmable(entry.event, run_id, produced_before_ms):
                    doomed.setdefault(epoch, []).append(seq)
            steps = []
            for epoch, seqs in doomed.items():
                found = {**values, "epoch": epoch, "seqs": self._dialect.numbers_value(seqs)}
                steps += [Step.of(hand_over, found), Step.of(drop, found)]
            if steps:
                yield steps

        with bus_errors():
            await self._transact("trim", program)

    # -- reading ---------------------------------------------------------------------------

    async def locate(self, topic: str, start: Start) -> Position:
        if isinstance(start, Cursor):
            return position_from_cursor(start, topic)
        values = {"topic": self.key(topic)}
        with bus_errors():
            [rows] = await self._read("locate", Step.of(self.statements.look_at_topic(), values))
        epoch, first, last = rows[0] if rows else (_ANY_EPOCH, 1, 0)
        if isinstance(start, int):
            return (epoch, start)
        return (epoch, last if start == "latest" else first - 1)

    async def read_after(self, topic: str, position: Position, limit: int) -> Page:
        epoch, after = position
        values = {"topic": self.key(topic), "epoch": epoch, "after": after, "limit": limit}
        try:
            with bus_errors():
                [rows] = await self._read("read", Step.of(self.statements.read_after(), values))
        except PubSubError:
            self._doubt(topic)
            raise
        if not rows:
            return Page([], position, is_last=True)
        found_epoch, first_seq = rows[0][0], rows[0][1]
        if epoch not in {found_epoch, _ANY_EPOCH}:
            after = 0
        gap = (after, first_seq - 1) if after < first_seq - 1 else None
        entries = [
            entry
            for _, _, seq, payload in rows
            if seq is not None and (entry := self._entry(topic, found_epoch, seq, payload))
        ]
        end = rows[-1][2] or max(after, first_seq - 1)
        return Page(entries, (found_epoch, end), gap, is_last=len(rows) < limit)

    def remembered(self, topic: str, position: Position, limit: int) -> Page | None:
        """
        What we wrote behind this place ourselves; None if that has to be asked for.

        Numbers are given in the order of commits, so what stands right behind a place that was
        read is what comes next. What others may have written behind it they tell of.
        """
        own = self._own.get(topic)
        if own is None or topic in self._foreign:
            self._foreign.discard(topic)
            return None
        found = own.after(position, limit)
        if not found:
            return None
        epoch, last = position[0], found[-1][0]
        entries = [
            entry for seq, payload in found if (entry := self._entry(topic, epoch, seq, payload))
        ]
        return Page(entries, (epoch, last), is_last=last == own.last)

    def _forget_own(self, topic: str) -> None:
        if topic in self._own:
            self._own[topic] = Remembered()

    def _entry(self, topic: str, epoch: int, seq: int, payload: str) -> Entry | None:
        entry = read_entry(payload, topic=topic, epoch=epoch, seq=seq)
        if entry is None:
            logger.warning("unreadable event left out", extra={"topic": topic, "seq": seq})
        return entry

    # -- hints -----------------------------------------------------------------------------

    async def watch(self, topics: Collection[str]) -> None:
        self._watched = frozenset(topics)
        for topic in self._revisions.keys() - self._watched:
            del self._revisions[topic]
        # Those that are new here may have been written to by anybody.
        self._foreign = (self._foreign & self._watched) | (self._watched - self._own.keys())
        self._own = {topic: self._own.get(topic) or Remembered() for topic in self._watched}
        if self._bell is None:
            raise PubSubClosedError
        await self._bell.follow(self._hints, {f"t:{self.key(topic)}" for topic in topics})
        self._pace.news()

    async def wake(self) -> Collection[str] | None:
        names = await self._hints.wait(self._clock, self._seconds_to_next_look())
        if names is None:
            self._foreign.update(self._watched)
        elif names:
            self._pace.news()
            topics = [self._topic_of(name) for name in names]
            self._told.update(topics)
            self._foreign.update(topics)
            return topics
        changed = await self._changed_topics()
        if changed:
            self._pace.news()
        else:
            self._pace.nothing()
        return changed

    def _seconds_to_next_look(self) -> float:
        """How long to rely on hints alone."""
        return self._pace.current

    async def _changed_topics(self) -> list[str]:
        """Which of the watched topics changed since they were last looked at."""
        if not self._watched:
            return []
        by_key = {self.key(topic): topic for topic in self._watched}
        values = {"topics": self._dialect.sql.list_value(list(by_key))}
        with bus_errors():
            [rows] = await self._read("poll", Step.of(self.statements.revisions(), values))
        changed = []
        has_missed = False
        for key, epoch, revision in rows:
            topic = by_key.get(key)
            known = self._revisions.get(topic or "")
            if topic is not None and known != (epoch, revision):
                self._revisions[topic] = (epoch, revision)
                self._foreign.add(topic)
                changed.append(topic)
                has_missed = has_missed or (known is not None and topic not in self._told)
        self._told.clear()
        if has_missed:
            self._hint_was_lost()
        return changed

    def _hint_was_lost(self) -> None:  # noqa: B027 - most databases have no answer
        """Something was found that nobody had told of."""

    def _tell(self, topic: str) -> None:
        """Others may want to know; our own engine does."""
        self._tell_here(topic)
        if self._bell is not None:
            self._bell.ring(f"t:{self.key(topic)}", self._hints)

    def _tell_here(self, topic: str) -> None:
        """What is found in the topic next is no surprise."""
        self._pace.news()
        self._told.add(topic)

    def _topic_of(self, name: str) -> str:
        return self._dialect.name_of(name[2:])[len(self._namespace) :]

    # -- groups ----------------------------------------------------------------------------

    async def join_group(self, topic: str, group: str, consumer: str, start: Start) -> None:
        values: dict[str, Any] = {**self.topic_values(topic), "group": self._group(group)}
        kind = "after"
        if isinstance(start, str):
            kind = start
        elif isinstance(start, int):
            values |= {"epoch": _ANY_EPOCH, "after": start}
        else:
            values |= dict(zip(("epoch", "after"), position_from_cursor(start, topic), strict=True))
        steps = [
            Step.of(self.statements.make_topic(), values),
            Step.of(self.statements.join_group(kind), values),
        ]
        with bus_errors():
            await self._run("join", steps)
        self._groups.add((topic, group, consumer))

    async def leave_group(self, topic: str, group: str, consumer: str) -> None:
        self._ordered.discard((topic, group))
        self._groups.discard((topic, group, consumer))
        values = self._group_values(topic, group, consumer)
        with bus_errors():
            [rows] = await self._run("leave", [Step.of(self.statements.leave_group(), values)])
            if rows:
                await self._run("leave", [Step.of(self.statements.mark_changed(), values)])
        if rows:
            self._tell(topic)

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
        if ordered:
            self._ordered.add((topic, group))
            limit = 1
        values = {
            **self._group_values(topic, group, consumer),
            "limit": limit,
            "ack_wait_ms": ack_wait_ms,
        }
        with bus_errors():
            rows, next_due_ms = await self._claim(values, ordered=ordered)
        claims, lost = [], []
        for epoch, seq, attempt, last_error, payload in sorted(rows):
            entry = payload and read_entry(payload, topic=topic, epoch=epoch, seq=seq)
            if entry:
                claims.append(Claim(entry.position, entry.event, attempt, last_error))
            else:
                lost.append(Ack((epoch, seq), attempt))
        if lost:
            logger.warning(
                "claimed events can't be had any more",
                extra={"topic": topic, "group": group, "lost": len(lost)},
            )
            await self.settle(topic, group, consumer, lost)
        return Claims(claims, next_due_ms)

    @abstractmethod
    async def _claim(
        self, values: dict[str, Any], *, ordered: bool
    ) -> tuple[list[ClaimedRow], int | None]:
        """Take what came back, then what is new; in one atomic step."""

    async def settle(
        self, topic: str, group: str, consumer: str, settlements: Sequence[Settlement]
    ) -> Sequence[DeadLetter]:
        values = self._group_values(topic, group, consumer)
        steps, changes = self._settling(values, settlements)
        if changes or (topic, group) in self._ordered:
            steps.append(Step.of(self.statements.mark_changed(), values))
            changes = True
        with bus_errors():
            results = await self._run("settle", steps)
        if changes:
            self._tell(topic)
        is_dead = [step.statement is self.statements.bury() for step in steps]
        return [
            letter
            for rows, dead in zip(results, is_dead, strict=True)
            if dead
            for letter in self._letters(topic, rows)
        ]

    def _settling(
        self, values: dict[str, Any], settlements: Sequence[Settlement]
    ) -> tuple[list[Step], bool]:
        """What to run, and whether somebody else may want to know."""
        statements, held_value = self.statements, self._dialect.held_value
        steps: list[Step] = []
        done: list[tuple[int, int, int]] = []
        returned: list[tuple[int, int, int]] = []
        for one in settlements:
            held = (*one.position, one.attempt)
            match one:
                case Ack():
                    done.append(held)
                case GiveBack():
                    returned.append(held)
                case Nack(delay_ms=delay_ms, error=error):
                    found = {**values, "held": held_value([held])}
                    found |= {"delay_ms": delay_ms, "error": self._error(error)}
                    steps.append(Step.of(statements.show_again(counts=True), found))
                case Dead(error=error):
                    done.append(held)
                    found = {**values, "held": held_value([held]), "error": self._error(error)}
                    found["id"] = self._ids.new("dead_letter")
                    steps.append(Step.of(statements.bury(), found))
        changes = bool(steps or returned)
        if done:
            steps.append(Step.of(statements.ack(), {**values, "held": held_value(done)}))
        if returned:
            found = {**values, "held": held_value(returned), "delay_ms": 0}
            steps.append(Step.of(statements.show_again(counts=False), found))
        return steps, changes

    async def extend(
        self,
        topic: str,
        group: str,
        consumer: str,
        held: Sequence[tuple[Position, int]],
        ack_wait_ms: int,
    ) -> None:
        values = {
            **self._group_values(topic, group, consumer),
            "held": self._dialect.held_value([(*position, attempt) for position, attempt in held]),
            "ack_wait_ms": ack_wait_ms,
        }
        with bus_errors():
            await self._run("extend", [Step.of(self.statements.extend(), values)])

    def _group_values(self, topic: str, group: str, consumer: str) -> dict[str, Any]:
        return {
            "topic": self.key(topic),
            "group": self._group(group),
            "consumer": self._dialect.text_of(consumer),
        }

    def _group(self, group: str) -> str:
        return self._dialect.text_of(group)

    def _error(self, error: str | None) -> str | None:
        return None if error is None else self._dialect.text_of(_sendable(error))

    # -- dead letters ----------------------------------------------------------------------

    async def list_dead(self, topic: str, group: str | None) -> list[DeadLetter]:
        values = {
            "topic": self.key(topic),
            "dead_retention_ms": self.limits.dead_retention_ms,
        }
        with bus_errors():
            [rows] = await self._read("list_dead", Step.of(self.statements.list_dead(), values))
        return [
            letter
            for letter in self._letters(topic, rows)
            if group is None or letter.group == group
        ]

    async def requeue_dead(self, topic: str, dead_letter_id: str) -> bool:
        values = {
            **self.topic_values(topic),
            "id": self._dialect.text_of(dead_letter_id),
            "dead_retention_ms": self.limits.dead_retention_ms,
        }
        statements = [
            self.statements.make_topic(),
            *self.statements.requeue_dead(),
            self.statements.mark_changed(),
        ]
        with bus_errors():
            results = await self._run("requeue", [Step.of(one, values) for one in statements])
        self._doubt(topic)
        self._tell(topic)
        return bool(results[-2])

    async def purge_dead(self, topic: str) -> int:
        step = Step.of(self.statements.purge_dead(), {"topic": self.key(topic)})
        with bus_errors():
            [rows] = await self._run("purge_dead", [step])
        return len(rows)

    def _letters(self, topic: str, rows: Rows) -> Iterator[DeadLetter]:
        for letter_id, group, attempts, last_error, payload, dead_at_ms in rows:
            entry = read_entry(payload, topic=topic, epoch=0, seq=0)
            if entry is not None:
                entry.event.cursor = None
                yield DeadLetter(
                    id=self._dialect.name_of(letter_id),
                    topic=topic,
                    group=self._dialect.name_of(group),
                    event=entry.event,
                    attempts=attempts,
                    last_error=last_error,
                    dead_at_ms=int(dead_at_ms),
                )

    # -- sweeping --------------------------------------------------------------------------

    async def _sweep_forever(self) -> None:
        """Now and then, and only one process at a time, throw away what nobody wants."""
        owner = self._ids.new("sweeper")
        pause = self.limits.sweep_interval_ms / 1000
        while True:
            await self._clock.sleep(pause)
            if self._sweeper is None:
                return
            try:
                await self._touch_groups()
                await self._sweeper.sweep(self.key("bus-sweeper"), owner)
            except MastraError as exc:
                logger.warning("sweeping failed", extra={"error": str(exc)})

    async def _touch_groups(self) -> None:
        """A group with a consumer isn't forgotten, however long nothing is published."""
        touch = self.statements.touch_group()
        steps = [
            Step.of(touch, {"topic": self.key(topic), "group": self._group(group)})
            for topic, group, _ in self._groups
        ]
        if steps:
            await self._run("touch", steps)

    # -- the database ----------------------------------------------------------------------

    def key(self, name: str) -> str:
        """A topic or a lease key as the database keeps it."""
        return self._dialect.text_of(f"{self._namespace}{name}")

    @property
    def executor(self) -> Executor:
        """What runs statements, from ``open`` to ``close``."""
        if self._executor is None:
            raise PubSubClosedError
        return self._executor

    async def _read(self, operation: str, *steps: Step) -> list[Rows]:
        return await self.executor.read(operation, *steps)

    async def _run(
        self, operation: str, steps: Sequence[Step], *, durably: bool = False
    ) -> list[Rows]:
        """All of them or none."""
        if len(steps) == 1 and not durably:
            return [await self.executor.write(operation, steps[0])]
        results: list[Rows] = await self._transact(operation, atomic(*steps), durably=durably)
        return results

    async def _transact(self, operation: str, program: Any, *, durably: bool = False) -> Any:
        """A program in one transaction; ``durably``: on disk when this returns."""
        return await self.executor.transact(operation, program)


def appended_from(rows: Rows, *, is_told: bool = False) -> Appended:
    """What an insert says about the log."""
    _, epoch, last_seq, first_seq = rows[0][:4]
    return Appended(int(epoch), int(first_seq), int(last_seq), is_told)


def _fence_keys(batch: Sequence[Outgoing]) -> set[str]:
    return {one.fence[0] for one in batch if one.fence is not None}


def _sendable(text: str) -> str:
    """A text without lone surrogates; an error message may have any."""
    with suppress(UnicodeEncodeError):
        text.encode()
        return text
    return text.encode("utf-8", "replace").decode()
