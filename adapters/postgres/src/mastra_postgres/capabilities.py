"""What a PostgreSQL store can do; read by the plugin, so it imports no driver."""

from __future__ import annotations

from typing import Final

__all__ = ("STORAGE_CAPABILITIES",)

STORAGE_CAPABILITIES: Final = frozenset(
    {
        "memory",
        "memory.partial_thread_update",
        "memory.resources",
        "memory.messages_by_resource",
        "memory.copy_thread",
        "memory.clone_thread",
        "memory.move_thread",
        "memory.delete_messages",
        "workflows",
        "workflows.atomic_updates",
        "workflows.fenced_writes",
        "workflows.claim_resume",
        "notifications",
        "notifications.bulk_status",
        "notifications.claims",
        "notifications.unique_dedupe",
        "thread_state",
        "thread_state.compare_and_set",
        "background_tasks",
        "schedules",
        "schedules.claim_fire",
        "storage.retention",
        "storage.migrations",
    }
)
"""Everything that the contracts of the six domains offer, and migrations."""
