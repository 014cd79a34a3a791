"""Groups: all state of one in one document, so that single commands are atomic steps (8.4).

``cursor`` is the last place that was given out. ``held`` has an entry for each event that was
given out and isn't settled: place ``s``, attempt ``a``, consumer ``c``, when it may be given
out again ``v``, the last error ``r``; ``k`` names the claim that took it last, and ``x`` the
dead letter that a requeued event stands in. ``sig`` grows when others may want to look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from mastra_core.bus import Ack, Dead, GiveBack, Nack, Position, Settlement
from mastra_core.bus.topic_class import is_durable
from mastra_mongodb.pool import Collection, Session
from mastra_mongodb.sharing import Place

__all__ = ("MAX_HELD", "ClaimedGroup", "Document", "Groups", "Held")

Document = dict[str, Any]

MAX_HELD: Final = 1_000
"""So many unsettled events fit into one document; a group with more gets nothing new."""

_SEEN_EVERY_MS: Final = 60_000


@dataclass(slots=True)
class Held:
    """One event that was claimed."""

    seq: int
    attempt: int
    last_error: str | None
    #: The dead letter that it comes from.
    letter: str | None


@dataclass(slots=True)
class ClaimedGroup:
    """A group after a claim."""

    cursor: int
    held: list[Held]
    next_due_ms: int | None


class Groups:
    """The groups of all topics of one database; topics by the names that they have there."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def _rows(self, topic: str) -> Collection:
        return self._place.groups(relaxed=not is_durable(topic))

    async def join(self, topic: str, key: str, group: str, start: Position) -> None:
        """Make the group unless it is there, or left over from an older epoch."""
        epoch, after = start
        fresh = _fresh(key, group, epoch, after)
        rows = self._rows(topic)
        try:
            await rows.update_one(
                {"_id": {"t": key, "g": group}},
                [
                    {
                        "$replaceWith": {
                            "$cond": [
                                {"$gte": [{"$ifNull": ["$e", -1]}, epoch]},
                                "$$ROOT",
                                {"$mergeObjects": [{"$literal": fresh}, {"seenAt": "$$NOW"}]},
                            ]
                        }
                    }
                ],
                upsert=True,
            )
        except DuplicateKeyError:
            return

    async def claim(
        self,
        topic: str,
        key: str,
        group: str,
        *,
        head: Position,
        consumer: str,
        call: str,
        limit: int,
        ack_wait_ms: int,
        ordered: bool,
    ) -> ClaimedGroup | None:
        """Take what came back, then what is new; None if there is no such group now."""
        stages = _claim_stages(head[1], consumer, call, limit, ack_wait_ms, ordered=ordered)
        mine = {
            "$filter": {
                "input": "$held",
                "as": "h",
                "cond": {"$eq": ["$$h.k", {"$literal": call}]},
            }
        }
        found = await self._rows(topic).find_one_and_update(
            {"_id": {"t": key, "g": group}, "e": head[0]},
            stages,
            projection={
                "_id": 0,
                "cursor": 1,
                "mine": mine,
                "next": {"$subtract": [{"$min": "$held.v"}, "$$NOW"]},
            },
            return_document=ReturnDocument.AFTER,
        )
        if found is None:
            return None
        held = [
            Held(int(one["s"]), int(one["a"]), one.get("r"), one.get("x"))
            for one in found.get("mine", ())
        ]
        due = found.get("next")
        return ClaimedGroup(
            int(found["cursor"]),
            sorted(held, key=lambda one: one.seq),
            None if due is None else max(0, int(due)) + 1,
        )

    async def settle(
        self,
        topic: str,
        key: str,
        group: str,
        consumer: str,
        settlements: Sequence[Settlement],
        *,
        tells: bool,
        session: Session | None = None,
    ) -> None:
        """Settle what this consumer holds in this attempt."""
        epochs = {settlement.position[0] for settlement in settlements}
        for epoch in epochs:
            mine = [one for one in settlements if one.position[0] == epoch]
            await self._rows(topic).update_one(
                {"_id": {"t": key, "g": group}, "e": epoch},
                _settle_update(consumer, mine, tells=tells),
                session=session,
            )

    async def held_by(
        self, topic: str, key: str, group: str, consumer: str, session: Session | None
    ) -> dict[tuple[int, int, int], Held]:
        """What a consumer holds, by epoch, place and attempt."""
        found = await self._rows(topic).find_one({"_id": {"t": key, "g": group}}, session=session)
        if found is None:
            return {}
        return {
            (int(found["e"]), int(one["s"]), int(one["a"])): Held(
                int(one["s"]), int(one["a"]), one.get("r"), one.get("x")
            )
            for one in found["held"]
            if one.get("c") == consumer
        }

    async def extend(
        self,
        topic: str,
        key: str,
        group: str,
        consumer: str,
        *,
        held: Sequence[tuple[Position, int]],
        ack_wait_ms: int,
    ) -> None:
        """Start the time anew of what this consumer still holds."""
        wanted = [{"s": position[1], "a": attempt} for position, attempt in held]
        mine = _is_mine(consumer, wanted)
        until = {"$add": ["$$NOW", ack_wait_ms]}
        later = {"$mergeObjects": ["$$h", {"v": until}]}
        await self._rows(topic).update_one(
            {"_id": {"t": key, "g": group}},
            [{"$set": {"held": _each({"$cond": [mine, later, "$$h"]})}}],
        )

    async def leave(self, topic: str, key: str, group: str, consumer: str) -> bool:
        """Give back what a consumer holds; whether it held anything."""
        mine = {"$eq": ["$$h.c", {"$literal": consumer}]}
        back = {
            "$mergeObjects": [
                "$$h",
                {"a": {"$subtract": ["$$h.a", 1]}, "c": None, "v": "$$NOW"},
            ]
        }
        result = await self._rows(topic).update_one(
            {"_id": {"t": key, "g": group}, "held.c": consumer},
            [{"$set": {"held": _each({"$cond": [mine, back, "$$h"]}), "sig": _told()}}],
        )
        return bool(result.modified_count)

    async def requeue(
        self, topic: str, key: str, group: str, letter_id: str, head: Position
    ) -> None:
        """Give a dead letter to its group, before everything else; once."""
        await self.join(topic, key, group, head)
        number = {"$add": [{"$ifNull": ["$rq", 0]}, 1]}
        entry = {
            "s": {"$multiply": [number, -1]},
            "a": 0,
            "c": None,
            "v": "$$NOW",
            "k": None,
            "r": None,
            "x": {"$literal": letter_id},
        }
        await self._rows(topic).update_one(
            {"_id": {"t": key, "g": group}, "held.x": {"$ne": letter_id}},
            [
                {
                    "$set": {
                        "held": {"$concatArrays": [[entry], "$held"]},
                        "rq": number,
                        "sig": _told(),
                    }
                }
            ],
        )

    async def signals(self, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """How often each group told others to look."""
        ids = [{"t": key, "g": group} for key, group in keys]
        cursor = self._place.groups().find({"_id": {"$in": ids}}, {"sig": 1})
        return {(one["_id"]["t"], one["_id"]["g"]): int(one["sig"]) async for one in cursor}


# -- expressions ------------------------------------------------------------------------------


def _fresh(key: str, group: str, epoch: int, after: int) -> Document:
    return {
        "_id": {"t": key, "g": group},
        "t": key,
        "e": epoch,
        "cursor": after,
        "held": [],
        "sig": 0,
        "rq": 0,
    }


def _claim_stages(
    head: int, consumer: str, call: str, limit: int, ack_wait_ms: int, *, ordered: bool
) -> list[Document]:
    due = {"$filter": {"input": "$held", "as": "h", "cond": {"$lte": ["$$h.v", "$$NOW"]}}}
    taken = {
        "c": {"$literal": consumer},
        "k": {"$literal": call},
        "v": {"$add": ["$$NOW", ack_wait_ms]},
    }
    size = {"$size": "$held"}
    if ordered:
        room: Any = {"$cond": [{"$eq": [size, 0]}, 1, 0]}
    else:
        free = {"$subtract": [limit, {"$size": "$_due"}]}
        room = {"$max": [0, {"$min": [free, {"$subtract": [MAX_HELD, size]}]}]}
    again = {
        "$cond": [
            {"$in": ["$$h.s", "$_due.s"]},
            {"$mergeObjects": ["$$h", {"a": {"$add": ["$$h.a", 1]}, **taken}]},
            "$$h",
        ]
    }
    fresh = {
        "$map": {
            "input": {"$range": [{"$add": ["$cursor", 1]}, {"$add": ["$_upto", 1]}]},
            "as": "s",
            "in": {"s": "$$s", "a": 1, "r": None, **taken},
        }
    }
    recently = {"$subtract": ["$$NOW", _SEEN_EVERY_MS]}
    return [
        {"$set": {"_due": {"$slice": [due, 1 if ordered else limit]}}},
        {"$set": {"_upto": {"$min": [{"$add": ["$cursor", room]}, head]}}},
        {
            "$set": {
                "held": {"$concatArrays": [_each(again), fresh]},
                "cursor": {"$max": ["$cursor", "$_upto"]},
                "seenAt": {"$cond": [{"$lt": ["$seenAt", recently]}, "$$NOW", "$seenAt"]},
            }
        },
        {"$unset": ["_due", "_upto"]},
    ]


def _settle_update(consumer: str, settlements: Sequence[Settlement], *, tells: bool) -> Any:
    done = [_position(one) for one in settlements if isinstance(one, Ack | Dead)]
    if len(done) == len(settlements) and not tells:
        return {"$pull": {"held": {"c": consumer, "$or": done}}}
    operations = [_operation(one) for one in settlements]
    # Each entry meets at most one of the operations.
    matching = {
        "$filter": {
            "input": {"$literal": operations},
            "as": "o",
            "cond": {
                "$and": [
                    {"$eq": ["$$o.s", "$$h.s"]},
                    {"$eq": ["$$o.a", "$$h.a"]},
                    {"$eq": ["$$h.c", {"$literal": consumer}]},
                ]
            },
        }
    }
    back = {
        "$mergeObjects": [
            "$$h",
            {
                "a": {"$subtract": ["$$h.a", "$$m.less"]},
                "c": None,
                "v": {"$add": ["$$NOW", "$$m.d"]},
                "r": {"$ifNull": ["$$m.r", "$$h.r"]},
            },
        ]
    }
    settled = {
        "$let": {
            "vars": {"m": {"$first": matching}},
            "in": {
                "$cond": [
                    {"$eq": [{"$type": "$$m"}, "missing"]},
                    "$$h",
                    {"$cond": ["$$m.done", None, back]},
                ]
            },
        }
    }
    kept = {"$filter": {"input": _each(settled), "as": "h", "cond": {"$ne": ["$$h", None]}}}
    return [{"$set": {"held": kept, "sig": _told()}}]


def _operation(settlement: Settlement) -> Document:
    position = _position(settlement)
    match settlement:
        case Ack() | Dead():
            return {**position, "done": True}
        case Nack(delay_ms=delay_ms, error=error):
            return {**position, "done": False, "less": 0, "d": delay_ms, "r": _text(error)}
        case GiveBack():
            return {**position, "done": False, "less": 1, "d": 0, "r": None}


def _text(error: str | None) -> str | None:
    return None if error is None else error.encode("utf-8", "replace").decode()


def _position(settlement: Settlement) -> Document:
    return {"s": settlement.position[1], "a": settlement.attempt}


def _is_mine(consumer: str, wanted: Sequence[Mapping[str, int]]) -> Document:
    position = {"s": "$$h.s", "a": "$$h.a"}
    return {
        "$and": [
            {"$eq": ["$$h.c", {"$literal": consumer}]},
            {"$in": [position, {"$literal": list(wanted)}]},
        ]
    }


def _each(expression: Any) -> Document:
    return {"$map": {"input": "$held", "as": "h", "in": expression}}


def _told() -> Document:
    return {"$add": [{"$ifNull": ["$sig", 0]}, 1]}
