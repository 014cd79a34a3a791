"""Notification records and the inputs of their store (notifications.md 1)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from mastra_core.wire.base import IsoTime, WireModel

__all__ = (
    "PRIORITIES",
    "STATUSES",
    "CreateNotification",
    "NotificationPatch",
    "NotificationPriority",
    "NotificationRecord",
    "NotificationStatus",
    "SendNotification",
)

NotificationPriority = Literal["low", "medium", "high", "urgent"]
NotificationStatus = Literal[
    "pending", "delivered", "seen", "dismissed", "archived", "discarded", "failed"
]
PRIORITIES: tuple[str, ...] = ("urgent", "high", "medium", "low")
STATUSES: tuple[str, ...] = (
    "pending",
    "delivered",
    "seen",
    "dismissed",
    "archived",
    "discarded",
    "failed",
)


class NotificationRecord(WireModel):
    """One inbox record; the pair ``(thread_id, id)`` is its identity.

    Enumerations are read leniently (a peer may know more values) and written strictly.
    """

    id: str
    thread_id: str
    source: str
    kind: str
    priority: str
    status: str
    summary: str
    payload: Any = None
    resource_id: str | None = None
    agent_id: str | None = None
    source_id: str | None = None
    dedupe_key: str | None = None
    coalesce_key: str | None = None
    coalesced_count: int = 1
    attributes: dict[str, Any] | None = None
    created_at: IsoTime
    updated_at: IsoTime
    delivered_at: IsoTime | None = None
    seen_at: IsoTime | None = None
    dismissed_at: IsoTime | None = None
    archived_at: IsoTime | None = None
    discarded_at: IsoTime | None = None
    deliver_at: IsoTime | None = None
    summary_at: IsoTime | None = None
    delivery_reason: str | None = None
    delivery_attempts: int = 0
    last_delivery_attempt_at: IsoTime | None = None
    last_delivery_error: str | None = None
    delivered_signal_id: str | None = None
    summary_signal_id: str | None = None
    metadata: dict[str, Any] | None = None

    def to_wire(self) -> dict[str, Any]:
        """JSON form: camelCase, absent members omitted (notifications.md 1 rule 1)."""
        return self._dumped(exclude_none=True)


class SendNotification(WireModel):
    """What an application hands to ``send_notification_signal`` (notifications.md 1)."""

    source: str
    kind: str
    summary: str
    priority: str | None = None
    #: Optional idempotency handle: the same id twice is one record.
    id: str | None = None
    payload: Any = None
    source_id: str | None = None
    dedupe_key: str | None = None
    coalesce_key: str | None = None
    attributes: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class CreateNotification(SendNotification):
    """What the store takes to create, or merge into, a record."""

    thread_id: str
    resource_id: str | None = None
    agent_id: str | None = None
    deliver_at: IsoTime | None = None
    summary_at: IsoTime | None = None
    delivery_reason: str | None = None
    created_at: IsoTime | None = None


class NotificationPatch(WireModel):
    """A change to one record: members that are set replace, others stay untouched.

    ``deliver_at=None`` and ``summary_at=None`` given explicitly clear the schedule;
    ``payload``, ``attributes`` and ``metadata`` are replaced, not merged
    (notifications.md 3.6).
    """

    status: str | None = None
    summary: str = ""
    payload: Any = None
    attributes: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    deliver_at: IsoTime | None = None
    summary_at: IsoTime | None = None
    delivery_reason: str | None = None
    delivery_attempts: int = Field(default=0, ge=0)
    last_delivery_attempt_at: IsoTime | None = None
    last_delivery_error: str | None = None
    delivered_signal_id: str | None = None
    summary_signal_id: str | None = None
