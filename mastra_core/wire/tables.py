"""Names of the tables (collections, key families) that we share with the TypeScript system.

Names that start with ``mastra_py_`` hold state of our own (design D14); everything else is
shared and keeps the shape that the other side created.
"""

from __future__ import annotations

from typing import Final

__all__ = (
    "BACKGROUND_TASKS",
    "FENCES",
    "MESSAGES",
    "NOTIFICATIONS",
    "NOTIFICATION_CLAIMS",
    "RESOURCES",
    "SCHEDULES",
    "SCHEDULE_TRIGGERS",
    "SCHEMA_VERSIONS",
    "THREADS",
    "THREAD_STATE",
    "WORKFLOW_SNAPSHOTS",
)

THREADS: Final = "mastra_threads"
MESSAGES: Final = "mastra_messages"
RESOURCES: Final = "mastra_resources"
WORKFLOW_SNAPSHOTS: Final = "mastra_workflow_snapshot"
NOTIFICATIONS: Final = "mastra_notifications"
THREAD_STATE: Final = "mastra_thread_state"
BACKGROUND_TASKS: Final = "mastra_background_tasks"
SCHEDULES: Final = "mastra_schedules"
SCHEDULE_TRIGGERS: Final = "mastra_schedule_triggers"

#: Claims, guards and confirmations of notifications (notifications.md 13).
NOTIFICATION_CLAIMS: Final = "mastra_py_notification_claims"
#: The newest fence that a guarded write of a thread carried (pubsub_and_lease.md 6.4, L9).
FENCES: Final = "mastra_py_fences"
#: Which version of our own additions a database holds.
SCHEMA_VERSIONS: Final = "mastra_py_schema"
