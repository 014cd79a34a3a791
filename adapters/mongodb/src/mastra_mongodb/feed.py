"""What happens in the database, as it happens: one stream per process (E1).

On a replica set it is one change stream for the log, the groups and the leases. A standalone
server has none; there, whoever writes also leaves a hint in a capped collection, which is
followed with a tailing cursor. Either may end; then everything may have changed, and whoever
listens reads for himself.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from bson import Timestamp
from pymongo import CursorType, WriteConcern
from pymongo.errors import OperationFailure, PyMongoError

from mastra_core.base.clock import Clock
from mastra_mongodb.errors import heed, requests
from mastra_mongodb.pool import MongoPool
from mastra_mongodb.schema import EVENTS, GROUPS, LEASES, WAKE, Names

__all__ = ("Document", "Feed", "Listener")

logger = logging.getLogger(__name__)

Document = Mapping[str, Any]

_AWAIT_MS: Final = 1_000
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_WARN_EVERY_S: Final = 30.0
#: No event has such a key.
_NOBODY: Final = "nobody"
#: Server codes that say: there are no change streams for you.
_NOT_FOR_US: Final = frozenset({13, 40573, 40415})


class Listener(Protocol):
    """Hears of changes; must neither wait nor raise."""

    def on_event(self, document: Document) -> None:
        """Something was put into the log; without ``p`` it is only a hint."""

    def on_group(self, topic: str, group: str) -> None:
        """A group of the topic may have something to claim."""

    def on_lease(self, key: str) -> None:
        """A lease has another owner, or none."""

    def on_reset(self) -> None:
        """Anything may have happened."""


class _Source(ABC):
    """Where changes come from."""

    @abstractmethod
    async def run(self, feed: Feed) -> None:
        """Follow until it ends or breaks; ``feed.started`` as soon as nothing is missed."""


class Feed:
    """
    Tells listeners of one process about changes; runs from the first one on.

    Args:
        pool: Open as long as the feed is.
        names: Of the collections.
        clock: Measures pauses.
    """

    def __init__(self, pool: MongoPool, names: Names, clock: Clock) -> None:
        self._pool = pool
        self._names = names
        self._clock = clock
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None
        self._live = asyncio.Event()
        self._hastening: asyncio.Task[None] | None = None
        self._is_waiting = False
        self._warned_at: float | None = None
        self._source: _Source = (
            _ChangeStream(pool, names) if pool.is_replicated else _Tail(pool, names)
        )

    @property
    def is_live(self) -> bool:
        """Whether nothing is missed right now."""
        return self._live.is_set()

    @property
    def has_documents(self) -> bool:
        """Whether events come with all that is in them, so that no hint is ever lost."""
        return isinstance(self._source, _ChangeStream)

    async def follow(self, listener: Listener) -> None:
        """From when this returns the listener hears of everything, or of a reset."""
        if listener not in self._listeners:
            self._listeners.append(listener)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="mongodb-feed")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pool.settings.connect_timeout_ms / 1000):
                await self._live.wait()

    def leave(self, listener: Listener) -> None:
        """Tell it no more."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def close(self) -> None:
        """Stop; idempotent."""
        tasks = [task for task in (self._task, self._hastening) if task is not None]
        self._task = self._hastening = None
        self._listeners.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def ring(self, hints: Sequence[dict[str, Any]]) -> None:
        """Leave hints for other processes, where they need them; they may get lost."""
        if self.has_documents:
            if self._pool.is_alone:
                self._hasten()
        else:
            wake = self._pool.collection(self._names(WAKE)).with_options(
                write_concern=WriteConcern(w=0)
            )
            await wake.insert_many([{**hint, "at": Timestamp(0, 0)} for hint in hints])

    def _hasten(self) -> None:
        """
        Have the server write its journal at once.

        A change stream shows what a majority has on disk. Members of a larger set write down
        what they get from each other; a single one does so ten times a second unless somebody
        waits for it. We do, one call at a time, whoever wrote meanwhile.
        """
        self._is_waiting = True
        if self._hastening is None or self._hastening.done():
            self._hastening = asyncio.get_running_loop().create_task(
                self._wait_for_journal(), name="mongodb-journal"
            )

    async def _wait_for_journal(self) -> None:
        events = self._pool.collection(self._names(EVENTS))
        while self._is_waiting:
            self._is_waiting = False
            with suppress(PyMongoError, ConnectionError):
                # Changes nothing, and waits until all before it is on disk.
                await events.update_one({"_id": _NOBODY}, {"$unset": {"none": ""}})

    # -- for sources -----------------------------------------------------------------------

    def started(self) -> None:
        """From now on nothing is missed; what was before may have been."""
        self._live.set()
        self.reset()

    def reset(self) -> None:
        """Let everybody look."""
        for listener in tuple(self._listeners):
            listener.on_reset()

    def tell_event(self, document: Document) -> None:
        """Something was put into the log."""
        for listener in tuple(self._listeners):
            listener.on_event(document)

    def tell_group(self, topic: str, group: str) -> None:
        """A group may have something to claim."""
        for listener in tuple(self._listeners):
            listener.on_group(topic, group)

    def tell_lease(self, key: str) -> None:
        """A lease changed hands."""
        for listener in tuple(self._listeners):
            listener.on_lease(key)

    async def _run(self) -> None:
        failures = 0
        asked = requests()
        while True:
            try:
                await self._source.run(self)
                failures = 0
            except Exception as exc:  # noqa: BLE001 – P17: the feed goes on
                if isinstance(exc, OperationFailure) and exc.code in _NOT_FOR_US:
                    logger.warning(
                        "no change streams for this user; falling back to hints",
                        extra={"database": self._pool.where, "error": str(exc)},
                    )
                    self._source = _Tail(self._pool, self._names)
                    continue
                if self._live.is_set():
                    failures = 0
                failures += 1
                self._report(exc)
            self._live.clear()
            self.reset()
            heed(asked)
            longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures, 10))
            await self._clock.sleep(longest if failures else 0.0)

    def _report(self, exc: Exception) -> None:
        """One warning per half minute; readers go on by looking from time to time (P17)."""
        now = self._clock.monotonic()
        if self._warned_at is None or now - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = now
            facts = {"database": self._pool.where, "error": str(exc)}
            logger.warning("feed broke, trying again", extra=facts, exc_info=exc)


