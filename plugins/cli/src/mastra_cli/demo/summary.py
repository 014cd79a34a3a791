"""What a demo run came to, counted in the store and nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mastra_core.contracts.storage import Storage
from mastra_core.wire import tables
from mastra_core.wire.notifications import NotificationRecord
from mastra_core.wire.snapshots import INNER_WORKFLOW, OUTER_WORKFLOW

__all__ = ("InboxCount", "count_inbox", "stored_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxCount:
    """The inbox in figures."""

    records: int
    #: Events that were merged into a record that was there.
    coalesced: int
    by_status: dict[str, int] = field(default_factory=dict)
    by_priority: dict[str, int] = field(default_factory=dict)
    #: Full signals and summaries that reached the thread.
    signals: int = 0

    @classmethod
    def of(cls, records: Sequence[NotificationRecord]) -> InboxCount:
        """Count these records."""
        full = {record.delivered_signal_id for record in records} - {None}
        summaries = {record.summary_signal_id for record in records} - {None}
        return cls(
            records=len(records),
            coalesced=sum(record.coalesced_count - 1 for record in records),
            by_status=dict(Counter(record.status for record in records)),
            by_priority=dict(Counter(record.priority for record in records)),
            signals=len(full) + len(summaries),
        )

    def to_wire(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "records": self.records,
            "recordsByStatus": self.by_status,
            "recordsByPriority": self.by_priority,
            "coalesced": self.coalesced,
            "signalsDelivered": self.signals,
        }


async def count_inbox(store: Storage, thread_id: str) -> InboxCount:
    """The inbox of a thread as it is now."""
    return InboxCount.of(await store.notifications.list_notifications(thread_id))


async def stored_rows(store: Storage, thread_id: str, run_id: str) -> list[tuple[str, str]]:
    """What of this demo is stored where: table and what is in it."""
    inbox = await count_inbox(store, thread_id)
    messages = await store.memory.list_messages(thread_id, per_page=False)
    parked = [
        name
        for name in (OUTER_WORKFLOW, INNER_WORKFLOW)
        if await store.workflows.get_workflow_run_by_id(run_id=run_id, workflow_name=name)
    ]
    run = f"the suspended run: {', '.join(parked)}" if parked else "nothing: no run is suspended"
    return [
        (tables.NOTIFICATIONS, f"{inbox.records} records of {thread_id}"),
        (tables.THREADS, "the thread"),
        (tables.MESSAGES, f"{len(messages.messages)} messages, signals included"),
        (tables.WORKFLOW_SNAPSHOTS, run),
    ]
