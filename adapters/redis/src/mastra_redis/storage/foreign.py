"""Keys of records that others write without our indexes (perf.md, lever 8).

The server tells us of every key of a family that another connection changes (client tracking,
broadcasting mode), before it answers whatever we ask after that change. So a list knows whether
it may be incomplete, and then only the changed keys are looked at. All keys of the family are
looked at once per connection, with its first list, since nobody told us what happened before.
A server or user that doesn't allow tracking costs that look with every list.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from redis.exceptions import ResponseError

from mastra_redis.keys import escape_pattern
from mastra_redis.pool import Server
from mastra_redis.storage.host import Host

__all__ = ("ForeignKeys",)

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: So many changed keys are remembered one by one; with more, all are looked at.
_MAX_KEYS: Final = 50_000
_BATCH: Final = 500
#: How often a read is repeated while others write; then it is as fresh as it can be.
_TRIES: Final = 5
_SCAN: Final = 2_000


class ForeignKeys:
    """
    News of one family of keys.

    Args:
        host: The store.
        family: What all its keys begin with.
        check: Looks at keys, given without that beginning, and puts the index right.
    """

    def __init__(
        self, host: Host, family: bytes, check: Callable[[Sequence[bytes]], Awaitable[None]]
    ) -> None:
        self._host = host
        self._family = family
        self._check = check
        self._keys: set[bytes] = set()
        self._all = False
        self._is_deaf = False
        self._settling = asyncio.Lock()
        self._server: Server | None = None

    @property
    def is_on(self) -> bool:
        """Whether others may write at all."""
        return self._server is not None

    @property
    def is_dirty(self) -> bool:
        """Whether a list may be incomplete."""
        return self._all or self._is_deaf or bool(self._keys)

    async def start(self, server: Server) -> None:
        """Hear of changes from now on."""
        self._server, self._all = server, True
        try:
            await server.link.track([self._family], self._changed)
        except ResponseError as exc:
            self._is_deaf = True
            logger.warning(
                "the server doesn't tell of changed keys; lists look at all of them",
                extra={"server": server.where, "error": str(exc)},
            )
        else:
            server.link.on_reconnect(self._reconnected)

    def stop(self) -> None:
        """Hear nothing more."""
        server, self._server = self._server, None
        self._all = self._is_deaf = False
        self._keys.clear()
        if server is not None:
            server.link.untrack([self._family])
            server.link.off_reconnect(self._reconnected)

    def has_news_of(self, beginning: bytes) -> bool:
        """Whether a key that begins so was changed by somebody else."""
        return self._all or any(key.startswith(beginning) for key in self._keys)

    async def settle(self, operation: str) -> None:
        """Look at everything that others may have changed until now."""
        if not self.is_dirty or self._server is None:
            return
        async with self._settling:
            if self._all or self._is_deaf:
                await self._look_at_all(operation)
            while self._keys:
                keys = [self._keys.pop() for _ in range(min(_BATCH, len(self._keys)))]
                await self._look_at(keys)

    async def fresh(self, operation: str, read: Callable[[], Awaitable[T]]) -> T:
        """
        What a read gives when everything is indexed that others wrote before it began.

        Their changes are told before the read is answered, so usually it is done once.
        """
        tries = _TRIES
        while True:
            await self.settle(operation)
            answer = await read()
            tries -= 1
            if not tries or not self.is_dirty or self._is_deaf:
                return answer

    async def _look_at_all(self, operation: str) -> None:
        self._keys.clear()
        self._all = False
        try:
            cursor, found = await self._scan(operation, 0)
            while int(cursor):
                # The next names are on their way while these are looked at.
                (cursor, more), _ = await asyncio.gather(
                    self._scan(operation, cursor), self._look_at(found)
                )
                found = more
            await self._look_at(found)
        except BaseException:
            self._all = True
            raise

    async def _scan(self, operation: str, cursor: bytes | int) -> tuple[bytes, list[bytes]]:
        """Some names of the family, without what they begin with, and where to go on."""
        pattern = escape_pattern(self._family) + b"*"
        after, found = await self._host.read(
            operation, "SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN
        )
        return after, [key[len(self._family) :] for key in found]

    async def _look_at(self, keys: Sequence[bytes]) -> None:
        if not keys:
            return
        try:
            await self._check(keys)
        except BaseException:
            self._keys.update(keys)
            raise

    def _changed(self, key: bytes | None) -> None:
        if key is None or len(self._keys) >= _MAX_KEYS:
            self._all = True
            self._keys.clear()
        elif not self._all:
            self._keys.add(key[len(self._family) :])

    def _reconnected(self) -> None:
        self._all = True
