"""The log and the groups of a MongoDB database, as the event engine wants them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Final

from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.bus import (
    Ack,
    Claim,
    Claims,
    Dead,
    Outgoing,
    Page,
    Position,
    Settlement,
    Start,
)
from mastra_core.bus.timers import within
from mastra_core.contracts.pubsub import Cursor, DeadLetter, FenceToken, PubSubCapabilities
from mastra_core.errors import FencedOutError, PubSubClosedError
from mastra_core.wire.events import Event
from mastra_mongodb.capabilities import PUBSUB_CAPABILITIES
from mastra_mongodb.errors import bus_errors, is_duplicate, is_transient
from mastra_mongodb.pool import Session
from mastra_mongodb.pubsub.dead import DeadLetters
from mastra_mongodb.pubsub.envelope import Payload, encode_event, event_document, row_from
from mastra_mongodb.pubsub.groups import Groups, Held
from mastra_mongodb.pubsub.log import ANY_EPOCH, Log, LogLimits, Placed
from mastra_mongodb.pubsub.sweeper import Sweeper
from mastra_mongodb.pubsub.tails import Tail
from mastra_mongodb.settings import MongoSettings
from mastra_mongodb.sharing import Place

__all__ = ("MongoDriver",)

logger = logging.getLogger(__name__)

#: Rows of a topic in memory at most.
_TAIL_ROWS: Final = 1_000
#: How often everything is looked at where no hint can get lost.
_VERIFY_S: Final = 10.0
_TRIES: Final = 100


class MongoDriver:
    """
    Implements ``mastra_core.bus.BusDriver``; also listens to the feed.

    Args:
        settings: Limits and times.
        shared: What bus and leases share.
        where: The server, without secrets.
        clock: Measures pauses.
        ids: Names claims.
        namespace: Keeps the topics of several users of one database apart.
    """

    def __init__(
        self,
        settings: MongoSettings,
        shared: AbstractAsyncContextManager[Place],
        *,
        where: str,
        clock: Clock,
        ids: Ids,
        namespace: str = "",
    ) -> None:
        self.capabilities: PubSubCapabilities = PUBSUB_CAPABILITIES
        self._settings = settings
        self._shared = shared
        self._where = where
        self._clock = clock
        self._ids = ids
        self._namespace = namespace
        self._opened: Place | None = None
        self._log: Log
        self._groups: Groups
        self._dead: DeadLetters
        self._sweeping: asyncio.Task[None] | None = None
        #: The ends of the watched topics.
        self._tails: dict[str, Tail] = {}
        #: Topics with news, for ``wake``.
        self._news: set[str] = set()
        self._is_any = False
        self._arrived = asyncio.Event()
        #: Watched topics whose end in memory may not be the end.
        self._unsure: set[str] = set()
        self._verified_at = 0.0
        #: Groups of this process, with the signal that was seen last.
        self._joined: dict[tuple[str, str], int] = {}
        #: Groups that have nothing to claim before a time, as of a place in the log.
        self._quiet: dict[tuple[str, str], tuple[Position, float | None]] = {}
        self._ordered: set[tuple[str, str]] = set()
        #: Dead letters that were claimed again, by group and place.
        self._letters: dict[tuple[str, str, Position], str] = {}

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        with bus_errors("open", self._where):
            place = await self._shared.__aenter__()
        settings = self._settings
        limits = LogLimits(
            max_entries=settings.max_entries,
            dedupe_window_ms=settings.dedupe_window_ms,
            idle_ttl_ms=settings.idle_ttl_ms,
        )
        self._log = Log(place, self._clock, limits, self._namespace)
        self._groups = Groups(place)
        self._dead = DeadLetters(place)
        self._opened = place
        sweeper = Sweeper(
            place,
            self._log,
            self._ids.new("sweeper"),
            interval_ms=settings.sweep_interval_ms,
        )
        self._sweeping = asyncio.get_running_loop().create_task(
            self._sweep_forever(sweeper), name="bus-sweep"
        )

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])
            self._sweeping = None
        place, self._opened = self._opened, None
        self._arrived.set()
        if place is not None:
            place.feed.leave(self)
            await self._shared.__aexit__(None, None, None)

    @property
    def _place(self) -> Place:
        if self._opened is None:
            raise PubSubClosedError
        return self._opened

    @property
    def is_open(self) -> bool:
        """Whether it holds anything."""
        return self._opened is not None

    async def _sweep_forever(self, sweeper: Sweeper) -> None:
        while True:
            await self._clock.sleep(self._settings.sweep_interval_ms / 1000)
            try:
                await sweeper.sweep()
            except Exception:
                # The next one comes in a minute.
                logger.debug("sweep failed", exc_info=True)

    # -- publishing ------------------------------------------------------------------------

    def encode(self, topic: str, event: Event) -> tuple[Payload, int]:
        return encode_event(event)

    async def append(self, topic: str, batch: Sequence[Outgoing]) -> Sequence[Exception | None]:
        place = self._place
        errors: list[Exception | None] = [None] * len(batch)
        with bus_errors("publish", self._where):
            if all(one.fence is None for one in batch):
                placed = await self._log.append(topic, [_document(one) for one in batch])
            else:
                placed = []
                for index, one in enumerate(batch):
                    try:
                        placed += await self._append_fenced(topic, one)
                    except FencedOutError as exc:
                        errors[index] = exc
            if placed:
                self._remember(topic, placed)
                await self._ring(place, topic, placed)
        return errors

    def _remember(self, topic: str, placed: Sequence[Placed]) -> None:
        """What we wrote ourselves needs no reading, if nothing lies between."""
        tail = self._tails.get(topic)
        if tail is None:
            return
        for one in placed:
            if one.position is not None and "n" not in one.document:
                tail.push(row_from(one.document, topic))
            elif one.position is not None:
                self._unsure.add(topic)

    async def _ring(self, place: Place, topic: str, placed: Sequence[Placed]) -> None:
        places = [one.position for one in placed if one.position is not None]
        if places:
            epoch, seq = places[-1]
            await place.feed.ring([{"t": self._log.key(topic), "e": epoch, "s": seq}])

    async def _append_fenced(self, topic: str, one: Outgoing) -> list[Placed]:
        """One event of somebody who says which term of a lease he writes in (L9)."""
        if one.fence is None:
            return await self._log.append(topic, [_document(one)])
        fence = one.fence
        pool = self._place.pool
        if not pool.is_replicated:
            check = partial(self._check_fence, fence, None)
            return await self._log.append(topic, [_document(one)], check=check)

        async def body(session: Session) -> list[Placed]:
            await self._check_fence(fence, session)
            return await self._log.append(topic, [_document(one)], session)

        for attempt in range(1, _TRIES + 1):
            try:
                return await pool.transact(body, once=True)
            except (BulkWriteError, DuplicateKeyError) as exc:
                # Inside a transaction a taken id looks like a taken place.
                if one.dedupe_id is not None and _is_known_id(exc):
                    return []
                if not is_duplicate(exc) or attempt == _TRIES:
                    raise
            except PyMongoError as exc:
                if not is_transient(exc) or attempt == _TRIES:
                    raise
            self._log.forget(topic)
            await pool.pause(attempt)
        return []

    async def _check_fence(self, fence: FenceToken, session: Session | None) -> None:
        """Refuse a fence that is older than what was granted or seen; remember it."""
        key, token = f"{self._lease_prefix}{fence[0]}", fence[1]
        newer = {"_id": key, "fence": {"$gt": token}}
        lease = await self._place.leases().find_one(newer, {"fence": 1}, session=session)
        current = None if lease is None else int(lease["fence"])
        if current is None:
            stored = await self._place.fences().find_one_and_update(
                {"_id": key},
                [{"$set": {"token": {"$max": ["$token", token]}, "seenAt": "$$NOW"}}],
                upsert=True,
                return_document=True,
                session=session,
            )
            current = int((stored or {}).get("token", token))
        if current > token:
            raise FencedOutError(key=fence[0], fence=token, current=current)

    @property
    def _lease_prefix(self) -> str:
        return f"{self._namespace}:" if self._namespace else ""

    # -- reading ---------------------------------------------------------------------------

    async def locate(self, topic: str, start: Start) -> Position:
        _ = self._place
        with bus_errors("locate", self._where):
            return await self._log.locate(topic, start)

    async def read_after(self, topic: str, position: Position, limit: int) -> Page:
        place = self._place
        tail = self._tails.get(topic)
        if tail is not None and tail.is_known:
            page = tail.read(position, limit)
            if page is not None:
                return page
            is_sure = place.feed.is_live and topic not in self._unsure
            if is_sure and tail.is_end(position):
                return Page([], position)
        self._unsure.discard(topic)
        with bus_errors("read", self._where):
            page, is_end = await self._log.read_after(topic, position, limit)
        tail = self._tails.get(topic)
        if tail is not None and page.position[0] != ANY_EPOCH and is_end:
            known = (tail.epoch, tail.last)
            tail.reached(page.position)
            if page.position != position:
                # Only what was found is there: a reader may stand ahead of the end.
                self._log.learn(topic, *page.position)
            if known != (tail.epoch, tail.last):
                # Somebody read what no hint told of; those who wait wouldn't find it by looking.
                self._tell(topic)
        elif not is_end:
            self._unsure.add(topic)
        return page

    # -- hints -----------------------------------------------------------------------------

    async def watch(self, topics: Collection[str]) -> None:
        place = self._place
        wanted = frozenset(topics)
        for topic in self._tails.keys() - wanted:
            del self._tails[topic]
            self._unsure.discard(topic)
        limit = min(_TAIL_ROWS, self._settings.max_entries)
        for topic in wanted - self._tails.keys():
            self._tails[topic] = Tail(limit)
            self._unsure.add(topic)
        if wanted:
            await place.feed.follow(self)
        else:
            place.feed.leave(self)

    async def wake(self) -> Collection[str] | None:
        place = self._place
        if not self._arrived.is_set():
            await within(self._clock, self._arrived.wait(), self._patience(place))
        self._arrived.clear()
        if self._opened is None:
            raise PubSubClosedError
        if self._is_any:
            self._is_any = False
            self._news.clear()
            return None
        news, self._news = self._news, set()
        if news:
            return news
        return await self._look()

    def _patience(self, place: Place) -> float:
        """How long to wait for a hint."""
        if place.feed.is_live and place.feed.has_documents:
            return max(_VERIFY_S, self._settings.poll_ms / 1000)
        return self._settings.poll_ms / 1000

    async def _look(self) -> list[str]:
        """Which watched topics have news that nobody told us of (E1)."""
        ends: dict[str, Position] = {
            topic: (tail.epoch, tail.last) for topic, tail in self._tails.items()
        }
        with bus_errors("poll", self._where):
            changed = set(await self._log.changed(ends)) if ends else set()
            keys = [(self._log.key(topic), group) for topic, group in self._joined]
            signals = await self._groups.signals(keys) if keys else {}
        for (topic, group), seen in list(self._joined.items()):
            signal = signals.get((self._log.key(topic), group), seen)
            if signal != seen:
                self._joined[topic, group] = signal
                self._quiet.pop((topic, group), None)
                changed.add(topic)
        self._unsure |= changed & self._tails.keys()
        for topic in changed:
            self._forget_quiet(topic)
        return [topic for topic in changed if topic in self._tails]

    def _forget_quiet(self, topic: str) -> None:
        for known in [known for known in self._quiet if known[0] == topic]:
            del self._quiet[known]
        self._log.forget(topic)

    # -- what the feed says ----------------------------------------------------------------

    def on_event(self, document: Mapping[str, Any]) -> None:
        topic = self._log.topic_of(document["t"])
        if topic is None:
            return
        epoch, seq = int(document["e"]), int(document["s"])
        self._log.learn(topic, epoch, seq)
        tail = self._tails.get(topic)
        if tail is None:
            return
        if ("p" in document or "next" in document) and "n" not in document:
            if not (tail.epoch == epoch and seq <= tail.last):
                tail.push(row_from(document, topic))
        elif not tail.is_end((epoch, seq)) or tail.epoch != epoch or seq > tail.last:
            self._unsure.add(topic)
        if "next" in document:
            self._forget_quiet(topic)
        self._tell(topic)

    def on_group(self, topic: str, group: str) -> None:
        name = self._log.topic_of(topic)
        if name is not None and (name, group) in self._joined:
            self._quiet.pop((name, group), None)
            self._tell(name)

    def on_lease(self, key: str) -> None:
        """Leases are none of the bus."""

    def on_reset(self) -> None:
        for topic, tail in self._tails.items():
            tail.forget()
            self._unsure.add(topic)
            self._log.forget(topic)
        self._quiet.clear()
        self._is_any = True
        self._arrived.set()

    def _tell(self, topic: str) -> None:
        if topic in self._tails:
            self._news.add(topic)
            self._arrived.set()

    # -- groups ----------------------------------------------------------------------------

    async def join_group(self, topic: str, group: str, consumer: str, start: Start) -> None:
        _ = self._place
        with bus_errors("join", self._where):
            self._log.forget(topic)
            end = await self._log.known_end(topic)
            if isinstance(start, Cursor) or start != "latest":
                position = await self._log.locate(topic, start)
                seq = position[1] if position[0] in {ANY_EPOCH, end[0]} else 0
            else:
                seq = end[1]
            await self._groups.join(topic, self._log.key(topic), group, (end[0], seq))
        self._joined.setdefault((topic, group), -1)
        self._quiet.pop((topic, group), None)

    async def leave_group(self, topic: str, group: str, consumer: str) -> None:
        place = self._place
        self._ordered.discard((topic, group))
        self._joined.pop((topic, group), None)
        self._quiet.pop((topic, group), None)
        key = self._log.key(topic)
        with bus_errors("leave", self._where):
            if await self._groups.leave(topic, key, group, consumer):
                await place.feed.ring([{"t": key, "g": group}])

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
        place = self._place
        if ordered:
            self._ordered.add((topic, group))
        with bus_errors("claim", self._where):
            head = await self._log.known_end(topic)
            quiet = self._is_quiet(place, topic, group, head)
            if quiet is not None:
                return quiet
            key, call = self._log.key(topic), self._ids.new("claim")
            for _ in range(_TRIES):
                asked_at = self._clock.monotonic()
                found = await self._groups.claim(
                    topic,
                    key,
                    group,
                    head=head,
                    consumer=consumer,
                    call=call,
                    limit=limit,
                    ack_wait_ms=ack_wait_ms,
                    ordered=ordered,
                )
                if found is not None:
                    break
                # The group is gone, or one of us is in an epoch that was ended.
                self._log.forget(topic)
                head = await self._log.known_end(topic)
                await self._groups.join(topic, key, group, (head[0], 0))
            else:
                return Claims([], None)
            if not found.held:
                due = None if found.next_due_ms is None else asked_at + found.next_due_ms / 1000
                self._quiet[topic, group] = ((head[0], max(head[1], found.cursor)), due)
                return Claims([], found.next_due_ms)
            claims, lost = await self._claimed(topic, group, head[0], found.held)
        if lost:
            logger.warning(
                "claimed events can't be had any more",
                extra={"topic": topic, "group": group, "lost": len(lost)},
            )
            await self.settle(topic, group, consumer, lost)
        return Claims(claims, found.next_due_ms)

    def _is_quiet(self, place: Place, topic: str, group: str, head: Position) -> Claims | None:
        """The answer of a claim that would find nothing."""
        known = self._quiet.get((topic, group))
        if known is None or not place.feed.is_live or topic in self._unsure:
            return None
        seen, due = known
        if seen[0] != head[0] or head[1] > seen[1] or (topic, group) in self._ordered:
            return None
        if due is None:
            return Claims([], None)
        left = due - self._clock.monotonic()
        return None if left <= 0 else Claims([], int(left * 1000) + 1)

    async def _claimed(
        self, topic: str, group: str, epoch: int, held: Sequence[Held]
    ) -> tuple[list[Claim], list[Settlement]]:
        """The events of what was claimed, and what has to be let go since its event is gone."""
        events = await self._events(topic, epoch, held)
        claims: list[Claim] = []
        lost: list[Settlement] = []
        for one in held:
            position = (epoch, one.seq)
            event = events.get(one.seq)
            if one.letter is not None:
                self._letters[topic, group, position] = one.letter
            if event is None:
                lost.append(Ack(position, one.attempt))
            else:
                claims.append(Claim(position, event, one.attempt, one.last_error))
        return claims, lost

    async def _events(self, topic: str, epoch: int, held: Sequence[Held]) -> dict[int, Event]:
        tail = self._tails.get(topic)
        found: dict[int, Event] = {}
        missing: list[int] = []
        for one in held:
            row = tail.row((epoch, one.seq)) if tail is not None else None
            if row is not None and row.entry is not None:
                found[one.seq] = row.entry.event
            elif one.letter is None:
                missing.append(one.seq)
        if missing:
            rows = await self._log.rows_at(topic, epoch, missing)
            found |= {seq: row.entry.event for seq, row in rows.items() if row.entry is not None}
        letters = {one.letter: one.seq for one in held if one.letter is not None}
        for letter, event in (await self._dead.events(topic, list(letters))).items():
            found[letters[letter]] = event
        return found

    async def settle(
        self, topic: str, group: str, consumer: str, settlements: Sequence[Settlement]
    ) -> Sequence[DeadLetter]:
        place = self._place
        key = self._log.key(topic)
        letters: list[DeadLetter] = []
        tells = (topic, group) in self._ordered or not all(
            isinstance(one, Ack) for one in settlements
        )
        with bus_errors("settle", self._where):
            if any(isinstance(one, Dead) for one in settlements):
                letters = await self._settle_dead(topic, group, consumer, settlements)
            else:
                await self._groups.settle(topic, key, group, consumer, settlements, tells=tells)
            await self._forget_letters(topic, group, settlements)
            if tells:
                await place.feed.ring([{"t": key, "g": group}])
        if tells:
            self._quiet.pop((topic, group), None)
        return letters

    async def _settle_dead(
        self, topic: str, group: str, consumer: str, settlements: Sequence[Settlement]
    ) -> list[DeadLetter]:
        """Letters first: one that is written twice is one, one that is missing is a loss."""
        key, pool = self._log.key(topic), self._place.pool

        async def body(session: Session | None) -> list[DeadLetter]:
            held = await self._groups.held_by(topic, key, group, consumer, session)
            letters: list[DeadLetter] = []
            for one in settlements:
                mine = held.get((*one.position, one.attempt))
                if not isinstance(one, Dead) or mine is None:
                    continue
                events = await self._events(topic, one.position[0], [mine])
                event = events.get(mine.seq)
                if event is not None:
                    letters.append(
                        await self._dead.bury(
                            topic,
                            key,
                            group,
                            dead=one,
                            held=mine,
                            event=event,
                            session=session,
                        )
                    )
            await self._groups.settle(
                topic, key, group, consumer, settlements, tells=True, session=session
            )
            return letters

        if pool.is_replicated:
            return await pool.transact(body)
        return await body(None)

    async def _forget_letters(
        self, topic: str, group: str, settlements: Sequence[Settlement]
    ) -> None:
        """Requeued letters whose events were settled for good."""
        done = [
            letter
            for one in settlements
            if isinstance(one, Ack)
            and (letter := self._letters.pop((topic, group, one.position), None)) is not None
        ]
        await self._dead.forget(done)

    async def extend(
        self,
        topic: str,
        group: str,
        consumer: str,
        held: Sequence[tuple[Position, int]],
        ack_wait_ms: int,
    ) -> None:
        _ = self._place
        with bus_errors("extend", self._where):
            key = self._log.key(topic)
            await self._groups.extend(
                topic, key, group, consumer, held=held, ack_wait_ms=ack_wait_ms
            )

    # -- retention -------------------------------------------------------------------------

    async def clear(self, topic: str) -> None:
        place = self._place
        with bus_errors("clear", self._where):
            begins = await self._log.clear(topic)
            if begins is not None:
                await place.feed.ring([{"t": self._log.key(topic), "e": begins[0], "s": 0}])
        self._forget_quiet(topic)
        if topic in self._tails:
            self._tails[topic].forget()
            self._unsure.add(topic)

    async def trim(self, topic: str, *, run_id: str, produced_before_ms: int | None) -> None:
        _ = self._place
        with bus_errors("trim", self._where):
            await self._log.trim(topic, run_id=run_id, produced_before_ms=produced_before_ms)
        if topic in self._tails:
            self._tails[topic].forget()
            self._unsure.add(topic)

    # -- dead letters ----------------------------------------------------------------------

    async def list_dead(self, topic: str, group: str | None) -> list[DeadLetter]:
        _ = self._place
        with bus_errors("list_dead", self._where):
            return await self._dead.listed(topic, self._log.key(topic), group)

    async def requeue_dead(self, topic: str, dead_letter_id: str) -> bool:
        place = self._place
        key = self._log.key(topic)
        with bus_errors("requeue_dead", self._where):
            group = await self._dead.find(key, dead_letter_id)
            if group is None:
                return False
            head = await self._log.known_end(topic)
            await self._groups.requeue(topic, key, group, dead_letter_id, head)
            hidden = await self._dead.hide(dead_letter_id)
            await place.feed.ring([{"t": key, "g": group}])
        self._quiet.pop((topic, group), None)
        return hidden

    async def purge_dead(self, topic: str) -> int:
        _ = self._place
        with bus_errors("purge_dead", self._where):
            return await self._dead.purge(self._log.key(topic))


def _document(outgoing: Outgoing) -> dict[str, Any]:
    payload: Payload = outgoing.payload
    return event_document(payload, outgoing.event, outgoing.dedupe_id)


def _is_known_id(exc: BulkWriteError | DuplicateKeyError) -> bool:
    details: Mapping[str, Any] = exc.details or {}
    errors = details.get("writeErrors") or [details]
    return any("dedupeId" in (error.get("keyPattern") or {}) for error in errors)
