"""
The sessions in which guarded writes run, and how that of a dead process is ended.

A server keeps a transaction whose client has died for a minute, and whatever it has touched with
it. So the writes of one key always run in the same session of a process, the session's name
stands beside the key's fence, and whoever raises the fence has the server end it if need be.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from mastra_mongodb.pool import Collection, MongoPool, Session

__all__ = ("BLOCKED_S", "GuardSessions")

#: Seconds that a fence may take to be raised before somebody's transaction is ended.
BLOCKED_S: Final = 2.0
#: Guarded writes of one process at once; those of one key go one after the other.
_SESSIONS: Final = 16


class GuardSessions:
    """
    Sessions for the guarded writes of one store.

    Args:
        pool: Where they run.
    """

    def __init__(self, pool: MongoPool) -> None:
        self._pool = pool
        self._sessions: dict[int, Session] = {}
        self._locks = [asyncio.Lock() for _ in range(_SESSIONS)]

    def name_of(self, key: str) -> Any:
        """The server's name for the session of a key."""
        return self._session(_place(key)).session_id["id"]

    @asynccontextmanager
    async def session(self, key: str) -> AsyncIterator[Session]:
        """The session of a key; for the block alone."""
        place = _place(key)
        async with self._locks[place]:
            session = self._session(place)
            if session.in_transaction:
                # Its last user was cancelled while it was ended.
                await session.abort_transaction()
            yield session

    def _session(self, place: int) -> Session:
        found = self._sessions.get(place)
        if found is None:
            found = self._sessions[place] = self._pool.client.start_session()
        return found

    async def end_older(self, fences: Collection, key: str, token: int) -> None:
        """End the transaction of a process whose fence is older than this."""
        found = await fences.find_one({"_id": key, "token": {"$lt": token}})
        name = (found or {}).get("session")
        if name is not None:
            await self._pool.client.admin.command({"killSessions": [{"id": name}]})

    async def aclose(self) -> None:
        """Give the sessions back."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.end_session()


def _place(key: str) -> int:
    return zlib.crc32(key.encode()) % _SESSIONS
