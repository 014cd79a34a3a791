"""All data of one in-memory store; several handles may share it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mastra_core.inmemory.storage.background_tasks import TaskTables
from mastra_core.inmemory.storage.memory_tables import MemoryTables
from mastra_core.inmemory.storage.notification_tables import NotificationTables
from mastra_core.inmemory.storage.schedules import ScheduleTables
from mastra_core.inmemory.storage.thread_state import ThreadStateTables
from mastra_core.inmemory.storage.workflow_tables import WorkflowTables

__all__ = ("Database", "open_database")


class Database:
    """The tables of the six domains."""

    def __init__(self) -> None:
        self.memory = MemoryTables()
        self.workflows = WorkflowTables()
        self.notifications = NotificationTables()
        self.thread_state = ThreadStateTables()
        self.background_tasks = TaskTables()
        self.schedules = ScheduleTables()


@asynccontextmanager
async def open_database() -> AsyncIterator[Database]:
    """An empty database that is forgotten with its last user."""
    yield Database()
