"""The signals that a record becomes: the full one and the summary (notifications.md 5).

Ids come from outside: they follow from the record, so that sending twice is sending once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from mastra_core.base.isotime import to_iso_ms
from mastra_core.base.naming import clean_xml_name
from mastra_core.notifications.summary import NotificationSummary, summarize_notifications
from mastra_core.wire.notifications import NotificationRecord
from mastra_core.wire.signals import Signal

__all__ = (
    "NO_PENDING",
    "create_notification_signal",
    "create_notification_summary_signal",
)

NO_PENDING: Final = "No pending notifications"


def create_notification_signal(
    record: NotificationRecord, *, signal_id: str, created_at: datetime
) -> Signal:
    """
    The full signal of a record, as the record is.

    An attribute that can't be rendered, which only a peer can have stored, gets the nearest
    name that can (decisions.md 17).
    """
    facts: dict[str, Any] = {
        "source": record.source,
        "kind": record.kind,
        "priority": record.priority,
        "status": record.status,
    }
    count = {"coalescedCount": record.coalesced_count} if record.coalesced_count > 1 else {}
    # A custom attribute of a reserved name keeps its place and gets the record's value.
    attributes = {
        **{clean_xml_name(name): value for name, value in (record.attributes or {}).items()},
        "id": record.id,
        "source": record.source,
        "type": record.kind,
        "kind": record.kind,
        "priority": record.priority,
        "status": record.status,
        **count,
    }
    system = {"signal": "notification", "recordId": record.id, **facts, **count}
    if record.delivered_at is not None:
        system["deliveredAt"] = to_iso_ms(record.delivered_at)
    if record.seen_at is not None:
        system["seenAt"] = to_iso_ms(record.seen_at)
    return Signal(
        id=signal_id,
        type="notification",
        tag_name="notification",
        contents=record.summary,
        created_at=created_at,
        attributes=attributes,
        metadata={**(record.metadata or {}), "notification": system},
    )


def create_notification_summary_signal(
    summary: NotificationSummary | Sequence[NotificationRecord],
    *,
    signal_id: str,
    created_at: datetime,
) -> Signal:
    """The summary signal; it counts only what it is given, not the whole inbox."""
    if not isinstance(summary, NotificationSummary):
        summary = summarize_notifications(summary)
    ids = list(summary.notification_ids)
    priority = {} if summary.priority is None else {"priority": summary.priority}
    system = {
        "signal": "summary",
        "pending": summary.pending,
        "groups": [{"source": source, "count": count} for source, count in summary.groups],
        "byPriority": dict(summary.by_priority),
        "notificationIds": ids,
        **priority,
    }
    text = ", ".join(f"{source}: {count}" for source, count in summary.groups)
    return Signal(
        id=signal_id,
        type="notification",
        tag_name="notification-summary",
        contents=text or NO_PENDING,
        created_at=created_at,
        attributes={"pending": summary.pending, **priority},
        metadata={
            "notification": system,
            "notificationSummary": summary.to_wire(),
            "notificationIds": list(ids),
        },
    )
