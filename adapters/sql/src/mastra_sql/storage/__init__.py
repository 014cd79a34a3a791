"""The domain stores, written once for every SQL database."""

from __future__ import annotations

from mastra_sql.storage.background_tasks import SqlBackgroundTasks
from mastra_sql.storage.door import Client
from mastra_sql.storage.host import SqlHost
from mastra_sql.storage.memory import SqlMemory
from mastra_sql.storage.notifications import SqlNotifications
from mastra_sql.storage.schedules import SqlSchedules
from mastra_sql.storage.store import SqlStorage
from mastra_sql.storage.thread_state import SqlThreadState
from mastra_sql.storage.workflows import SqlWorkflows

__all__ = (
    "Client",
    "SqlBackgroundTasks",
    "SqlHost",
    "SqlMemory",
    "SqlNotifications",
    "SqlSchedules",
    "SqlStorage",
    "SqlThreadState",
    "SqlWorkflows",
)
