"""``MongoStorage``: the six domains in one MongoDB database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from mastra_core.base.blocks import OpenInBlocks
from mastra_core.base.naming import prefix_of
from mastra_core.base.redact import redact_url
from mastra_core.contracts.storage.health import StoreHealth
from mastra_core.plugins.context import AdapterContext
from mastra_core.rules.migrations import not_migrated
from mastra_mongodb.capabilities import STORAGE_CAPABILITIES, WITHOUT_TRANSACTIONS
from mastra_mongodb.errors import error_id, storage_errors
from mastra_mongodb.health import look_at
from mastra_mongodb.migrate import MigrationPlan, apply_plan, look, plan_of_nothing
from mastra_mongodb.pool import MongoPool, open_pool, pool_key
from mastra_mongodb.schema import Names, storage_component
from mastra_mongodb.settings import MongoSettings
from mastra_mongodb.storage.background_tasks import MongoBackgroundTasks
from mastra_mongodb.storage.host import Host
from mastra_mongodb.storage.memory import MongoMemory
from mastra_mongodb.storage.notifications import MongoNotifications
from mastra_mongodb.storage.schedules import MongoSchedules
from mastra_mongodb.storage.thread_state import MongoThreadState
from mastra_mongodb.storage.workflows import MongoWorkflows

__all__ = ("MongoStorage", "StoreFacts")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """What is known about an open database, for ``doctor`` and people."""

    database: str
    server_version: str
    #: Whether there are transactions and change streams.
    is_replicated: bool
    schema_version: int
    #: How far the server's clock is ahead of ours.
    clock_skew_ms: int
    #: Collections that are ours to use, with their number of documents.
    tables: dict[str, int]


class MongoStorage(OpenInBlocks):
    """
    Storage in a MongoDB database.

    Example::

        async with MongoStorage("mongodb://localhost/app") as store:
            await store.memory.list_threads()

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    name: ClassVar[str] = "mongodb"

    def __init__(
        self,
        settings: MongoSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = MongoSettings(url=settings, **options)
        context = context or AdapterContext()
        self.settings: MongoSettings = settings
        self.capabilities: frozenset[str] = STORAGE_CAPABILITIES
        self.volatile: bool = False
        self._context = context
        self._names = Names(settings.prefix or prefix_of(context.namespace))
        self._component = storage_component(self._names)
        self._host = Host(
            names=self._names,
            clock=context.clock,
            ids=context.ids,
            where=redact_url(settings.address),
            max_snapshot_bytes=settings.max_snapshot_bytes,
        )
        self._host.may_create = not settings.disable_init
        #: What is shared with other users of the database, while the store is open.
        self._opened: AsyncExitStack | None = None
        self._opening = asyncio.Lock()
        self._memory = MongoMemory(self._host)
        self._workflows = MongoWorkflows(self._host)
        self._notifications = MongoNotifications(self._host)
        self._thread_state = MongoThreadState(self._host)
        self._background_tasks = MongoBackgroundTasks(self._host)
        self._schedules = MongoSchedules(self._host)

    # -- domains ---------------------------------------------------------------------------

    @property
    def memory(self) -> MongoMemory:
        """Threads, messages, resources."""
        return self._memory

    @property
    def workflows(self) -> MongoWorkflows:
        """Snapshots of runs."""
        return self._workflows

    @property
    def notifications(self) -> MongoNotifications:
        """The inbox."""
        return self._notifications

    @property
    def thread_state(self) -> MongoThreadState:
        """Small values of threads."""
        return self._thread_state

    @property
    def background_tasks(self) -> MongoBackgroundTasks:
        """Detached tool calls."""
        return self._background_tasks

    @property
    def schedules(self) -> MongoSchedules:
        """Timers."""
        return self._schedules

    # -- life ------------------------------------------------------------------------------

    async def init(self) -> None:
        """
        Connect, and create or migrate what is missing unless told not to.

        Raises:
            StorageSchemaError: The database is newer, or has to be migrated and
                ``disable_init`` is set; or the server is too old.
            StorageConnectionError: There is no server.
        """
        async with self._opening:
            if self._opened is not None:
                return
            with storage_errors("init", self._host.where):
                async with AsyncExitStack() as stack:
                    pool = await stack.enter_async_context(self._shared_pool())
                    await self._migrate(pool)
                    self._host.attach(pool)
                    if not pool.is_replicated:
                        self.capabilities = WITHOUT_TRANSACTIONS
                    self._opened = stack.pop_all()

    def _shared_pool(self) -> AbstractAsyncContextManager[MongoPool]:
        settings = self.settings
        return self._context.share(pool_key(settings), lambda: open_pool(settings))

    async def _migrate(self, pool: MongoPool) -> None:
        plan = await look(pool, self._component, self._names)
        if plan and not self.settings.disable_init:
            await apply_plan(pool, plan, self._component, self._names)
        elif plan and not (self.settings.allow_unprepared and self._has_some(plan)):
            raise not_migrated(self._host.where, plan.statements, error_id=error_id("init"))

    def _has_some(self, plan: MigrationPlan) -> bool:
        """Whether there is anything to look at: a peer creates what it uses."""
        return len(plan.collections) < len(self._component.collections)

    async def aclose(self) -> None:
        """Let the database go; every later call raises."""
        opened, self._opened = self._opened, None
        await self._host.detach()
        if opened is not None:
            await opened.aclose()

    # -- administration --------------------------------------------------------------------

    async def plan_migration(self) -> MigrationPlan:
        """
        What ``init`` would do to the database right now; nothing is changed.

        Opens the database for the moment if the store isn't open.
        """
        with storage_errors("plan", self._host.where):
            async with self._ajar() as pool:
                return await look(pool, self._component, self._names)

    @asynccontextmanager
    async def _ajar(self) -> AsyncIterator[MongoPool]:
        """The pool for one look, also if the store isn't open."""
        if self._host.is_open:
            yield self._host.pool
            return
        async with open_pool(self.settings) as pool:
            yield pool

    def export_ddl(self) -> str:
        """Everything that an empty database needs, for the MongoDB shell."""
        return plan_of_nothing(self._component, self._names).script

    def open_resources(self) -> Mapping[str, int]:
        """What the store holds open right now, by kind."""
        return {"pools": int(self._host.is_open)}

    async def server_info(self) -> dict[str, str]:
        """Product and version of the server."""
        return {"product": "MongoDB", "version": self._host.pool.version}

    async def health(self) -> StoreHealth:
        """
        How the server is doing: version, latency, clock, pool, traces of a Node peer.

        Connects for the moment if the store isn't open.
        """
        with storage_errors("health", self._host.where):
            async with self._ajar() as pool:
                return await look_at(pool, self._host.clock, prefix=self._names.prefix)

    async def facts(self) -> StoreFacts:
        """Versions, clock, collections and their sizes by the server's own count."""
        with storage_errors("facts", self._host.where):
            pool = self._host.pool
            plan, server_time = await asyncio.gather(
                look(pool, self._component, self._names), pool.server_time()
            )
            names = self._component.collections
            counts = await asyncio.gather(
                *(pool.collection(name).estimated_document_count() for name in names)
            )
            skew = server_time - self._host.clock.now()
            return StoreFacts(
                database=self._host.where,
                server_version=pool.version,
                is_replicated=pool.is_replicated,
                schema_version=plan.found_version,
                clock_skew_ms=round(skew.total_seconds() * 1000),
                tables=dict(zip(names, counts, strict=True)),
            )

    async def dangerously_clear_all(self) -> None:
        """Delete every row of the six domains and of our own claims."""
        await asyncio.gather(
            *(
                domain.dangerously_clear_all()
                for domain in (
                    self._memory,
                    self._workflows,
                    self._notifications,
                    self._thread_state,
                    self._background_tasks,
                    self._schedules,
                )
            )
        )
