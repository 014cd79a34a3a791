"""Dead letters: events that a group gave up (pubsub_and_lease.md 3.5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mastra_core.base.ids import uuid5
from mastra_core.base.isotime import epoch_ms
from mastra_core.base.jsonjs import encode
from mastra_core.bus import Dead
from mastra_core.contracts.pubsub import DeadLetter
from mastra_core.errors import WireDecodeError
from mastra_core.wire.events import Event, event_to_wire
from mastra_mongodb.pool import Session
from mastra_mongodb.pubsub.envelope import event_from_text
from mastra_mongodb.pubsub.groups import Held
from mastra_mongodb.sharing import Place

__all__ = ("DeadLetters",)

logger = logging.getLogger(__name__)

_RETENTION_MS: Final = 7 * 24 * 3_600_000


class DeadLetters:
    """The dead letters of one database."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def bury(
        self,
        topic: str,
        key: str,
        group: str,
        *,
        dead: Dead,
        held: Held,
        event: Event,
        session: Session | None,
    ) -> DeadLetter:
        """
        Write the letter of an event that is given up.

        Its id follows from the event and the group, so writing it twice is writing it once.
        """
        letter_id = held.letter or uuid5(key, group, dead.position[0], dead.position[1])
        error = dead.error or held.last_error
        text = encode(event_to_wire(event), lenient=True)
        stored = await self._place.dead().find_one_and_update(
            {"_id": letter_id},
            [
                {
                    "$set": {
                        "topic": {"$literal": key},
                        "group": {"$literal": group},
                        "p": {"$literal": text},
                        "attempts": dead.attempt,
                        "lastError": {"$literal": _text(error)},
                        "deadAt": "$$NOW",
                        "expiresAt": {"$add": ["$$NOW", _RETENTION_MS]},
                        "requeued": False,
                    }
                }
            ],
            upsert=True,
            return_document=True,
            session=session,
        )
        return _letter(stored or {}, topic, event)

    async def listed(self, topic: str, key: str, group: str | None) -> list[DeadLetter]:
        """Letters that wait for a decision, oldest first."""
        wanted: dict[str, Any] = {"topic": key, "requeued": {"$ne": True}}
        if group is not None:
            wanted["group"] = group
        letters: list[DeadLetter] = []
        async for stored in self._place.dead().find(wanted).sort({"deadAt": 1, "_id": 1}):
            event = self._event(stored, topic)
            if event is not None:
                letters.append(_letter(stored, topic, event))
        return letters

    def _event(self, stored: Mapping[str, Any], topic: str) -> Event | None:
        try:
            return event_from_text(stored["p"], topic)
        except WireDecodeError:
            logger.warning("unreadable dead letter left out", extra={"letter": stored["_id"]})
            return None

    async def find(self, key: str, letter_id: str) -> str | None:
        """The group of a letter that waits; None without one."""
        wanted = {"_id": letter_id, "topic": key, "requeued": {"$ne": True}}
        stored = await self._place.dead().find_one(wanted, {"group": 1})
        return None if stored is None else str(stored["group"])

    async def hide(self, letter_id: str) -> bool:
        """Its event is with its group again; False if somebody else said so."""
        result = await self._place.dead().update_one(
            {"_id": letter_id, "requeued": {"$ne": True}}, {"$set": {"requeued": True}}
        )
        return bool(result.modified_count)

    async def events(self, topic: str, letter_ids: Sequence[str]) -> dict[str, Event]:
        """The events of requeued letters."""
        if not letter_ids:
            return {}
        cursor = self._place.dead().find({"_id": {"$in": list(letter_ids)}})
        return {
            stored["_id"]: event
            async for stored in cursor
            if (event := self._event(stored, topic)) is not None
        }

    async def forget(self, letter_ids: Sequence[str]) -> None:
        """Their events were settled."""
        if letter_ids:
            await self._place.dead().delete_many({"_id": {"$in": list(letter_ids)}})

    async def purge(self, key: str) -> int:
        """Forget the letters of a topic; how many there were."""
        result = await self._place.dead().delete_many({"topic": key, "requeued": {"$ne": True}})
        return result.deleted_count


def _text(error: str | None) -> str | None:
    return None if error is None else error.encode("utf-8", "replace").decode()


def _letter(stored: Mapping[str, Any], topic: str, event: Event) -> DeadLetter:
    return DeadLetter(
        id=stored["_id"],
        topic=topic,
        group=stored["group"],
        event=event.copy(),
        attempts=int(stored["attempts"]),
        last_error=stored.get("lastError"),
        dead_at_ms=epoch_ms(stored["deadAt"]),
    )
