"""The composite of the in-memory store: opening, sharing, closing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from mastra_core.base.blocks import OpenInBlocks
from mastra_core.inmemory.capabilities import STORAGE_CAPABILITIES
from mastra_core.inmemory.storage.background_tasks import InMemoryBackgroundTasks
from mastra_core.inmemory.storage.database import Database, open_database
from mastra_core.inmemory.storage.memory import InMemoryMemory
from mastra_core.inmemory.storage.notifications import InMemoryNotifications
from mastra_core.inmemory.storage.schedules import InMemorySchedules
from mastra_core.inmemory.storage.settings import InMemoryStorageSettings
from mastra_core.inmemory.storage.thread_state import InMemoryThreadState
from mastra_core.inmemory.storage.workflows import InMemoryWorkflows
from mastra_core.plugins.context import AdapterContext

__all__ = ("InMemoryStorage",)


class InMemoryStorage(OpenInBlocks):
    """
    Storage inside this process.

    ``InMemoryStorage()`` may be used as it is and keeps its data to itself. One that was
    made from a URL has data as long as it is open, shared with all others of the same
    context, namespace and name.

    Args:
        settings: Its URL and options; None for a private store.
        context: Clock, ids and shared resources.
    """

    name = "memory"
    volatile = True
    capabilities = STORAGE_CAPABILITIES

    def __init__(
        self,
        settings: InMemoryStorageSettings | None = None,
        context: AdapterContext | None = None,
    ) -> None:
        context = context or AdapterContext()
        self._memory = InMemoryMemory(context.clock, context.ids)
        max_bytes = (settings or InMemoryStorageSettings()).max_snapshot_bytes
        self._workflows = InMemoryWorkflows(context.clock, max_bytes=max_bytes)
        self._notifications = InMemoryNotifications(context.clock, context.ids)
        self._thread_state = InMemoryThreadState()
        self._background_tasks = InMemoryBackgroundTasks(context.clock)
        self._schedules = InMemorySchedules(context.clock)
        self._open_database: Callable[[], AbstractAsyncContextManager[Database]] = open_database
        #: Held while the store is open.
        self._opened: AbstractAsyncContextManager[Database] | None = None
        self._opening = asyncio.Lock()
        self._is_attached = False
        if settings is None:
            self._attach(Database())
        else:
            key = ("inmemory.storage", context.namespace, settings.url)
            self._open_database = lambda: context.share(key, open_database)

    @property
    def memory(self) -> InMemoryMemory:
        """Threads, messages, resources."""
        return self._memory

    @property
    def workflows(self) -> InMemoryWorkflows:
        """Snapshots of runs."""
        return self._workflows

    @property
    def notifications(self) -> InMemoryNotifications:
        """The inbox."""
        return self._notifications

    @property
    def thread_state(self) -> InMemoryThreadState:
        """Small values of threads."""
        return self._thread_state

    @property
    def background_tasks(self) -> InMemoryBackgroundTasks:
        """Detached tool calls."""
        return self._background_tasks

    @property
    def schedules(self) -> InMemorySchedules:
        """Timers."""
        return self._schedules

    async def init(self) -> None:
        """Open the store if nobody did; there is nothing to create."""
        async with self._opening:
            if not self._is_attached:
                opened = self._open_database()
                self._attach(await opened.__aenter__())
                self._opened = opened

    async def aclose(self) -> None:
        """Let the data go; every later call raises ``StorageConnectionError``."""
        opened, self._opened = self._opened, None
        self._attach(None)
        if opened is not None:
            await opened.__aexit__(None, None, None)

    def _attach(self, database: Database | None) -> None:
        self._is_attached = database is not None
        self._memory.attach(database.memory if database else None)
        self._workflows.attach(database.workflows if database else None)
        self._notifications.attach(database.notifications if database else None)
        self._thread_state.attach(database.thread_state if database else None)
        self._background_tasks.attach(database.background_tasks if database else None)
        self._schedules.attach(database.schedules if database else None)

    async def dangerously_clear_all(self) -> None:
        """Delete every row of the six domains."""
        for domain in (
            self._memory,
            self._workflows,
            self._notifications,
            self._thread_state,
            self._background_tasks,
            self._schedules,
        ):
            await domain.dangerously_clear_all()