class _ChangeStream(_Source):
    """One change stream for the whole bus; it resumes where it broke, as long as it can."""

    def __init__(self, pool: MongoPool, names: Names) -> None:
        self._pool = pool
        self._events = names(EVENTS)
        self._groups = names(GROUPS)
        self._leases = names(LEASES)
        self._token: Mapping[str, Any] | None = None

    def _pipeline(self) -> list[dict[str, Any]]:
        changed = "updateDescription.updatedFields"
        wanted = [
            {"ns.coll": self._events, "operationType": "insert"},
            {"ns.coll": self._groups, f"{changed}.sig": {"$exists": True}},
            {"ns.coll": self._leases, "operationType": {"$in": ["insert", "delete", "replace"]}},
            {
                "ns.coll": self._leases,
                "$or": [
                    {f"{changed}.fence": {"$exists": True}},
                    {f"{changed}.owner": {"$exists": True}},
                ],
            },
        ]
        members = {"ns.coll": 1, "operationType": 1, "documentKey": 1, "fullDocument": 1}
        return [{"$match": {"$or": wanted}}, {"$project": members}]

    async def run(self, feed: Feed) -> None:
        token, self._token = self._token, None
        stream = await self._pool.database.watch(
            self._pipeline(), max_await_time_ms=_AWAIT_MS, resume_after=token
        )
        async with stream:
            feed.started()
            before = requests()
            while stream.alive:
                change = await stream.try_next()
                heed(before)
                if change is not None:
                    self._tell(feed, change)
                    self._token = stream.resume_token

    def _tell(self, feed: Feed, change: Document) -> None:
        name, key = change["ns"]["coll"], change["documentKey"]["_id"]
        if name == self._events:
            feed.tell_event(change["fullDocument"])
        elif name == self._groups:
            feed.tell_group(key["t"], key["g"])
        else:
            feed.tell_lease(key)


class _Tail(_Source):
    """A tailing cursor over the hints of a capped collection."""

    def __init__(self, pool: MongoPool, names: Names) -> None:
        self._pool = pool
        self._name = names(WAKE)

    async def run(self, feed: Feed) -> None:
        wake = self._pool.collection(self._name, relaxed=True)
        # A cursor on an empty collection ends at once, so there is always one hint.
        await wake.insert_one({"seed": True, "at": Timestamp(0, 0)})
        [last] = await wake.find({}).sort("$natural", -1).limit(1).to_list()
        cursor = wake.find(
            {"at": {"$gte": last["at"]}}, cursor_type=CursorType.TAILABLE_AWAIT
        ).max_await_time_ms(_AWAIT_MS)
        async with cursor:
            # The newest hint comes at once: from now on the cursor follows.
            self._tell(feed, await anext(cursor))
            feed.started()
            before = requests()
            while cursor.alive:
                async for hint in cursor:
                    self._tell(feed, hint)
                    heed(before)
                heed(before)

    def _tell(self, feed: Feed, hint: Document) -> None:
        if "g" in hint:
            feed.tell_group(hint["t"], hint["g"])
        elif "s" in hint:
            feed.tell_event(hint)
        elif "k" in hint:
            feed.tell_lease(hint["k"])
