"""``redis`` with hiredis as anybody would use it: a command, a reply, a connection per task."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from typing import Any, ClassVar

from driver import Driver, Floors
from driver_psycopg import with_option
from harness import Call
from pydantic_core import from_json
from redis.asyncio import Redis
from templates import Moment, Taken, Varying

from mastra_core.base.clock import SystemClock
from mastra_core.plugins.context import AdapterContext
from mastra_redis import RedisLease, RedisPubSub, RedisStorage

__all__ = ("Argument", "RedisDriver", "observed", "open_redis")

OURS, PLAIN = "ours:", "plain:"

Argument = bytes | str | int | float

#: What ours saw before it writes; in the floor nobody else writes.
_VERSION = re.compile(rb"@\d+:.+")


class RedisDriver(Driver):
    """Keys of ours and keys of the plain driver in one database."""

    backend: ClassVar[str] = "redis"
    plain: ClassVar[str] = "redis-py"

    def __init__(self, client: Any, pool: Any) -> None:
        #: One connection for one caller; for many as many as they want.
        self._client = client
        self._pool = pool

    async def floors(self, call: Call, varying: Varying) -> Floors:
        began = SystemClock().now()
        commands = await observed(self.store, call)
        taken = Taken(began, varying)
        plans = [
            (command, taken.maker(command)) for command in map(_on_plain, _sent_by_us(commands))
        ]
        numbers = count(1)

        def plainly(client: Any) -> Call:
            async def run() -> list[Any]:
                moment = Moment(next(numbers))
                bound = [command if made is None else made(moment) for command, made in plans]
                if bound[0][0] == "MULTI":
                    async with client.pipeline(transaction=True) as pipeline:
                        for command in bound[1:-1]:
                            pipeline.execute_command(*command)
                        # A move without a source is none.
                        return _read(await pipeline.execute(raise_on_error=False))
                return [_read(await client.execute_command(*command)) for command in bound]

            return run

        return Floors(plainly(self._client), plainly(self._pool))

    @asynccontextmanager
    async def hearing(self) -> AsyncIterator[Call]:
        """``XADD``, and a reader that waits for it on another connection."""
        seen, key = asyncio.Event(), "plain:heard"
        await self._client.delete(key)

        async def listen() -> None:
            after: Any = "0-0"
            while True:
                found = await self._pool.xread({key: after}, count=100, block=1_000)
                if found:
                    streams = found.values() if isinstance(found, dict) else [s for _, s in found]
                    after = next(iter(streams))[-1]
                    after = after[-1][0] if isinstance(after, list) else after[0]
                    seen.set()

        async def write_and_hear() -> None:
            seen.clear()
            await self._client.xadd(key, {"event": '{"n": 1}'}, maxlen=10_000, approximate=True)
            await seen.wait()

        listening = asyncio.create_task(listen())
        try:
            yield write_and_hear
        finally:
            listening.cancel()
            # The driver may make a timeout of it.
            await asyncio.gather(listening, return_exceptions=True)

    async def server_version(self) -> tuple[str, str]:
        return "Redis", str((await self._client.info("server"))["redis_version"])


async def observed(store: Any, call: Call) -> list[tuple[Argument, ...]]:
    """The commands of one call, in their order."""
    commands: list[tuple[Argument, ...]] = []
    store.observe(commands.append)
    try:
        await call()
    finally:
        store.observe(None)
    return commands


def _sent_by_us(commands: list[tuple[Argument, ...]]) -> list[list[Argument]]:
    return [list(command) for command in commands]


def _on_plain(command: list[Argument]) -> list[Argument]:
    """The same on the keys of the plain driver."""
    moved: list[Argument] = []
    for one in command:
        match one:
            case str():
                moved.append(one.replace(OURS, PLAIN))
            case bytes() if _VERSION.fullmatch(one):
                moved.append(b"*")
            case bytes():
                moved.append(one.replace(OURS.encode(), PLAIN.encode()))
            case _:
                moved.append(one)
    return moved


def _read(reply: Any) -> Any:
    """A reply with its documents read."""
    match reply:
        case bytes() if reply[:1] in {b"{", b"["}:
            with suppress(ValueError):
                return from_json(reply)
            return reply
        case list():
            return [_read(one) for one in reply]
        case _:
            return reply


@asynccontextmanager
async def open_redis(url: str) -> AsyncIterator[RedisDriver]:
    """Ours and the plain driver in one database."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        context = AdapterContext()
        client = await enter(Redis.from_url(url, single_connection_client=True))
        pool = await enter(Redis.from_url(url))
        driver = RedisDriver(client, pool)
        driver.store_url = with_option(url, prefix=OURS)
        driver.store = await enter(RedisStorage(driver.store_url, context))
        driver.other = await enter(RedisStorage(with_option(url, prefix=PLAIN), AdapterContext()))
        driver.bus_url = keys = with_option(url, key_prefix=f"{OURS}topic")
        driver.bus = await enter(RedisPubSub(keys, context))
        driver.far_bus = await enter(RedisPubSub(keys, AdapterContext()))
        driver.lease = await enter(RedisLease(keys, context))
        for each in (driver.store, driver.other):
            await each.dangerously_clear_all()
        yield driver
        for each in (driver.store, driver.other):
            await each.dangerously_clear_all()
