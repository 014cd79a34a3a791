"""What storage, bus and leases of one URL share: one pipelined connection, and facts about it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from inspect import signature
from typing import Final
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, RedisError, ResponseError

from mastra_core.errors import StorageSchemaError
from mastra_redis.errors import error_id
from mastra_redis.link import Link
from mastra_redis.scripts import Scripts
from mastra_redis.settings import ConnectionOptions

__all__ = ("MINIMUM_VERSION", "Server", "ServerFacts", "open_server", "place_of_url")

MINIMUM_VERSION: Final = (6, 2)
"""The first version with everything that the scripts need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What the server told about itself when it was connected."""

    version: str
    role: str
    mode: str
    #: Whether every write goes to a log, so that a crash loses a second at most.
    has_log: bool
    #: Whether snapshots are written at all.
    has_snapshots: bool
    max_memory: int
    eviction: str

    @property
    def may_evict(self) -> bool:
        """Whether the server throws data away when its memory is full."""
        return self.max_memory > 0 and self.eviction != "noeviction"

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each setting that a durable product shouldn't have."""
        found = []
        if not self.has_log and not self.has_snapshots:
            found.append("Nothing is written to disk: a restart loses everything (appendonly no).")
        elif not self.has_log:
            found.append("A crash loses what came since the last dump (appendonly no).")
        if self.may_evict:
            found.append(
                f"With maxmemory-policy {self.eviction} records vanish when memory is full; "
                "use noeviction."
            )
        if self.role != "master":
            found.append("This server is a replica: writes are refused.")
        return tuple(found)


class Server:
    """One server as the three roles see it."""

    def __init__(self, link: Link, pool: ConnectionPool, options: ConnectionOptions) -> None:
        self.link = link
        self.scripts: Scripts = Scripts(link)
        #: The URL without secrets, for messages.
        self.where: str = place_of_url(options.url)
        self.facts: ServerFacts = ServerFacts(
            version="", role="master", mode="standalone",
            has_log=True, has_snapshots=True, max_memory=0, eviction="noeviction",
        )  # fmt: skip
        self._pool = pool
        self._options = options
        self._dedicated: set[AbstractConnection] = set()

    async def look(self) -> None:
        """
        Ask the server what it is.

        Raises:
            StorageSchemaError: It is too old.
            RedisError: It doesn't answer, or refuses us.
        """
        try:
            text = await self.link.call("INFO", repeatable=True)
        except NoPermissionError:
            return  # it works without, but can't warn
        try:
            saves = await self.link.call("CONFIG", "GET", "save", repeatable=True)
        except ResponseError:
            saves = {b"save": b"?"}  # nobody says that there are none
        self.facts = _facts(text, has_snapshots=bool(saves.get(b"save")))
        found = _numbers(self.facts.version)
        if found and found < MINIMUM_VERSION:
            raise StorageSchemaError(
                f"Redis at {self.where} is version {self.facts.version}; "
                f"{'.'.join(map(str, MINIMUM_VERSION))} or later is needed.",
                id=error_id("init"),
                details={"version": self.facts.version},
            )

    @asynccontextmanager
    async def dedicated(self) -> AsyncIterator[AbstractConnection]:
        """A connection of one's own, for calls that wait at the server."""
        connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call] # the driver's
        self._dedicated.add(connection)
        try:
            async with asyncio.timeout(self._options.connect_timeout_ms / 1000):
                await connection.connect()  # type: ignore[no-untyped-call] # the driver's
            yield connection
        finally:
            self._dedicated.discard(connection)
            with suppress(RedisError, OSError, TimeoutError):
                await connection.disconnect(nowait=True)

    def held(self) -> dict[str, int]:
        """What is open right now."""
        return {
            "connections": int(not self.link.is_closed) + len(self._dedicated),
            "waiting_calls": self.link.waiting,
        }


@asynccontextmanager
async def open_server(options: ConnectionOptions) -> AsyncIterator[Server]:
    """
    Connect, for ``AdapterContext.share``.

    Raises:
        StorageSchemaError: The server is too old.
        RedisError, OSError: It can't be reached, or refuses us.
    """
    pool = ConnectionPool.from_url(options.driver_url, **_arguments(options))
    link = Link(
        pool.make_connection,
        connect_timeout_s=options.connect_timeout_ms / 1000,
        request_timeout_s=options.request_timeout_ms / 1000,
    )
    server = Server(link, pool, options)
    try:
        await link.open()
        await server.look()
        await server.scripts.load()
        yield server
    finally:
        await link.aclose()


def _arguments(options: ConnectionOptions) -> dict[str, object]:
    arguments: dict[str, object] = {
        "protocol": 3,
        "decode_responses": False,
        "socket_connect_timeout": options.connect_timeout_ms / 1000,
        # Deadlines are the link's: one call that waits must not end the connection of others.
        "socket_timeout": None,
        "retry": Retry(NoBackoff(), 0),
        "health_check_interval": 0,
        "client_name": options.client_name or None,
        "socket_keepalive": True,
    }
    if options.driver_url.startswith("unix"):
        del arguments["socket_keepalive"]
    arguments.update(_quiet_maintenance())
    return arguments


def _quiet_maintenance() -> dict[str, object]:
    """Newer drivers ask for notices of managed services, which plain servers don't have."""
    option = "maint_notifications_config"
    if option not in signature(AbstractConnection.__init__).parameters:
        return {}
    from redis.maint_notifications import MaintNotificationsConfig

    return {option: MaintNotificationsConfig(enabled=False)}


def _facts(text: bytes, *, has_snapshots: bool) -> ServerFacts:
    found = dict(re.findall(r"^(\w+):(.*?)\r?$", text.decode("utf-8", "replace"), re.MULTILINE))
    return ServerFacts(
        version=found.get("redis_version", ""),
        role=found.get("role", "master"),
        mode=found.get("redis_mode", "standalone"),
        has_log=found.get("aof_enabled", "0") == "1",
        has_snapshots=has_snapshots,
        max_memory=int(found.get("maxmemory", "0")),
        eviction=found.get("maxmemory_policy", "noeviction"),
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def place_of_url(url: str) -> str:
    """Host, port and database, or the socket; without user, password and query."""
    parts = urlsplit(url)
    if parts.hostname:
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.hostname}{port}{parts.path}"
    return parts.path
