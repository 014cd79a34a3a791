"""What a summary says: counts of pending records, never their texts (notifications.md 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mastra_core.notifications.collation import collation_key
from mastra_core.wire.notifications import PRIORITIES, NotificationRecord

__all__ = ("NotificationSummary", "highest_priority", "priority_rank", "summarize_notifications")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSummary:
    """The pending ones among some records."""

    thread_id: str
    resource_id: str | None
    agent_id: str | None
    #: How many.
    pending: int
    by_source: dict[str, int]
    by_priority: dict[str, int]
    #: In the order of the records.
    notification_ids: tuple[str, ...]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Sources with their counts, in the order in which people read them."""
        return sorted(self.by_source.items(), key=lambda pair: collation_key(pair[0]))

    @property
    def priority(self) -> str | None:
        """The highest priority among them; None if there are none."""
        return highest_priority(self.by_priority)

    def to_wire(self) -> dict[str, Any]:
        """JSON form; absent ids are left out."""
        wire: dict[str, Any] = {"threadId": self.thread_id}
        if self.resource_id is not None:
            wire["resourceId"] = self.resource_id
        if self.agent_id is not None:
            wire["agentId"] = self.agent_id
        return {
            **wire,
            "pending": self.pending,
            "bySource": dict(self.by_source),
            "byPriority": dict(self.by_priority),
            "notificationIds": list(self.notification_ids),
        }


def summarize_notifications(records: Sequence[NotificationRecord]) -> NotificationSummary:
    """Count the pending ones; the ids of the scope are those of the first of them."""
    pending = [record for record in records if record.status == "pending"]
    first = next(iter(pending or records), None)
    by_source: dict[str, int] = {}
    by_priority: dict[str, int] = {}
    for record in pending:
        by_source[record.source] = by_source.get(record.source, 0) + 1
        by_priority[record.priority] = by_priority.get(record.priority, 0) + 1
    return NotificationSummary(
        thread_id=first.thread_id if first else "",
        resource_id=first.resource_id if first else None,
        agent_id=first.agent_id if first else None,
        pending=len(pending),
        by_source=by_source,
        by_priority=by_priority,
        notification_ids=tuple(record.id for record in pending),
    )


def priority_rank(priority: str) -> int:
    """0 for urgent, more for less; priorities that we don't know come last."""
    return PRIORITIES.index(priority) if priority in PRIORITIES else len(PRIORITIES)


def highest_priority(priorities: dict[str, int]) -> str | None:
    """The most urgent name; None if there is none."""
    return min(priorities, key=priority_rank, default=None)
