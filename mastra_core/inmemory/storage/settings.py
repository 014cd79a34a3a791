"""Options of ``memory:`` as a store."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from mastra_core.rules.snapshots import DEFAULT_MAX_BYTES

__all__ = ("CAPABILITIES", "InMemoryStorageSettings")

CAPABILITIES: Final = frozenset(
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
    }
)
"""Everything that the contracts of the six domains offer."""


class InMemoryStorageSettings(BaseModel):
    """What a URL may say about an in-memory store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``memory:name``; stores of one context and name share their data.
    url: str = "memory:"
    #: Size limit of an encoded run snapshot (snapshots.md G12).
    max_snapshot_bytes: int = Field(default=DEFAULT_MAX_BYTES, ge=1)
