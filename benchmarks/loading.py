"""
Fill a database with many rows, quickly: in the form that ours writes, through the raw driver.

One notification, one suspended run and one message are written by ours. What they left behind –
rows, documents or commands, those of side tables and indexes included – is a pattern: with other
ids, threads, agents and times for each number it is written again as often as wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import bson
import psycopg
from contents import NOW, event, message, suspended
from driver_apsw import connected
from driver_psycopg import with_option
from driver_redis import observed
from hiredis import pack_command
from psycopg import sql
from psycopg.types.string import TextLoader
from pymongo import AsyncMongoClient
from redis.asyncio import Redis

from mastra_core.base.isotime import parse_iso, to_iso_ms
from mastra_libsql import LibSQLStorage
from mastra_mongodb import MongoStorage
from mastra_postgres import PostgresStorage
from mastra_redis import RedisStorage

__all__ = ("GROUP", "SECOND_S", "Open", "filled", "refilled")

#: About so many rows belong to each thread and each agent.
GROUP = 50
#: Every row is so much younger than the one before.
SECOND_S = 1

_THREAD, _AGENT, _ROW = "thread-T", "agent-A", "row-N"
_PIECES = re.compile(
    rf"({_THREAD}|{_AGENT}|{_ROW}|\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z|\b1[789]\d{{11}}\b)"
)
_ISO_LENGTH = len("2026-01-01T00:00:00.000Z")

Maker = Callable[[int], Any]
Open = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens the store that was filled."""


async def filled(backend: str, url: str, rows: int) -> Open:
    """
    A database with so many rows in each of three tables.

    Args:
        backend: As the goals name it.
        url: The server, or the folder of files.
        rows: How many.
    """
    return await _LOADERS[backend](url, rows)


async def refilled(backend: str, url: str, rows: int) -> None:
    """The same with what somebody else wrote as the sample, in tables without a prefix."""
    await _COPIERS[backend](url, "", rows)


async def _write_one(store: Any) -> None:
    """What everything else is made of."""
    await store.notifications.create_notification(event(_THREAD, id=_ROW, deliver_at=NOW))
    await store.workflows.persist_workflow_snapshot(
        workflow_name="agentic-loop",
        run_id=_ROW,
        snapshot=suspended(_AGENT, _THREAD, kilobytes=0),
        created_at=NOW,
    )
    await store.memory.save_messages([message(_THREAD).replace(id=_ROW, created_at=NOW)])


# -- patterns -----------------------------------------------------------------------------------


class Pattern:
    """Makes values for a number out of what was written for the sample."""

    def __init__(self, rows: int) -> None:
        self._groups = max(10, rows // GROUP)

    def maker(self, value: Any) -> Maker | None:
        """How the value is made for a number; None if it is always the same."""
        match value:
            case str():
                return self._text(value)
            case bytes():
                inner = self._text(value.decode("utf-8", "surrogateescape"))
                return inner and (lambda n: inner(n).encode("utf-8", "surrogateescape"))
            case datetime():
                return lambda n: value + timedelta(seconds=n * SECOND_S)
            case bool():
                return None
            case int() | float() if 1.7e12 < value < 2e12:
                return lambda n: value + n * SECOND_S * 1000
            case dict():
                return self._mapping(value)
            case list() | tuple():
                makers = [self.maker(one) for one in value]
                if not any(makers):
                    return None
                parts = list(zip(value, makers, strict=True))
                return lambda n: [one if made is None else made(n) for one, made in parts]
            case _:
                return None

    def has_mark(self, value: Any) -> bool:
        """Whether it belongs to the sample."""
        return any(mark in str(value) for mark in (_THREAD, _AGENT, _ROW))

    def _mapping(self, value: dict[str, Any]) -> Maker | None:
        makers = {name: made for name, one in value.items() if (made := self.maker(one))}
        if not makers:
            return None
        return lambda n: {**value, **{name: made(n) for name, made in makers.items()}}

    def _text(self, value: str) -> Maker | None:
        pieces = _PIECES.split(value)
        if len(pieces) == 1:
            return None
        makers = [self._piece(piece) for piece in pieces[1::2]]

        def made(number: int) -> str:
            own = list(pieces)
            own[1::2] = [make(number) for make in makers]
            return "".join(own)

        return made

    def _piece(self, piece: str) -> Callable[[int], str]:
        groups = self._groups
        if piece == _THREAD:
            return lambda n: f"thread{n % groups}"
        if piece == _AGENT:
            return lambda n: f"agent{n % groups}"
        if piece == _ROW:
            return lambda n: f"row{n}"
        if len(piece) == _ISO_LENGTH:
            start = parse_iso(piece)
            return lambda n: to_iso_ms(start + timedelta(seconds=n * SECOND_S))
        return lambda n: str(int(piece) + n * SECOND_S * 1000)


def _made(value: Any, maker: Maker | None, rows: int) -> Iterator[Any]:
    """The value for each number."""
    return (value if maker is None else maker(number) for number in range(rows))


# -- databases ----------------------------------------------------------------------------------


async def _fill_libsql(url: str, rows: int) -> Open:
    path = Path(url.removeprefix("file:")) / f"rows{rows}.db"
    address = f"file:{path}"
    async with LibSQLStorage(address) as store:
        await _write_one(store)
    await _copy_libsql(address, "", rows)
    return lambda: LibSQLStorage(address)


async def _copy_libsql(url: str, prefix: str, rows: int) -> None:
    del prefix
    pattern = Pattern(rows)
    with connected(Path(url.removeprefix("file:"))) as connection:
        # Else pages of the indexes are written and read again and again.
        connection.execute("PRAGMA cache_size = -1000000")
        names = "SELECT name FROM sqlite_master WHERE type = 'table'"
        for (table,) in connection.execute(names).fetchall():
            columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            kinds = ", ".join(f'typeof("{one}")' for one in columns)
            for found in connection.execute(f'SELECT rowid, {kinds} FROM "{table}"').fetchall():
                key, *types = found
                is_blob = [kind == "blob" for kind in types]
                read = ", ".join(
                    f'json("{c}")' if blob else f'"{c}"'
                    for c, blob in zip(columns, is_blob, strict=True)
                )
                [sample] = connection.execute(
                    f'SELECT {read} FROM "{table}" WHERE rowid = ?', (key,)
                ).fetchall()
                if not pattern.has_mark(sample):
                    continue
                connection.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (key,))
                places = ", ".join("jsonb(?)" if blob else "?" for blob in is_blob)
                made = _made(list(sample), pattern.maker(list(sample)), rows)
                with connection:
                    connection.executemany(f'INSERT INTO "{table}" VALUES ({places})', made)


