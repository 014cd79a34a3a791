"""What the domains of one store share: the server, keys, clock, and changes in one step."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.errors import StorageConnectionError, StorageTimeoutError
from mastra_redis.errors import error_id, storage_errors
from mastra_redis.keys import Keys, escape_pattern, raw
from mastra_redis.link import Argument, Reply
from mastra_redis.pool import Server

__all__ = ("Command", "Host", "Outcome", "Recent", "Values", "digest", "time_of")

T = TypeVar("T")

Command = tuple[Argument, ...]
#: What the keys of a change hold; None for nothing.
Values = Sequence[bytes | None]

#: How often a change is tried anew after others were faster.
_TRIES = 200
#: Keys that one step of a walk through the database looks at.
_SCAN = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def digest(value: bytes | None) -> str:
    """How a script recognises the text of a key; empty for no key."""
    return "" if value is None else hashlib.sha1(value).hexdigest()  # noqa: S324 - Redis has no other


def time_of(reply: Reply) -> datetime:
    """The answer to ``TIME``, cut to milliseconds."""
    seconds, micros = int(reply[0]), int(reply[1])
    return _EPOCH + timedelta(seconds=seconds, milliseconds=micros // 1000)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What a change comes to: commands to run, and the result once they were run."""

    result: T
    commands: Sequence[Command] = ()
    #: What the looked-at keys hold afterwards, where it is known.
    after: Values | None = None


class Recent:
    """
    The texts of keys as this process saw them last, bounded in number and bytes.

    Only ever a guess that a script checks, so it may be stale.
    """

    def __init__(self, *, max_entries: int = 2_000, max_bytes: int = 8 * 1024 * 1024) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bytes = 0
        self._texts: OrderedDict[bytes, bytes | None] = OrderedDict()

    def __contains__(self, key: bytes) -> bool:
        return key in self._texts

    def get(self, key: bytes) -> bytes | None:
        """The last seen text; None if there was none, see ``in``."""
        value = self._texts[key]
        self._texts.move_to_end(key)
        return value

    def see(self, key: bytes, value: bytes | None) -> None:
        """Remember what a key holds."""
        self.forget(key)
        size = len(value or b"")
        if size > self._max_bytes // 4:
            return
        self._texts[key] = value
        self._bytes += size
        while len(self._texts) > self._max_entries or self._bytes > self._max_bytes:
            _, dropped = self._texts.popitem(last=False)
            self._bytes -= len(dropped or b"")

    def forget(self, key: bytes) -> None:
        """Remember nothing of a key."""
        self._bytes -= len(self._texts.pop(key, None) or b"")

    def clear(self) -> None:
        """Remember nothing."""
        self._texts.clear()
        self._bytes = 0


