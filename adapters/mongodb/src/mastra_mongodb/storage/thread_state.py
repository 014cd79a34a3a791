"""Small JSON values of threads (cross_agent.md 4)."""

from __future__ import annotations

from typing import Any

from pymongo.errors import DuplicateKeyError

from mastra_core.base.jsonjs import decode, encode_bytes
from mastra_core.rules.arguments import check_text
from mastra_core.rules.json_values import same_json
from mastra_core.wire.tables import THREAD_STATE
from mastra_mongodb.documents import json_from_member, member_from_json
from mastra_mongodb.pool import Collection
from mastra_mongodb.storage.host import Host, LostRaceError

__all__ = ("MongoThreadState",)


class MongoThreadState:
    """Domain ``thread_state``; see ``contracts.storage.thread_state``."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def _rows(self) -> Collection:
        return self._host.collection(THREAD_STATE)

    async def get_state(self, thread_id: str, state_type: str) -> Any:
        """A copy of the value; None if there is none."""
        with self._host.errors("get_state"):
            row = await self._rows.find_one({"threadId": thread_id, "type": state_type})
            return None if row is None else json_from_member(row.get("value"))

    async def set_state(self, thread_id: str, state_type: str, value: Any) -> None:
        """Upsert in one command; the row keeps its creation time."""
        key = _key(thread_id, state_type)
        update = self._update(value)
        with self._host.errors("set_state"):
            try:
                await self._rows.update_one(key, update, upsert=True)
            except DuplicateKeyError:
                await self._rows.update_one(key, update, upsert=True)

    def _update(self, value: Any) -> dict[str, Any]:
        now = self._host.now()
        return {
            "$set": {"value": member_from_json(value), "updatedAt": now},
            "$setOnInsert": {"createdAt": now},
        }

    async def compare_and_set(
        self, thread_id: str, state_type: str, *, expected: Any, value: Any
    ) -> bool:
        """Replace ``expected`` by ``value`` if the stored value still is what was compared."""
        key = _key(thread_id, state_type)
        update = self._update(value)
        # As it would read back: a tuple is a list to a store.
        wanted = decode(encode_bytes(expected))

        async def attempt() -> bool:
            row = await self._rows.find_one(key)
            current = None if row is None else json_from_member(row.get("value"))
            if not same_json(current, wanted):
                return False
            if row is None:
                return await self._insert(key, update)
            stored = {"$literal": member_from_json(current)}
            unchanged = {"$expr": {"$eq": [{"$ifNull": ["$value", None]}, stored]}}
            result = await self._rows.update_one({**key, **unchanged}, update)
            if not result.matched_count:
                raise LostRaceError
            return True

        with self._host.errors("compare_and_set"):
            return await self._host.swap("compare_and_set", attempt)

    async def _insert(self, key: dict[str, str], update: dict[str, Any]) -> bool:
        try:
            await self._rows.insert_one({**key, **update["$set"], **update["$setOnInsert"]})
        except DuplicateKeyError as exc:
            raise LostRaceError from exc
        return True

    async def delete_state(self, thread_id: str, state_type: str) -> bool:
        """Delete; True if there was one."""
        with self._host.errors("delete_state"):
            result = await self._rows.delete_one({"threadId": thread_id, "type": state_type})
            return bool(result.deleted_count)

    async def list_states(self, thread_id: str) -> dict[str, Any]:
        """All values of a thread by type."""
        with self._host.errors("list_states"):
            rows = await self._rows.find({"threadId": thread_id}).sort("type", 1).to_list()
            return {row["type"]: json_from_member(row.get("value")) for row in rows}

    async def dangerously_clear_all(self) -> None:
        """Delete every value."""
        with self._host.errors("dangerously_clear_all"):
            await self._rows.delete_many({})


def _key(thread_id: str, state_type: str) -> dict[str, str]:
    return {
        "threadId": check_text(thread_id, "thread_id"),
        "type": check_text(state_type, "state_type"),
    }