async def _fill_postgres(url: str, rows: int) -> Open:
    prefix = f"rows{rows}_"
    address = with_option(url, prefix=prefix)
    async with PostgresStorage(address) as store:
        await store.dangerously_clear_all()
        await _write_one(store)
    await _copy_postgres(url, prefix, rows)
    return lambda: PostgresStorage(address)


async def _copy_postgres(url: str, prefix: str, rows: int) -> None:
    pattern = Pattern(rows)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for name in ("json", "jsonb"):
            connection.adapters.register_loader(name, TextLoader)
        tables = await connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' "
            "AND starts_with(tablename, %s)",
            (prefix or "mastra_",),
        )
        for (table,) in await tables.fetchall():
            name = sql.Identifier(table)
            cursor = await connection.execute(sql.SQL("SELECT * FROM {}").format(name))
            found = await cursor.fetchall()
            columns = [sql.Identifier(one.name) for one in cursor.description or ()]
            samples = [list(row) for row in found if pattern.has_mark(row)]
            if samples:
                await connection.execute(sql.SQL("TRUNCATE {}").format(name))
            for sample in samples:
                copy = sql.SQL("COPY {} ({}) FROM STDIN").format(name, sql.SQL(", ").join(columns))
                async with connection.cursor().copy(copy) as rows_of:
                    for row in _made(sample, pattern.maker(sample), rows):
                        await rows_of.write_row(row)
            await connection.execute(sql.SQL("VACUUM ANALYZE {}").format(name))


async def _fill_mongodb(url: str, rows: int) -> Open:
    prefix = f"rows{rows}_"
    address = with_option(url, prefix=prefix)
    async with MongoStorage(address) as store:
        await store.dangerously_clear_all()
        await _write_one(store)
    await _copy_mongodb(url, prefix, rows)
    return lambda: MongoStorage(address)


async def _copy_mongodb(url: str, prefix: str, rows: int) -> None:
    pattern = Pattern(rows)
    async with AsyncMongoClient(url, tz_aware=True, w=1) as client:
        database = client.get_default_database()
        for name in await database.list_collection_names():
            if not name.startswith(prefix):
                continue
            found = await database[name].find({}).to_list()
            for sample in [one for one in found if pattern.has_mark(one)]:
                await database[name].delete_one({"_id": sample["_id"]})
                if isinstance(sample["_id"], bson.ObjectId):
                    del sample["_id"]
                made = _made(sample, pattern.maker(sample), rows)
                while batch := [dict(one) for one in islice(made, 5_000)]:
                    await database[name].insert_many(batch, ordered=False)


async def _fill_redis(url: str, rows: int) -> Open:
    address = with_option(url, prefix=f"rows{rows}:")
    async with RedisStorage(address) as store:
        await store.dangerously_clear_all()
        # What a first call has to ask besides isn't a part of every row.
        await _write_one(store)
        await store.dangerously_clear_all()
        commands = await observed(store, lambda: _write_one(store))
        await store.dangerously_clear_all()
    await _send_often(url, [list(one) for one in commands], rows)
    return lambda: RedisStorage(address)


async def _copy_redis(url: str, prefix: str, rows: int) -> None:
    """Records of others are texts under keys; there is nothing besides."""
    pattern = Pattern(rows)
    commands: list[list[Any]] = []
    async with Redis.from_url(url) as client:
        for key in [key async for key in client.scan_iter(f"{prefix}*")]:
            if pattern.has_mark(key) and await client.type(key) == b"string":
                commands.append(["SET", key, await client.get(key)])
                await client.delete(key)
    await _send_often(url, commands, rows)


async def _send_often(url: str, commands: Sequence[list[Any]], rows: int) -> None:
    """The commands again and again, many in one go."""
    pattern = Pattern(rows)
    plans = [(one, pattern.maker(one)) for one in commands]
    async with Redis.from_url(url, single_connection_client=True) as client:
        await client.ping()
        connection = client.connection
        assert connection is not None
        for start in range(0, rows, 200):
            numbers = range(start, min(rows, start + 200))
            packed = [
                pack_command(tuple(command if made is None else made(number)))
                for number in numbers
                for command, made in plans
            ]
            await connection.send_packed_command(b"".join(packed))
            for _ in packed:
                await connection.read_response()


_LOADERS = {
    "libsql file": _fill_libsql,
    "postgres": _fill_postgres,
    "mongodb": _fill_mongodb,
    "redis": _fill_redis,
}
_COPIERS = {
    "libsql file": _copy_libsql,
    "postgres": _copy_postgres,
    "mongodb": _copy_mongodb,
    "redis": _copy_redis,
}
