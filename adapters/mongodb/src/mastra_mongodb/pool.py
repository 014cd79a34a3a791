"""One client per database, shared by storage, pubsub and lease of one URL."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import pymongo
from bson import CodecOptions
from pymongo import AsyncMongoClient, ReadPreference, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConnectionFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from mastra_core.base.redact import redact_url
from mastra_mongodb.connections import ConnectionCounter
from mastra_mongodb.documents import ROWS
from mastra_mongodb.errors import MINIMUM_SERVER, OldServerError, is_transient
from mastra_mongodb.settings import MongoSettings

__all__ = (
    "DURABLE",
    "RELAXED",
    "Collection",
    "Document",
    "MongoPool",
    "Session",
    "open_pool",
    "pool_key",
)

T = TypeVar("T")

Document = dict[str, Any]
Collection = AsyncCollection[Any]
Session = AsyncClientSession

DURABLE: Final = WriteConcern(w="majority", j=True)
"""On disk at a majority of the replica set: survives every single crash."""
RELAXED: Final = WriteConcern(w=1)
"""In the memory of the primary: survives a crash of ours, not always one of the server."""

_FIRST_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.1
#: After so long a server ends a transaction by itself, unless it is told otherwise.
_LIFETIME_S: Final = 60.0
#: To end one before: seconds for a try, and between two.
_END_S: Final = 5.0
_END_PAUSE_S: Final = 0.5


def pool_key(settings: MongoSettings) -> tuple[object, ...]:
    """What users of one pool have in common."""
    return (
        "mongodb.pool",
        settings.address,
        settings.database_name,
        settings.request_timeout_ms,
        settings.connect_timeout_ms,
        settings.pool_size,
    )


class MongoPool:
    """
    An open client, and what is known about the server behind it.

    Args:
        settings: URL and limits.
    """

    def __init__(self, settings: MongoSettings) -> None:
        self.settings = settings
        self.where: str = redact_url(settings.url)
        #: Whether there are transactions and change streams.
        self.is_replicated = False
        #: A replica set of one: what it commits it has to write to its own journal first.
        self.is_alone = False
        self.version = ""
        self.connections = ConnectionCounter()
        self._rng = random.Random()  # noqa: S311 – spreads retries, protects nothing
        self._client: AsyncMongoClient[Any] | None = None
        #: End transactions that the server may still believe in.
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def client(self) -> AsyncMongoClient[Any]:
        """The client; there from ``open`` to ``close``."""
        if self._client is None:
            raise ConnectionError("the pool is closed")
        return self._client

    @property
    def database(self) -> AsyncDatabase[Any]:
        """The database of the URL; reads go to the primary."""
        return self.client.get_database(
            self.settings.database_name,
            codec_options=ROWS,
            read_preference=ReadPreference.PRIMARY,
            write_concern=DURABLE,
        )

    def collection(
        self,
        name: str,
        *,
        codec: CodecOptions[Any] = ROWS,
        relaxed: bool = False,
        majority_reads: bool = False,
    ) -> Collection:
        """A collection whose writes are on disk at a majority when they return."""
        return self.database.get_collection(
            name,
            codec_options=codec,
            write_concern=RELAXED if relaxed else DURABLE,
            read_concern=ReadConcern("majority") if majority_reads else None,
        )

    async def open(self) -> None:
        """
        Connect and look at the server.

        Raises:
            OldServerError: It isn't supported.
        """
        settings = self.settings
        patience_ms = min(settings.connect_timeout_ms, settings.request_timeout_ms)
        options: dict[str, Any] = {
            "appName": "mastra-core-python",
            "maxPoolSize": settings.pool_size,
            "timeoutMS": settings.request_timeout_ms,
            "serverSelectionTimeoutMS": patience_ms,
            "connectTimeoutMS": settings.connect_timeout_ms,
            "waitQueueTimeoutMS": settings.request_timeout_ms,
        }
        self._client = self._new_client(options)
        # Within its time for a call the driver looks for a server again and again.
        patience_s = min(self._client.options.server_selection_timeout, patience_ms / 1000)
        try:
            with pymongo.timeout(patience_s):
                hello, build = await asyncio.gather(
                    self._client.admin.command("hello"), self._client.admin.command("buildInfo")
                )
        except BaseException:
            await self.close()
            raise
        self.version = str(build.get("version", ""))
        if tuple(build.get("versionArray", ())[:2]) < MINIMUM_SERVER:
            await self.close()
            raise OldServerError(self.version)
        self.is_replicated = "setName" in hello or hello.get("msg") == "isdbgrid"
        self.is_alone = "setName" in hello and len(hello.get("hosts", ())) == 1
        if not self.is_replicated and "retrywrites" not in settings.driver_options:
            await self._client.close()
            # Such a server knows no numbers of writes. Repeating one with a number after a restart,
            # the driver raises the error of before it, and takes the healthy server for dead again.
            self._client = self._new_client({**options, "retryWrites": False})

    def _new_client(self, options: Mapping[str, Any]) -> AsyncMongoClient[Any]:
        """A client with these options, unless the URL says otherwise."""
        said = self.settings.driver_options
        return AsyncMongoClient(
            self.settings.address,
            event_listeners=[self.connections],
            **{name: value for name, value in options.items() if name.lower() not in said},
        )

    async def close(self) -> None:
        """Close the client; idempotent."""
        client, self._client = self._client, None
        for task in self._ending:
            task.cancel()
        if self._ending:
            await asyncio.wait(self._ending)
        if client is not None:
            await client.close()

    async def server_time(self) -> datetime:
        """The clock of the server."""
        hello: Mapping[str, Any] = await self.client.admin.command("hello")
        now: datetime = hello["localTime"]
        return now.replace(tzinfo=UTC) if now.tzinfo is None else now.astimezone(UTC)

    async def transact(
        self,
        body: Callable[[Session], Awaitable[T]],
        *,
        once: bool = False,
        session: Session | None = None,
    ) -> T:
        """
        Run the body in a transaction; again if it lost a race, with growing pauses.

        The body must do nothing that can't be repeated. ``once``: let the caller decide.
        ``session``: one of the caller's, in which nothing else runs; else any.
        """
        if session is None:
            async with self.client.start_session() as any_session:
                return await self.transact(body, once=once, session=any_session)
        deadline = asyncio.get_running_loop().time() + self.settings.request_timeout_ms / 1000
        attempt = 0
        while True:
            try:
                async with await session.start_transaction(
                    read_concern=ReadConcern("snapshot"),
                    write_concern=DURABLE,
                    read_preference=ReadPreference.PRIMARY,
                ):
                    result = await body(session)
                    if session.in_transaction:
                        await self._commit(session, deadline)
            except PyMongoError as exc:
                if once or not is_transient(exc) or self._is_over(deadline):
                    if isinstance(exc, ConnectionFailure):
                        self._end_later(session.session_id["id"])
                    raise
                attempt += 1
                await self.pause(attempt)
            else:
                return result

    def _end_later(self, session_name: Any) -> None:
        """
        Have the server end what it can't know to be given up, as soon as it can be reached.

        It would keep the transaction for a minute, and everybody else from its documents.
        """
        task = asyncio.get_running_loop().create_task(
            self._end(session_name), name="mongodb-end-transaction"
        )
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, session_name: Any) -> None:
        deadline = asyncio.get_running_loop().time() + _LIFETIME_S
        while not self._is_over(deadline):
            try:
                with pymongo.timeout(_END_S):
                    await self.client.admin.command({"killSessions": [{"id": session_name}]})
            except (PyMongoError, ConnectionError):
                await asyncio.sleep(_END_PAUSE_S)
            else:
                return

    async def _commit(self, session: Session, deadline: float) -> None:
        """Commit; repeating that is safe when its answer was lost."""
        attempt = 0
        while True:
            try:
                await session.commit_transaction()
            except PyMongoError as exc:
                unknown = exc.has_error_label("UnknownTransactionCommitResult")
                if not unknown or self._is_over(deadline):
                    raise
                attempt += 1
                await self.pause(attempt)
            else:
                return

    async def pause(self, attempt: int) -> None:
        """Wait before the next attempt, a little longer each time."""
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt, 10))
        await asyncio.sleep(longest * self._rng.random())

    def _is_over(self, deadline: float) -> bool:
        return asyncio.get_running_loop().time() >= deadline


@asynccontextmanager
async def open_pool(settings: MongoSettings) -> AsyncIterator[MongoPool]:
    """The pool of a database, open."""
    pool = MongoPool(settings)
    try:
        await pool.open()
        yield pool
    finally:
        await pool.close()
