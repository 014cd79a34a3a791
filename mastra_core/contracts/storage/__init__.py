"""Storage: one composite of six domains (design D13)."""

from __future__ import annotations

from mastra_core.contracts.storage.background_tasks import BackgroundTasksStorage, TaskFilter
from mastra_core.contracts.storage.composite import Storage
from mastra_core.contracts.storage.memory import (
    DateRange,
    IncludeMessage,
    MemoryStorage,
    MessagePage,
    OrderBy,
    ThreadPage,
)
from mastra_core.contracts.storage.notifications import (
    ClaimRef,
    NotificationClaim,
    NotificationsStorage,
)
from mastra_core.contracts.storage.pruning import PruneOptions, PrunePolicy, PruneResult
from mastra_core.contracts.storage.schedules import SchedulesStorage
from mastra_core.contracts.storage.thread_state import ThreadStateStorage
from mastra_core.contracts.storage.workflows import (
    ClaimOutcome,
    SuspendedRunPage,
    SuspendedRunRow,
    WorkflowsStorage,
)

__all__ = (
    "BackgroundTasksStorage",
    "ClaimOutcome",
    "ClaimRef",
    "DateRange",
    "IncludeMessage",
    "MemoryStorage",
    "MessagePage",
    "NotificationClaim",
    "NotificationsStorage",
    "OrderBy",
    "PruneOptions",
    "PrunePolicy",
    "PruneResult",
    "SchedulesStorage",
    "Storage",
    "SuspendedRunPage",
    "SuspendedRunRow",
    "TaskFilter",
    "ThreadPage",
    "ThreadStateStorage",
    "WorkflowsStorage",
)