class Host:
    """The server as domains use it; closed and open again with its store."""

    def __init__(self, *, keys: Keys, clock: Clock, ids: Ids, where: str) -> None:
        self.keys = keys
        self.clock = clock
        self.ids = ids
        self.where = where
        self.name: str = "redis"
        self.recent: Recent = Recent()
        self._server: Server | None = None
        self._own = raw(ids.new("store"))
        self._places = 0
        self._turns: dict[bytes, tuple[asyncio.Lock, list[None]]] = {}

    def attach(self, server: Server | None) -> None:
        """Work with this server; None for a closed store."""
        self._server = server
        self.recent.clear()

    @property
    def is_open(self) -> bool:
        """Whether there is a server behind it."""
        return self._server is not None

    @property
    def server(self) -> Server:
        """
        The server.

        Raises:
            StorageConnectionError: The store is closed.
        """
        if self._server is None:
            raise StorageConnectionError(
                f"The store of {self.where} is closed, or was not opened yet.",
                id=error_id("open"),
                hint="Use it inside `async with`.",
            )
        return self._server

    # -- calls ---------------------------------------------------------------------------------

    async def read(self, operation: str, *command: Argument) -> Reply:
        """The reply to a command that changes nothing."""
        with storage_errors(operation, self.where):
            return await self.server.link.send(command, repeatable=True)

    async def read_all(self, operation: str, commands: Sequence[Command]) -> list[Reply]:
        """The replies to commands that change nothing and travel together."""
        with storage_errors(operation, self.where):
            return await self.server.link.call_all(commands, repeatable=True)

    async def write(self, operation: str, *command: Argument) -> Reply:
        """The reply to a command that changes something, sent once."""
        with storage_errors(operation, self.where):
            return await self.server.link.send(command)

    async def script(
        self,
        operation: str,
        name: str,
        keys: Sequence[Argument] = (),
        args: Sequence[Argument] = (),
        *,
        repeatable: bool = False,
        moves: Sequence[tuple[bytes, bytes]] = (),
        puts: Sequence[tuple[bytes, bytes]] = (),
    ) -> Reply:
        """The result of a script; see ``Scripts.run``."""
        with storage_errors(operation, self.where):
            return await self.server.scripts.run(
                name, keys, args, repeatable=repeatable, moves=moves, puts=puts
            )

    def new_place(self) -> bytes:
        """A key that nobody else uses, for what a transaction moves in place."""
        self._places += 1
        return b"%smastra_py_moving:%s:%d" % (self.keys.prefix, self._own, self._places)

    async def clear(self, operation: str, families: Sequence[bytes]) -> None:
        """Delete every key that begins with one of these; looks at the whole database."""
        cursor: Reply = 0
        pattern = escape_pattern(self.keys.prefix) + b"*"
        while True:
            cursor, found = await self.read(
                operation, "SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN
            )
            doomed = [key for key in found if key.startswith(tuple(families))]
            if doomed:
                await self.write(operation, "UNLINK", *doomed)
            if int(cursor) == 0:
                break
        self.recent.clear()

    async def values(self, operation: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """The texts of several keys."""
        if not keys:
            return []
        found: list[bytes | None] = []
        for first in range(0, len(keys), 4_000):
            found += await self.read(operation, "MGET", *keys[first : first + 4_000])
        return found

    async def now(self, operation: str) -> datetime:
        """The server's clock."""
        return time_of(await self.read(operation, "TIME"))

    # -- changes in one step -------------------------------------------------------------------

    async def commit(
        self, operation: str, keys: Sequence[bytes], seen: Values, commands: Sequence[Command]
    ) -> list[bytes | None] | None:
        """
        Run commands in one step, if the keys still hold what was seen.

        Returns:
            None if they were run; else what the keys hold now, and nothing was done.
        """
        args: list[Argument] = [digest(value) for value in seen]
        for command in commands:
            args.append(len(command))
            args += command
        answer = await self.script(operation, "commit", keys, args)
        return None if answer[0] == 1 else list(answer[1:])

    async def change(
        self,
        operation: str,
        keys: Sequence[bytes],
        compute: Callable[[Values], Outcome[T]],
    ) -> T:
        """
        Change keys by a rule, in one step: what the rule has seen is what is replaced.

        The first try goes by what this process saw last; the rule is called again with what
        the keys really hold until nobody comes between. What it decides without any command
        is decided on a fresh look, too.
        """
        async with self.turn(keys[0]):
            seen = self._guess(keys)
            is_guess = seen is not None
            if seen is None:
                seen = await self.values(operation, keys)
            for _ in range(_TRIES):
                outcome = compute(seen)
                if not outcome.commands:
                    if not is_guess:
                        return outcome.result
                    seen, is_guess = await self.values(operation, keys), False
                    continue
                found = await self.commit(operation, keys, seen, outcome.commands)
                if found is None:
                    self._saw(keys, outcome.after)
                    return outcome.result
                seen, is_guess = found, False
        raise StorageTimeoutError(
            f"Others changed the same record of {self.where} {_TRIES} times during {operation}.",
            id=error_id(operation),
        )

    def _guess(self, keys: Sequence[bytes]) -> Values | None:
        if all(key in self.recent for key in keys):
            return [self.recent.get(key) for key in keys]
        return None

    def _saw(self, keys: Sequence[bytes], after: Values | None) -> None:
        for place, key in enumerate(keys):
            if after is None:
                self.recent.forget(key)
            else:
                self.recent.see(key, after[place])

    @asynccontextmanager
    async def turn(self, key: bytes) -> AsyncIterator[None]:
        """One task of this process at a time, so that tasks don't compete at the server."""
        lock, users = self._turns.setdefault(key, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                self._turns.pop(key, None)
