"""What a domain store gets from its adapter, and what all of them do alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, TypeVar

import pymongo
from bson.codec_options import CodecOptions
from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.contracts.pubsub import FenceToken
from mastra_core.errors import FencedOutError, StorageConflictError, StorageConnectionError
from mastra_core.wire.tables import FENCES
from mastra_mongodb.documents import ROWS
from mastra_mongodb.errors import error_id, is_transient, storage_errors
from mastra_mongodb.pool import Collection, MongoPool, Session
from mastra_mongodb.schema import Names
from mastra_mongodb.storage.guards import BLOCKED_S, GuardSessions

__all__ = ("STORE", "Host", "LostRaceError")

T = TypeVar("T")

STORE = "mongodb"
"""How error ids name this adapter."""

#: How often a step that compares before it writes is tried; each loss means that another won.
#: With the pauses it outlasts a mutex whose holder died.
_TRIES = 400


class LostRaceError(Exception):
    """Somebody else changed what was read before; nothing that matters was written."""


class Host:
    """
    The parts that the adapter puts together once and its domain stores share.

    Args:
        names: Names of collections.
        clock: Dates rows.
        ids: Makes ids of new rows.
        where: The server, without secrets, for messages.
        max_snapshot_bytes: Larger snapshots are refused.
    """

    def __init__(
        self, *, names: Names, clock: Clock, ids: Ids, where: str, max_snapshot_bytes: int
    ) -> None:
        self.names = names
        self.clock = clock
        self.ids = ids
        self.where = where
        self.max_snapshot_bytes = max_snapshot_bytes
        #: Whether indexes may be created.
        self.may_create = True
        self._pool: MongoPool | None = None
        self._guards: GuardSessions | None = None
        self._collections: dict[tuple[str, int], Collection] = {}

    def attach(self, pool: MongoPool | None) -> None:
        """Work on this pool; None for a store that is closed."""
        self._pool = pool
        self._guards = None
        self._collections.clear()

    async def detach(self) -> None:
        """Work on no pool any more."""
        guards = self._guards
        self.attach(None)
        if guards is not None:
            await guards.aclose()

    @property
    def is_open(self) -> bool:
        """Whether there is a pool."""
        return self._pool is not None

    @property
    def pool(self) -> MongoPool:
        """The pool of an open store."""
        if self._pool is None:
            raise StorageConnectionError(
                f"The store of {self.where} is closed, or was not opened yet.",
                id=error_id("open"),
                hint="Use it inside `async with`.",
            )
        return self._pool

    def collection(self, name: str, codec: CodecOptions[Any] = ROWS) -> Collection:
        """A collection by its name without prefix."""
        key = (name, id(codec))
        found = self._collections.get(key)
        if found is None:
            found = self.pool.collection(self.names(name), codec=codec)
            self._collections[key] = found
        return found

    def relaxed(self, name: str) -> Collection:
        """The same for writes that may be lost with a crash of the server."""
        key = (name, -1)
        found = self._collections.get(key)
        if found is None:
            found = self.pool.collection(self.names(name), relaxed=True)
            self._collections[key] = found
        return found

    def errors(self, operation: str) -> AbstractContextManager[None]:
        """Let only errors of ours out of an operation."""
        return storage_errors(operation, self.where)

    @property
    def guards(self) -> GuardSessions:
        """The sessions for guarded writes of an open store."""
        if self._guards is None:
            self._guards = GuardSessions(self.pool)
        return self._guards

    async def together(
        self,
        operation: str,
        body: Callable[[Session | None], Awaitable[T]],
        *,
        session: Session | None = None,
    ) -> T:
        """
        Run a step that reads, compares and writes several documents.

        On a replica set it is one transaction. On a standalone server, which has none, the
        writes of the body must stand in an order in which a crash between them loses nothing;
        each compares what was read before, and raises ``LostRaceError`` if it is no longer so.
        In both cases a lost race begins anew.
        """
        pool = self.pool
        for attempt in range(1, _TRIES + 1):
            try:
                if pool.is_replicated:
                    return await pool.transact(body, session=session)
                return await body(None)
            except LostRaceError:
                await pool.pause(attempt)
        raise StorageConflictError(
            f"{operation} lost {_TRIES} races on {self.where} and gave up; nothing was written.",
            id=error_id(operation),
        )

    async def raise_fence(self, fence: FenceToken) -> None:
        """
        Remember a fence from now on.

        A process that died amid a guarded write would keep it waiting for a minute: its
        transaction is ended.

        Raises:
            FencedOutError: A newer one of its key is known.
        """
        try:
            with pymongo.timeout(BLOCKED_S):
                return await self._raise_fence(fence, None)
        except PyMongoError as exc:
            if not exc.timeout:
                raise
        await self.guards.end_older(self.collection(FENCES), *fence)
        return await self._raise_fence(fence, None)

    async def _raise_fence(self, fence: FenceToken, session: Session | None) -> None:
        key, token = fence
        mine = self.guards.name_of(key)
        stored = await self.collection(FENCES).find_one_and_update(
            {"_id": key},
            [
                {
                    "$set": {
                        # A missing token is less than any.
                        "session": {"$cond": [{"$gt": ["$token", token]}, "$session", mine]},
                        "token": {"$max": ["$token", token]},
                        "seenAt": "$$NOW",
                    }
                }
            ],
            upsert=True,
            return_document=ReturnDocument.AFTER,
            session=session,
        )
        newest = int((stored or {}).get("token", token))
        if newest > token:
            raise FencedOutError(key=key, fence=token, current=newest)

    async def guarded(
        self,
        operation: str,
        fence: FenceToken | None,
        body: Callable[[Session | None], Awaitable[T]],
    ) -> T:
        """As ``together``; with a fence nothing is written unless it is the newest."""
        if fence is None:
            return await self.together(operation, body)

        async def fenced(session: Session | None) -> T:
            await self._raise_fence(fence, session)
            return await body(session)

        async with self.guards.session(fence[0]) as session:
            return await self.together(operation, fenced, session=session)

    async def once(self, body: Callable[[Session], Awaitable[T]]) -> T:
        """
        Run a transaction without repeating it.

        Raises:
            LostRaceError: Another one was at the same documents; nothing was written.
        """
        try:
            return await self.pool.transact(body, once=True)
        except PyMongoError as exc:
            if is_transient(exc):
                raise LostRaceError from exc
            raise

    async def swap(self, operation: str, body: Callable[[], Awaitable[T]]) -> T:
        """Run a compare-and-set of one document until it wins or decides otherwise."""
        for attempt in range(1, _TRIES + 1):
            try:
                return await body()
            except LostRaceError:
                await self.pool.pause(attempt)
        raise StorageConflictError(
            f"{operation} lost {_TRIES} races on {self.where} and gave up; nothing was written.",
            id=error_id(operation),
        )

    def now(self) -> datetime:
        """The time that dates rows."""
        return self.clock.now()
