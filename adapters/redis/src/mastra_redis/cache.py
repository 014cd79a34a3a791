"""The server cache of ``CachingPubSub`` in Redis, shared with Node (pubsub_and_lease.md 9.4)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

from mastra_core.base import jsonjs
from mastra_core.bus.cache import Indexed
from mastra_core.errors import PubSubClosedError
from mastra_core.plugins.context import AdapterContext
from mastra_redis.errors import pubsub_errors
from mastra_redis.keys import escape_pattern, raw
from mastra_redis.link import Argument
from mastra_redis.pool import Server, open_server, place_of_url
from mastra_redis.settings import RedisLeaseSettings

__all__ = ("RedisCache",)

_TTL_MS: Final = 300_000
_SCAN: Final = 1_000


class RedisCache:
    """
    Lists and values that expire; implements ``bus.cache.ServerCache``. Opens with the first call.

    Example::

        cache = RedisCache("redis://localhost:6379/0")
        bus = CachingPubSub(RedisPubSub("redis://localhost:6379/0"), cache)

    Args:
        url: The server.
        context: What storage, pubsub, lease and cache of one URL share.
        key_prefix: Stands before every key; both sides must agree on it.
        ttl_ms: Time of a key without one of its own; 0 and less is for ever.
    """

    def __init__(
        self,
        url: str,
        context: AdapterContext | None = None,
        *,
        key_prefix: str = "mastra:cache:",
        ttl_ms: int = _TTL_MS,
    ) -> None:
        self._settings = RedisLeaseSettings(url=url)
        self._context = context or AdapterContext()
        namespace = f"{self._context.namespace}:" if self._context.namespace else ""
        self._prefix = raw(namespace + key_prefix)
        self._ttl_ms = ttl_ms
        self._where = place_of_url(self._settings.url)
        self._server: Server | None = None
        self._opened: AsyncExitStack | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False

    # -- values --------------------------------------------------------------------------------

    async def get(self, key: str) -> Any:
        """The value; None if there is none."""
        found = await self._call("GET", self._key(key), repeatable=True)
        return None if found is None else jsonjs.decode(found)

    async def set(self, key: str, value: Any, ttl_ms: int | None = None) -> None:
        """Keep a value; a time of 0 and less is for ever, None the default."""
        time_ms = self._ttl_ms if ttl_ms is None else ttl_ms
        expiry: tuple[Argument, ...] = ("PX", time_ms) if time_ms > 0 else ()
        text = jsonjs.encode_bytes(value, lenient=True)
        await self._call("SET", self._key(key), text, *expiry, repeatable=True)

    async def increment(self, key: str) -> int:
        """Count; the first call gives 1."""
        count, *_ = await self._all(("INCR", self._key(key)), *self._refresh(key))
        return int(count)

    # -- lists ---------------------------------------------------------------------------------

    async def list_length(self, key: str) -> int:
        """How many elements; 0 if there is no list."""
        return int(await self._call("LLEN", self._key(key), repeatable=True))

    async def list_push(self, key: str, value: Any) -> None:
        """Add to the end, and start the time of the list anew."""
        text = jsonjs.encode_bytes(value, lenient=True)
        await self._all(("RPUSH", self._key(key), text), *self._refresh(key))

    async def list_push_indexed(
        self, key: str, counter_key: str, value: Mapping[str, Any], *, max_entries: int
    ) -> Indexed:
        """Count and add in one step, with ``index`` as the first member of the element."""
        server = await self._ready()
        text = jsonjs.encode_bytes(dict(value), lenient=True)
        seconds = math.ceil(self._ttl_ms / 1000) if self._ttl_ms > 0 else 0
        with pubsub_errors("list_push_indexed", self._where):
            index, epoch = await server.scripts.run(
                "cache_push",
                [self._key(key), self._key(counter_key), self._key(f"{counter_key}:epoch")],
                [text, seconds, max_entries],
            )
        return Indexed(int(index), int(epoch))

    async def list_from_to(self, key: str, start: int, end: int = -1) -> list[Any]:
        """Elements by place, both ends included; negative places count from the end."""
        found = await self._call("LRANGE", self._key(key), start, end, repeatable=True)
        return [jsonjs.decode(text) for text in found]

    async def list_remove(self, key: str, value: Any) -> int:
        """Remove all elements that equal the value; how many there were."""
        found = await self._call("LRANGE", self._key(key), 0, -1, repeatable=True)
        equal = {text for text in found if jsonjs.decode(text) == value}
        gone = [await self._call("LREM", self._key(key), 0, text) for text in equal]
        return sum(map(int, gone))

    async def delete(self, key: str) -> None:
        """Forget a key."""
        await self._call("DEL", self._key(key), repeatable=True)

    async def clear(self) -> None:
        """Forget all."""
        pattern = escape_pattern(self._prefix) + b"*"
        cursor: Any = 0
        while True:
            cursor, found = await self._call(
                "SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN, repeatable=True
            )
            if found:
                await self._call("UNLINK", *found, repeatable=True)
            if int(cursor) == 0:
                return

    # -- life ----------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Let go of the server; idempotent."""
        self._is_closed = True
        self._server = None
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    async def __aenter__(self) -> Self:
        await self._ready()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _ready(self) -> Server:
        if self._is_closed:
            raise PubSubClosedError("The cache is closed.")
        async with self._opening:
            if self._server is None:
                async with AsyncExitStack() as stack:
                    share = self._context.share(
                        self._settings.connection_key(), lambda: open_server(self._settings)
                    )
                    with pubsub_errors("open", self._where):
                        self._server = await stack.enter_async_context(share)
                    self._opened = stack.pop_all()
        return self._server

    def _key(self, key: str) -> bytes:
        return self._prefix + raw(key)

    def _refresh(self, key: str) -> list[tuple[Argument, ...]]:
        return [("PEXPIRE", self._key(key), self._ttl_ms)] if self._ttl_ms > 0 else []

    async def _call(self, *command: Argument, repeatable: bool = False) -> Any:
        server = await self._ready()
        with pubsub_errors(f"cache {command[0]!s}", self._where):
            return await server.link.send(command, repeatable=repeatable)

    async def _all(self, *commands: tuple[Argument, ...]) -> list[Any]:
        server = await self._ready()
        with pubsub_errors("cache", self._where):
            return await server.link.call_all(commands)
