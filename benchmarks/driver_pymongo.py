"""``pymongo`` as anybody would use it: the commands that ours send, given to its methods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count, groupby
from typing import Any, ClassVar

import bson
from driver import Driver, Floors
from driver_psycopg import with_option
from harness import Call
from pymongo import AsyncMongoClient, UpdateMany, UpdateOne, WriteConcern
from pymongo.monitoring import CommandListener, register
from pymongo.read_concern import ReadConcern
from templates import Moment, Taken, Varying

from mastra_core.base.clock import SystemClock
from mastra_core.plugins.context import AdapterContext
from mastra_mongodb import MongoLease, MongoPubSub, MongoStorage

__all__ = ("PymongoDriver", "open_pymongo")

POOL = 32
OURS, PLAIN = "ours_", "plain_"

Document = dict[str, Any]

#: What a driver adds to each command by itself.
_ADDED = frozenset({"lsid", "$clusterTime", "$db", "txnNumber", "startTransaction", "autocommit"})
_CODEC: bson.codec_options.CodecOptions[Document] = bson.codec_options.CodecOptions(tz_aware=True)
_CAREFUL = WriteConcern(w="majority", j=True)
_LEFT_OUT = frozenset({"commitTransaction", "hello", "getMore", "ping"})


class Tape(CommandListener):
    """What was sent, while somebody listens."""

    def __init__(self) -> None:
        #: Commands, and the number of the transaction that each is part of.
        self.taken: list[tuple[int | None, Document]] | None = None

    def started(self, event: Any) -> None:
        """Keep it."""
        if self.taken is not None and event.command_name not in _LEFT_OUT:
            raw = {k: v for k, v in event.command.items() if k not in _ADDED}
            part_of = event.command.get("txnNumber") if "autocommit" in event.command else None
            # Not the very documents: the store may give them to the driver again.
            self.taken.append((part_of, bson.decode(bson.encode(raw), _CODEC)))

    def succeeded(self, event: Any) -> None:
        """Not of interest."""

    def failed(self, event: Any) -> None:
        """Not of interest."""


class PymongoDriver(Driver):
    """Collections of ours and collections of the plain driver in one database."""

    backend: ClassVar[str] = "mongodb"
    plain: ClassVar[str] = "pymongo"

    def __init__(self, tape: Tape, client: AsyncMongoClient[Document]) -> None:
        self._tape = tape
        self._client = client
        self._database = client.get_default_database()

    async def floors(self, call: Call, varying: Varying) -> Floors:
        began = SystemClock().now()
        self._tape.taken = []
        try:
            await call()
        finally:
            commands, self._tape.taken = self._tape.taken, None
        taken = Taken(began, varying)
        plans = [
            (part_of is not None, [(one, taken.maker(one)) for one in map(_plain, group)])
            for part_of, group in _grouped(commands)
        ]
        numbers = count(1)

        async def plainly() -> None:
            moment = Moment(next(numbers))
            for is_one, steps in plans:
                bound = [command if made is None else made(moment) for command, made in steps]
                if is_one:
                    async with (
                        self._client.start_session() as session,
                        await session.start_transaction(write_concern=_CAREFUL),
                    ):
                        for command in bound:
                            await self._send(command, session)
                else:
                    for command in bound:
                        await self._send(command, None)

        return Floors(plainly, plainly)

    async def _send(self, command: Document, session: Any) -> Any:
        """One command as anybody would give it to pymongo."""
        name, target = next(iter(command.items()))
        rows = self._database[target]
        if (concern := command.get("writeConcern")) is not None:
            rows = rows.with_options(
                write_concern=WriteConcern(w=concern.get("w", 1), j=concern.get("j"))
            )
        if (level := command.get("readConcern", {}).get("level")) is not None:
            rows = rows.with_options(read_concern=ReadConcern(level))
        match name:
            case "insert":
                # The driver adds ``_id`` to what it is given.
                documents = [dict(one) for one in command["documents"]]
                if len(documents) == 1:
                    return await rows.insert_one(documents[0], session=session)
                return await rows.insert_many(
                    documents, ordered=command.get("ordered", True), session=session
                )
            case "find":
                cursor = rows.find(
                    command.get("filter", {}),
                    command.get("projection"),
                    session=session,
                    limit=command.get("limit", 0),
                    sort=list(command["sort"].items()) if command.get("sort") else None,
                )
                return await cursor.to_list()
            case "aggregate":
                return await (await rows.aggregate(command["pipeline"], session=session)).to_list()
            case "findAndModify":
                return await rows.find_one_and_update(
                    command["query"],
                    command["update"],
                    session=session,
                    projection=command.get("fields"),
                    upsert=command.get("upsert", False),
                    return_document=command.get("new", False),
                    sort=list(command["sort"].items()) if command.get("sort") else None,
                )
            case "update":
                return await _update(rows, command, session)
            case _:
                raise NotImplementedError(name)

    @asynccontextmanager
    async def hearing(self) -> AsyncIterator[Call]:
        """An insert, and the change stream that tells of it."""
        rows = self._database["plain_heard"].with_options(
            # With less care a set of one shows its changes ten times a second.
            write_concern=_CAREFUL
        )
        seen, started = asyncio.Event(), asyncio.Event()

        async def watch() -> None:
            async with await rows.watch() as stream:
                started.set()
                async for _ in stream:
                    seen.set()

        async def write_and_hear() -> None:
            seen.clear()
            await rows.insert_one({"type": "x", "run_id": "r", "data": {"n": 1}})
            await seen.wait()

        watching = asyncio.create_task(watch())
        try:
            async with asyncio.timeout(20):
                await started.wait()
            yield write_and_hear
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def server_version(self) -> tuple[str, str]:
        return "MongoDB", str((await self._client.server_info())["version"])


async def _update(rows: Any, command: Document, session: Any) -> Any:
    updates = command["updates"]
    if len(updates) > 1:
        writes = [
            (UpdateMany if one.get("multi") else UpdateOne)(
                one["q"], one["u"], upsert=one.get("upsert", False)
            )
            for one in updates
        ]
        return await rows.bulk_write(writes, ordered=command.get("ordered", True), session=session)
    [one] = updates
    act = rows.update_many if one.get("multi") else rows.update_one
    return await act(one["q"], one["u"], upsert=one.get("upsert", False), session=session)


def _grouped(
    commands: Sequence[tuple[int | None, Document]],
) -> list[tuple[int | None, list[Document]]]:
    """Those of one transaction together."""
    return [
        (part_of, [command for _, command in group])
        for part_of, group in groupby(commands, key=lambda one: one[0])
    ]


def _plain(command: Document) -> Document:
    """A command as the plain driver sends it."""
    return _unguarded(_renamed(command))


def _renamed(value: Any) -> Any:
    """The same in the other collections, with keys that the driver makes anew."""
    match value:
        case str():
            return value.replace(OURS, PLAIN, 1) if value.startswith(OURS) else value
        case Mapping():
            return {
                name: _renamed(member)
                for name, member in value.items()
                if name != "_id" or not isinstance(member, bson.ObjectId)
            }
        case list():
            return [_renamed(member) for member in value]
        case _:
            return value


def _unguarded(command: Document) -> Document:
    """Without what ours saw before it writes; in the floor nobody else writes."""
    name, target = next(iter(command.items()))
    updates = command.get("updates")
    if name == "update" and updates and str(target).endswith("_claims"):
        free = [{**one, "q": {"_id": one["q"]["_id"]}} for one in updates if "_id" in one["q"]]
        return {**command, "updates": free or updates}
    return command


@asynccontextmanager
async def open_pymongo(url: str) -> AsyncIterator[PymongoDriver]:
    """Ours and the plain driver in one database."""
    tape = Tape()
    register(tape)
    ours = with_option(url, pool_size=POOL, prefix=OURS)
    plain = with_option(url, pool_size=POOL, prefix=PLAIN)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        context = AdapterContext()
        driver = PymongoDriver(
            tape, await enter(AsyncMongoClient(url, maxPoolSize=POOL, tz_aware=True))
        )
        driver.store_url = driver.bus_url = ours
        driver.store = await enter(MongoStorage(ours, context))
        driver.other = await enter(MongoStorage(plain, AdapterContext()))
        async with MongoLease(plain, AdapterContext()) as lease:
            await lease.get_lease_owner("none")
        driver.bus = await enter(MongoPubSub(ours, context))
        driver.far_bus = await enter(MongoPubSub(ours, AdapterContext()))
        driver.lease = await enter(MongoLease(ours, context))
        await driver.lease.get_lease_owner("none")
        for each in (driver.store, driver.other):
            await each.dangerously_clear_all()
        yield driver
        for each in (driver.store, driver.other):
            await each.dangerously_clear_all()
