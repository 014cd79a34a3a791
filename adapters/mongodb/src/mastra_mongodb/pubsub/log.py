"""The log of topics: dense numbers without transactions (pubsub_and_lease.md 8.4).

A place in the log is ``(epoch, seq)``. An event is put behind the last one that is known; if
somebody else was faster the place is taken, and the next one is tried. The last document of
an epoch that was ended says which epoch follows, so whoever still believes in the old one
meets it like any other event and can't write past it.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError

from mastra_core.base.clock import Clock
from mastra_core.bus import Page, Position, Start, position_from_cursor
from mastra_core.bus.topic_class import idle_ttl_ms, is_durable, topic_class
from mastra_core.bus.trimming import is_trimmable
from mastra_core.contracts.pubsub import Cursor
from mastra_core.errors import PubSubError
from mastra_mongodb.pool import Collection, Session
from mastra_mongodb.pubsub.envelope import CHUNK_BYTES, Row, row_from
from mastra_mongodb.sharing import Place

__all__ = ("ANY_EPOCH", "Document", "Log", "LogLimits", "Placed")

logger = logging.getLogger(__name__)

Document = dict[str, Any]

ANY_EPOCH: Final = 0
"""A position of this epoch is meant for whatever epoch there is."""

_TRIES: Final = 500
#: What is known about an end of a log is looked up again after so long without use.
_FORGET_AFTER_S: Final = 60.0
_MAX_HEADS: Final = 10_000
#: From so many events that a group hasn't settled, somebody should look (3.9).
_ALARMING: Final = 100_000
#: How long the end of an epoch is remembered, for those who still believe in it.
_TOMBSTONE_MS: Final = 24 * 3_600_000
_DELETE_AT_ONCE: Final = 5_000
_LONGEST_TOUCH_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """What is kept, and for how long."""

    max_entries: int
    dedupe_window_ms: int
    #: Instead of the times that the kinds of topics have, if that is shorter.
    idle_ttl_ms: int


@dataclass(slots=True)
class _Head:
    """What is known about the end of a log."""

    epoch: int
    seq: int
    #: The first place that is retained, as far as is known.
    first: int
    used_at: float
    touched_at: float
    #: Don't try to make room before this place.
    full_until: int = 0


@dataclass(slots=True)
class Placed:
    """Where an event went; no place for one that was there already."""

    position: Position | None
    document: Document


class Log:
    """
    The log of all topics of one database.

    Args:
        place: Its collections.
        clock: Measures pauses.
        limits: What is kept.
        namespace: Keeps the topics of several users of one database apart.
    """

    def __init__(self, place: Place, clock: Clock, limits: LogLimits, namespace: str) -> None:
        self._place = place
        self._clock = clock
        self._limits = limits
        self._namespace = f"{namespace}:" if namespace else ""
        self._heads: OrderedDict[str, _Head] = OrderedDict()

    def key(self, topic: str) -> str:
        """The topic as the database knows it."""
        return f"{self._namespace}{topic}"

    def topic_of(self, key: str) -> str | None:
        """The topic as its users know it; None for a topic of others."""
        return key[len(self._namespace) :] if key.startswith(self._namespace) else None

    def events(self, topic: str) -> Collection:
        """The log, with the care for writes that the topic deserves."""
        return self._place.events(relaxed=not is_durable(topic))

    # -- the end of a log ------------------------------------------------------------------

    def learn(self, topic: str, epoch: int, seq: int) -> None:
        """Somebody else's event is at this place."""
        head = self._heads.get(topic)
        if head is None:
            return
        if epoch == head.epoch:
            head.seq = max(head.seq, seq)
        elif epoch > head.epoch:
            del self._heads[topic]

    def forget(self, topic: str) -> None:
        """Look the end of the log up again."""
        self._heads.pop(topic, None)

    async def end(self, topic: str) -> Position:
        """The newest place; ``(ANY_EPOCH, 0)`` for a topic that isn't there."""
        stored = await self._place.topics().find_one({"_id": self.key(topic)}, {"epoch": 1})
        if stored is None:
            return (ANY_EPOCH, 0)
        return await self._newest(self.key(topic), int(stored["epoch"]))

    async def known_end(self, topic: str) -> Position:
        """The newest place that is known; looked up if none is."""
        head = self._head(topic) or await self._open(topic)
        return (head.epoch, head.seq)

    def _head(self, topic: str) -> _Head | None:
        head = self._heads.get(topic)
        now = self._clock.monotonic()
        if head is None or now - head.used_at > _FORGET_AFTER_S:
            return None
        head.used_at = now
        return head

    async def _newest(self, key: str, epoch: int) -> Position:
        """The newest place of an epoch, or of the one that followed it."""
        while True:
            found = await self._place.events().find_one(
                {"t": key, "e": epoch}, {"s": 1, "next": 1}, sort={"s": -1}
            )
            if found is None:
                return (epoch, 0)
            if "next" not in found:
                return (epoch, int(found["s"]))
            epoch = int(found["next"])

    async def _open(self, topic: str) -> _Head:
        """Make the topic if it isn't there, and find its end."""
        key = self.key(topic)
        stored = await self._upsert_topic(topic, None)
        epoch, seq = await self._newest(key, int(stored["epoch"]))
        if epoch != stored["epoch"]:
            # Whoever ended the epoch died before he could say so.
            stored = await self._upsert_topic(topic, epoch)
        now = self._clock.monotonic()
        first = int(stored.get("firstSeq") or 1)
        head = _Head(epoch, seq, first, now, now)
        self._heads[topic] = head
        self._heads.move_to_end(topic)
        if len(self._heads) > _MAX_HEADS:
            self._heads.popitem(last=False)
        return head

    async def _upsert_topic(self, topic: str, epoch: int | None) -> Document:
        """The topic's document; a new epoch is the server's time, so none comes twice."""
        fresh = {"$toLong": "$$NOW"} if epoch is None else epoch
        changes: Document = {
            "epoch": {"$max": ["$epoch", fresh]}
            if epoch is not None
            else {"$ifNull": ["$epoch", fresh]},
            "firstSeq": {"$ifNull": ["$firstSeq", 1]} if epoch is None else 1,
            "lastWriteAt": "$$NOW",
            "sweptAt": None,
            "idleTtlMs": self._idle_ttl_ms(topic),
            "class": topic_class(topic).value,
        }
        topics = self._place.topics(relaxed=False)
        for _ in range(2):
            try:
                stored: Document | None = await topics.find_one_and_update(
                    {"_id": self.key(topic)},
                    [{"$set": changes}],
                    upsert=True,
                    return_document=ReturnDocument.AFTER,
                )
            except DuplicateKeyError:
                continue
            if stored is not None:
                return stored
        raise PubSubError(f"Topic {topic!r} can't be opened.")

    def _idle_ttl_ms(self, topic: str) -> int | None:
        idle = idle_ttl_ms(topic)
        if idle is None or not self._limits.idle_ttl_ms:
            return None
        return min(idle, self._limits.idle_ttl_ms)

    # -- append ----------------------------------------------------------------------------

    async def append(
        self,
        topic: str,
        documents: Sequence[Document],
        session: Session | None = None,
        *,
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Placed]:
        """
        Put documents behind the last event, in this order.

        Args:
            topic: Its log.
            documents: Events without places.
            session: Of a transaction.
            check: Raises if they may not be stored. Nothing else comes into the topic
                between a check and what it allowed: the place would be taken, and the
                next try checks again.

        Raises:
            PyMongoError: Nobody knows what was stored. In a transaction also if a place was
                taken; then nothing was.
        """
        key = self.key(topic)
        await self._store_chunks(key, documents)
        placed: list[Placed] = []
        rest = list(documents)
        for _ in range(_TRIES):
            head = self._head(topic) or await self._open(topic)
            epoch, last = head.epoch, head.seq
            if check is not None:
                await check()
            numbered = [
                _at(key, epoch, last + number, document)
                for number, document in enumerate(rest, start=1)
            ]
            try:
                await self.events(topic).insert_many(numbered, ordered=True, session=session)
            except (BulkWriteError, DuplicateKeyError) as exc:
                self.forget(topic)
                if session is not None:
                    raise
                done = await self._after_collision(key, exc, numbered, placed)
                rest = rest[done:]
                if not rest:
                    return placed
                continue
            except PyMongoError:
                self.forget(topic)
                raise
            placed += [Placed((epoch, one["s"]), one) for one in numbered]
            head.seq = max(head.seq, int(numbered[-1]["s"]))
            await self._keep_chunks(rest)
            await self._after_append(topic, head)
            return placed
        raise PubSubError(f"Too many others publish to {topic!r}; nothing was stored.")

    async def _after_collision(
        self,
        key: str,
        exc: BulkWriteError | DuplicateKeyError,
        numbered: Sequence[Document],
        placed: list[Placed],
    ) -> int:
        """Note what was stored before a place, or an id, was taken; how many are dealt with."""
        details: Mapping[str, Any] = exc.details or {}
        errors = details.get("writeErrors") or [details]
        first = errors[0]
        if first.get("code") != 11000:  # noqa: PLR2004 – duplicate key
            raise exc
        index = int(first.get("index", 0))
        stored = numbered[:index]
        placed += [Placed((one["e"], one["s"]), one) for one in stored]
        await self._keep_chunks(stored)
        if "dedupeId" not in (first.get("keyPattern") or {}):
            return index
        known = numbered[index]
        if await self._is_recent(key, known["dedupeId"]):
            placed.append(Placed(None, known))
            return index + 1
        return index

    async def _is_recent(self, key: str, dedupe_id: str) -> bool:
        """Whether the event of this id counts as the same; one that is too old gives it up."""
        age = {"$subtract": ["$$NOW", "$createdAt"]}
        result = await self._place.events().update_one(
            {
                "t": key,
                "dedupeId": dedupe_id,
                "$expr": {"$gt": [age, self._limits.dedupe_window_ms]},
            },
            {"$unset": {"dedupeId": ""}},
        )
        return not result.modified_count

    async def _after_append(self, topic: str, head: _Head) -> None:
        """Keep the topic young, and the log short."""
        now = self._clock.monotonic()
        idle_ms = self._idle_ttl_ms(topic)
        every_s = _LONGEST_TOUCH_S if idle_ms is None else min(_LONGEST_TOUCH_S, idle_ms / 4000)
        if now - head.touched_at >= every_s:
            head.touched_at = now
            update = {
                "$currentDate": {"lastWriteAt": True},
                "$max": {"headSeq": head.seq},
                "$set": {"sweptAt": None},
            }
            await self._place.topics().update_one({"_id": self.key(topic)}, update)
        excess = head.seq - head.first + 1 - self._limits.max_entries
        if excess > 0 and head.seq >= head.full_until:
            await self._make_room(topic, head, excess)

    # -- long events -----------------------------------------------------------------------

    async def _store_chunks(self, key: str, documents: Sequence[Document]) -> None:
        """Pieces come first; they expire by themselves unless their event follows."""
        for document in documents:
            text = document.get("p")
            if text is None or len(text) * 4 <= CHUNK_BYTES:
                continue
            encoded = text.encode()
            if len(encoded) <= CHUNK_BYTES:
                continue
            pieces = [
                encoded[start : start + CHUNK_BYTES]
                for start in range(0, len(encoded), CHUNK_BYTES)
            ]
            chunks = self._place.chunks()
            for number, piece in enumerate(pieces):
                await chunks.update_one(
                    {"_id": {"id": document["eventId"], "i": number}},
                    [
                        {
                            "$set": {
                                "t": {"$literal": key},
                                "id": {"$literal": document["eventId"]},
                                "p": piece,
                                "expiresAt": {"$add": ["$$NOW", 3_600_000]},
                            }
                        }
                    ],
                    upsert=True,
                )
            del document["p"]
            document["n"] = len(pieces)

    async def _keep_chunks(self, documents: Sequence[Document]) -> None:
        ids = [document["eventId"] for document in documents if "n" in document]
        if ids:
            await self._place.chunks().update_many(
                {"id": {"$in": ids}}, {"$unset": {"expiresAt": ""}}
            )

    async def text_of(self, document: Mapping[str, Any]) -> str | None:
        """The payload of an event that was stored in pieces; None if one is missing."""
        cursor = self._place.chunks().find({"id": document["eventId"]}).sort("_id.i", 1)
        pieces = [bytes(piece["p"]) async for piece in cursor]
        if len(pieces) != document["n"]:
            return None
        return b"".join(pieces).decode()

    async def row(self, topic: str, document: Mapping[str, Any]) -> Row:
        """A document of the log, with its pieces."""
        text = await self.text_of(document) if "n" in document else None
        return row_from(document, topic, text)

    # -- reading ---------------------------------------------------------------------------

    async def locate(self, topic: str, start: Start) -> Position:
        """The position after which a subscription that starts so reads."""
        if isinstance(start, Cursor):
            return position_from_cursor(start, topic)
        key = self.key(topic)
        stored = await self._place.topics().find_one({"_id": key})
        if stored is None:
            return (ANY_EPOCH, start if isinstance(start, int) else 0)
        epoch, seq = await self._newest(key, int(stored["epoch"]))
        if start == "latest":
            return (epoch, seq)
        if isinstance(start, int):
            return (epoch, start)
        return (epoch, self._first_of(stored, epoch) - 1)

    def _first_of(self, stored: Mapping[str, Any], epoch: int) -> int:
        return int(stored.get("firstSeq") or 1) if stored["epoch"] == epoch else 1

    async def read_after(self, topic: str, position: Position, limit: int) -> tuple[Page, bool]:
        """At most ``limit`` places behind the position, and whether that is the end for now."""
        epoch, after = position
        key = self.key(topic)
        documents = await self._read(key, epoch, after, limit) if epoch != ANY_EPOCH else []
        gap = None
        if not documents or documents[0]["s"] != after + 1:
            stored = await self._place.topics().find_one({"_id": key})
            if stored is None:
                return Page([], position), True
            current = int(stored["epoch"])
            # Who has read the end of an epoch is ahead of a topic that doesn't say so yet.
            if not documents and (epoch == ANY_EPOCH or current > epoch):
                if epoch != ANY_EPOCH:
                    after = 0
                epoch = current
                documents = await self._read(key, epoch, after, limit)
            first = self._first_of(stored, epoch)
            if after < first - 1:
                gap = (after, first - 1)
                after = first - 1
        rows = [await self.row(topic, document) for document in documents]
        entries = [row.entry for row in rows if row.entry is not None]
        end: Position = (epoch, rows[-1].position[1] if rows else after)
        if rows and rows[-1].next_epoch is not None:
            end = (rows[-1].next_epoch, 0)
            if not entries:
                return await self.read_after(topic, end, limit)
            return Page(entries, end, gap), False
        return Page(entries, end, gap), len(documents) < limit

    async def _read(self, key: str, epoch: int, after: int, limit: int) -> list[Document]:
        wanted = {"t": key, "e": epoch, "s": {"$gt": after}}
        return await self._place.events().find(wanted).sort("s", 1).limit(limit).to_list()

    async def rows_at(self, topic: str, epoch: int, seqs: Sequence[int]) -> dict[int, Row]:
        """Rows of these places, as far as there are any."""
        wanted = {"t": self.key(topic), "e": epoch, "s": {"$in": list(seqs)}}
        documents = await self._place.events().find(wanted).to_list()
        return {int(one["s"]): await self.row(topic, one) for one in documents}

    async def changed(self, ends: Mapping[str, Position]) -> list[str]:
        """Which of the topics have something behind the places that are known."""
        wanted = [
            {"t": self.key(topic), "e": epoch, "s": {"$gt": seq}}
            for topic, (epoch, seq) in ends.items()
            if epoch != ANY_EPOCH
        ]
        found: set[str] = set()
        if wanted:
            found.update(await self._place.events().distinct("t", {"$or": wanted}))
        names = [self.key(topic) for topic, (epoch, _) in ends.items() if epoch == ANY_EPOCH]
        if names:
            cursor = self._place.topics().find({"_id": {"$in": names}}, {"_id": 1})
            found.update([stored["_id"] async for stored in cursor])
        return [topic for key in found if (topic := self.topic_of(key)) is not None]

    # -- retention -------------------------------------------------------------------------

    async def _make_room(self, topic: str, head: _Head, excess: int) -> None:
        """Let the oldest events go; those that a group hasn't settled stay."""
        key, slack = self.key(topic), self._limits.max_entries // 10
        # A tenth at once, so that the cost is shared by many appends.
        target = head.first + excess + slack
        floor = await self._floor(key, head.epoch)
        first = target if floor is None else min(target, floor)
        first = min(first, head.seq)  # the newest event marks the end of the log
        if first > head.first:
            await self._place.topics().update_one(
                {"_id": key, "epoch": head.epoch}, {"$max": {"firstSeq": first}}
            )
            await self._delete({"t": key, "e": head.epoch, "s": {"$lt": first}})
            head.first = first
        left = head.seq - head.first + 1
        head.full_until = 0
        if left > self._limits.max_entries:
            head.full_until = head.seq + max(1, slack)
            if left >= _ALARMING:
                logger.error(
                    "a group is far behind, its topic grows",
                    extra={"topic": topic, "unsettled": left},
                )

    async def _floor(self, key: str, epoch: int) -> int | None:
        """The lowest place that a group still needs; None without groups."""
        stages: list[Document] = [
            {"$match": {"t": key, "e": epoch}},
            {
                "$project": {
                    "low": {
                        "$min": [
                            {"$add": ["$cursor", 1]},
                            {
                                "$min": {
                                    "$filter": {
                                        "input": "$held.s",
                                        "as": "s",
                                        "cond": {"$gt": ["$$s", 0]},
                                    }
                                }
                            },
                        ]
                    }
                }
            },
            {"$group": {"_id": None, "low": {"$min": "$low"}}},
        ]
        found = await (await self._place.groups().aggregate(stages)).to_list()
        return int(found[0]["low"]) if found else None

    async def _delete(self, wanted: Document) -> None:
        """Delete events with their pieces."""
        events = self._place.events(relaxed=True)
        ids = await events.distinct("eventId", {**wanted, "n": {"$gt": 0}})
        if ids:
            await self._place.chunks(relaxed=True).delete_many({"id": {"$in": ids}})
        await events.delete_many(wanted)

    async def clear(self, topic: str) -> Position | None:
        """Start a new epoch; where it begins, or None for a topic that isn't there."""
        key = self.key(topic)
        stored = await self._place.topics().find_one({"_id": key}, {"epoch": 1})
        self.forget(topic)
        if stored is None:
            return None
        epoch, following = await self._end_epoch(key, int(stored["epoch"]))
        await self._place.topics(relaxed=False).update_one(
            {"_id": key, "epoch": {"$lt": following}},
            {"$set": {"epoch": following, "firstSeq": 1, "headSeq": 0}},
        )
        await self._place.groups().delete_many({"t": key})
        await self._delete({"t": key, "e": {"$lte": epoch}, "next": None})
        return (following, 0)

    async def _end_epoch(self, key: str, epoch: int) -> tuple[int, int]:
        """Put an end behind the last event; the epoch that it ends, and the next one."""
        while True:
            epoch, seq = await self._newest(key, epoch)
            following = max(epoch + 1, self._clock.now_ms())
            tombstone = _at(key, epoch, seq + 1, {"next": following})
            try:
                await self._place.events().insert_one(tombstone)
            except DuplicateKeyError:
                continue
            await self._place.events(relaxed=True).update_one(
                {"_id": tombstone["_id"]},
                [{"$set": {"expiresAt": {"$add": ["$$NOW", _TOMBSTONE_MS]}}}],
            )
            return epoch, following

    async def trim(self, topic: str, *, run_id: str, produced_before_ms: int | None) -> None:
        """Delete the events of a run; the newest of the log only loses what is in it."""
        key = self.key(topic)
        stored = await self._place.topics().find_one({"_id": key}, {"epoch": 1})
        if stored is None:
            return
        epoch, newest = await self._newest(key, int(stored["epoch"]))
        doomed: list[int] = []
        cursor = self._place.events().find(
            {"t": key, "e": epoch, "runId": run_id.encode("utf-8", "replace").decode()}
        )
        async for document in cursor:
            row = await self.row(topic, document)
            if row.entry and is_trimmable(row.entry.event, run_id, produced_before_ms):
                doomed.append(row.position[1])
        for start in range(0, len(doomed), _DELETE_AT_ONCE):
            seqs = [seq for seq in doomed[start : start + _DELETE_AT_ONCE] if seq < newest]
            await self._delete({"t": key, "e": epoch, "s": {"$in": seqs}})
        if newest in doomed:
            await self._place.events().update_one(
                {"_id": {"t": key, "e": epoch, "s": newest}},
                {"$unset": {"p": "", "n": "", "dedupeId": ""}},
            )


def _at(key: str, epoch: int, seq: int, document: Mapping[str, Any]) -> Document:
    place = {"t": key, "e": epoch, "s": seq}
    return {"_id": dict(place), **document, **place}
