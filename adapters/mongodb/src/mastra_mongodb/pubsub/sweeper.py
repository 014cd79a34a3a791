"""Throws away what nobody wants any more: idle topics and forgotten groups (3.9, P19)."""

from __future__ import annotations

from typing import Final

from mastra_mongodb.lease_stages import acquire_stages
from mastra_mongodb.pubsub.log import Log
from mastra_mongodb.sharing import Place

__all__ = ("Sweeper",)

_KEY: Final = "mastra:pubsub:sweeper"
#: The lease of one sweep is over before the next one, by this part of the time between them.
_TTL_PART: Final = 0.9
_SHORTEST_TTL_MS: Final = 50
#: Topics that one sweep forgets at most.
_AT_ONCE: Final = 100
_WEEK_MS: Final = 7 * 24 * 3_600_000
#: How long a topic without events is remembered, for those who still write to it.
_REMEMBER_MS: Final = 24 * 3_600_000


class Sweeper:
    """
    Cleans one database; of several processes, the one that has the lease does it.

    Args:
        place: The collections.
        log: Ends topics.
        owner: Names this process.
        interval_ms: Time between two sweeps.
    """

    def __init__(self, place: Place, log: Log, owner: str, *, interval_ms: int) -> None:
        self._place = place
        self._log = log
        self._owner = owner
        self._ttl_ms = max(_SHORTEST_TTL_MS, int(interval_ms * _TTL_PART))

    async def sweep(self) -> None:
        """Do it, unless somebody else does."""
        stages = acquire_stages(self._owner, self._owner, self._ttl_ms, lock_delay_ms=0)
        lease = await self._place.leases().find_one_and_update(
            {"_id": _KEY}, stages, upsert=True, return_document=True
        )
        if lease is not None and lease["owner"] == self._owner:
            await self.forget_topics()
            await self.forget_rest()

    async def forget_topics(self) -> None:
        """Topics that nobody wrote to for their time lose their events."""
        age = {"$subtract": ["$$NOW", "$lastWriteAt"]}
        idle = {
            "idleTtlMs": {"$gt": 0},
            "sweptAt": None,
            "$expr": {"$gt": [age, "$idleTtlMs"]},
        }
        topics = self._place.topics(relaxed=False)
        for stored in await topics.find(idle).limit(_AT_ONCE).to_list():
            topic = self._log.topic_of(stored["_id"])
            if topic is not None:
                await self._log.clear(topic)
                await topics.update_one(
                    {"_id": stored["_id"], "lastWriteAt": stored["lastWriteAt"]},
                    {"$currentDate": {"sweptAt": True}},
                )

    async def forget_rest(self) -> None:
        """Topics that were emptied long ago, and groups whose members are gone."""
        emptied = {"$expr": {"$gt": [{"$subtract": ["$$NOW", "$sweptAt"]}, _REMEMBER_MS]}}
        topics = self._place.topics(relaxed=False)
        await topics.delete_many({"sweptAt": {"$ne": None}, **emptied})
        unseen = {"$expr": {"$gt": [{"$subtract": ["$$NOW", "$seenAt"]}, _WEEK_MS]}}
        await self._place.groups().delete_many(unseen)
