"""``RedisStorage``: the six domains in one Redis database."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from mastra_core.base.blocks import OpenInBlocks
from mastra_core.contracts.storage.health import StoreHealth
from mastra_core.errors import DegradedWarning
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import MigrationPlan, not_migrated
from mastra_redis import migrate
from mastra_redis.capabilities import STORAGE_CAPABILITIES
from mastra_redis.errors import error_id, storage_errors
from mastra_redis.health import look_at
from mastra_redis.keys import Keys, text
from mastra_redis.link import Argument
from mastra_redis.pool import Server, ServerFacts, open_server, place_of_url
from mastra_redis.settings import RedisSettings
from mastra_redis.storage.background_tasks import RedisBackgroundTasks
from mastra_redis.storage.host import Host
from mastra_redis.storage.memory import RedisMemory
from mastra_redis.storage.notifications import RedisNotifications
from mastra_redis.storage.run_foreign import ForeignRuns
from mastra_redis.storage.schedules import RedisSchedules
from mastra_redis.storage.thread_state import RedisThreadState
from mastra_redis.storage.workflows import RedisWorkflows

__all__ = ("RedisStorage", "StoreFacts")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """What is known about an open store, for ``doctor`` and people."""

    database: str
    server: ServerFacts
    schema_version: int
    #: Keys of the whole database, ours or not.
    keys: int
    used_memory: int
    #: One sentence for each setting that a durable product shouldn't have.
    warnings: tuple[str, ...]


class RedisStorage(OpenInBlocks):
    """
    Storage in a Redis database.

    Example::

        async with RedisStorage("redis://localhost:6379/0") as store:
            await store.memory.list_threads()

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    name: ClassVar[str] = "redis"

    def __init__(
        self,
        settings: RedisSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = RedisSettings(url=settings, **options)
        context = context or AdapterContext()
        _ = settings.driver_url  # refuses a URL that is none of ours
        self.settings: RedisSettings = settings
        self.capabilities: frozenset[str] = STORAGE_CAPABILITIES
        self.volatile: bool = False
        self._context = context
        namespace = f"{context.namespace}:" if context.namespace else ""
        keys = Keys(settings.prefix or namespace)
        self._host = Host(
            keys=keys, clock=context.clock, ids=context.ids, where=place_of_url(settings.url)
        )
        #: What is shared with other users of the server, while the store is open.
        self._opened: AsyncExitStack | None = None
        self._foreign_runs = ForeignRuns(self._host)
        self._memory = RedisMemory(self._host)
        self._workflows = RedisWorkflows(
            self._host, max_bytes=settings.max_snapshot_bytes, foreign=self._foreign_runs
        )
        self._notifications = RedisNotifications(self._host)
        self._thread_state = RedisThreadState(self._host)
        self._background_tasks = RedisBackgroundTasks(self._host)
        self._schedules = RedisSchedules(self._host)

    # -- domains ---------------------------------------------------------------------------

    @property
    def memory(self) -> RedisMemory:
        """Threads, messages, resources."""
        return self._memory

    @property
    def workflows(self) -> RedisWorkflows:
        """Snapshots of runs."""
        return self._workflows

    @property
    def notifications(self) -> RedisNotifications:
        """The inbox."""
        return self._notifications

    @property
    def thread_state(self) -> RedisThreadState:
        """Small values of threads."""
        return self._thread_state

    @property
    def background_tasks(self) -> RedisBackgroundTasks:
        """Detached tool calls."""
        return self._background_tasks

    @property
    def schedules(self) -> RedisSchedules:
        """Timers."""
        return self._schedules

    # -- life ------------------------------------------------------------------------------

    async def init(self) -> None:
        """
        Connect, and write down the version of our additions, unless told not to.

        Raises:
            StorageSchemaError: The server is too old, the database too new, or something is
                missing and ``disable_init`` is set.
            StorageError: The server can't be used.
        """
        if self._opened is not None:
            return
        async with AsyncExitStack() as stack:
            server = await self._connect(stack)
            self._host.attach(server)
            try:
                await self._migrate()
                if self.settings.mixed_fleet:
                    await self._foreign_runs.start(server)
                    await self._memory.foreign.start(server)
            except BaseException:
                self._detach()
                raise
            self._opened = stack.pop_all()
        if server.facts.may_evict:
            warnings.warn(
                f"Redis at {server.where} may evict records when its memory is full: "
                f"maxmemory-policy is {server.facts.eviction}, not noeviction.",
                DegradedWarning,
                stacklevel=2,
            )

    async def _connect(self, stack: AsyncExitStack) -> Server:
        share = self._context.share(
            self.settings.connection_key(), lambda: open_server(self.settings)
        )
        with storage_errors("open", self._host.where):
            return await stack.enter_async_context(share)

    async def _migrate(self) -> None:
        found = await migrate.plan(self._host)
        if found and self.settings.disable_init:
            if self.settings.allow_unprepared:
                return
            raise not_migrated(self._host.where, found.statements, error_id=error_id("init"))
        if found:
            await migrate.migrate(self._host)

    def _detach(self) -> None:
        self._foreign_runs.stop()
        self._memory.foreign.stop()
        self._host.attach(None)

    async def aclose(self) -> None:
        """Let go of the server; every later call raises."""
        opened, self._opened = self._opened, None
        self._detach()
        if opened is not None:
            await opened.aclose()

    # -- administration --------------------------------------------------------------------

    async def plan_migration(self) -> MigrationPlan:
        """
        What ``init`` would do to the database right now; nothing is changed.

        Connects for the moment if the store isn't open.

        Raises:
            StorageSchemaError: The database is newer than this version.
        """
        async with self._ajar():
            return await migrate.plan(self._host)

    @asynccontextmanager
    async def _ajar(self) -> AsyncIterator[None]:
        """The server for one look, also if the store isn't open."""
        if self._host.is_open:
            yield
            return
        async with AsyncExitStack() as stack:
            self._host.attach(await self._connect(stack))
            try:
                yield
            finally:
                self._host.attach(None)

    def export_ddl(self) -> str:
        """What an empty database needs, for ``redis-cli``; Redis has no tables."""
        return f"{migrate.statement(self._host)}\n"

    async def check_integrity(self) -> Sequence[str] | None:
        """None: a server keeps its own files."""
        return None

    def open_resources(self) -> Mapping[str, int]:
        """What the store holds open right now, by kind; looks at nothing but itself."""
        if not self._host.is_open:
            return {"connections": 0, "waiting_calls": 0}
        return self._host.server.held()

    async def server_info(self) -> dict[str, str]:
        """Product and version of the server."""
        return {"product": "Redis", "version": self._host.server.facts.version}

    async def health(self) -> StoreHealth:
        """
        How the server is doing: version, latency, clock, pool, traces of a Node peer.

        Connects for the moment if the store isn't open.
        """
        with storage_errors("health", self._host.where):
            async with self._ajar():
                prefix = text(self._host.keys.prefix)
                return await look_at(self._host.server, self._host.clock, prefix=prefix)

    async def facts(self) -> StoreFacts:
        """Versions, sizes, and settings that lose data."""
        keys, memory = await self._host.read_all("facts", [("DBSIZE",), ("INFO", "memory")])
        found = await migrate.found_version(self._host)
        used = [line for line in memory.splitlines() if line.startswith(b"used_memory:")]
        server = self._host.server.facts
        return StoreFacts(
            database=self._host.where,
            server=server,
            schema_version=found,
            keys=int(keys),
            used_memory=int(used[0].partition(b":")[2]) if used else 0,
            warnings=server.warnings,
        )

    def observe(self, observer: Callable[[tuple[Argument, ...]], None] | None) -> None:
        """
        Call this for every command from now on; None stops it.

        It must neither wait nor raise. Stores that share the server share the observer.
        """
        self._host.server.link.observe(observer)

    async def dangerously_clear_all(self) -> None:
        """Delete every record of the six domains and all of our indexes."""
        keys = self._host.keys
        await self._host.clear(
            "dangerously_clear_all",
            (
                *keys.families(),
                keys.message_threads,
                keys.prefix + b"thread:",
                *keys.indexes(),
            ),
        )
