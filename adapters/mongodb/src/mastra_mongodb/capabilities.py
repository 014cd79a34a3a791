"""What a MongoDB database can do; read by the plugin, so it imports no driver."""

from __future__ import annotations

from typing import Final

from mastra_core.contracts.lease import LeaseCapabilities
from mastra_core.contracts.pubsub import PubSubCapabilities

__all__ = (
    "LEASE_CAPABILITIES",
    "MAX_EVENT_BYTES",
    "PUBSUB_CAPABILITIES",
    "STORAGE_CAPABILITIES",
    "WITHOUT_TRANSACTIONS",
)

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""Size limit of one event; what doesn't fit into a document is stored in pieces."""

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
        "storage.guarded_writes",
    }
)
"""Everything that the contracts of the six domains offer, and migrations."""

WITHOUT_TRANSACTIONS: Final = STORAGE_CAPABILITIES - {"storage.guarded_writes"}
"""The same on a standalone server, which can't look at one document and write another at once."""

PUBSUB_CAPABILITIES: Final = PubSubCapabilities(
    durable=True,
    cross_process=True,
    cross_host=True,
    max_event_bytes=MAX_EVENT_BYTES,
    leases=True,
    fencing=True,
    lease_watch=True,
)

LEASE_CAPABILITIES: Final = LeaseCapabilities(cross_process=True, cross_host=True)
