"""Inbox records: validation, merging of events, patches, orders (notifications.md 1-3).

What a claim does to a record is in ``rules.notification_claims``. Every function takes the
store's ``now`` and returns a new record; nothing is changed in place and JSON members are
shared with the input, so a store copies them once at its border.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Final

from mastra_core.base.isotime import epoch_ms
from mastra_core.errors import StorageArgumentError, shown
from mastra_core.rules.arguments import check_choice, check_limit, check_text, choices, moment
from mastra_core.wire.notifications import (
    PRIORITIES,
    STATUSES,
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)

__all__ = (
    "DEFAULT_PRIORITY",
    "STATUS_TIMESTAMPS",
    "apply_patch",
    "apply_status",
    "check_create",
    "check_list",
    "check_patch",
    "check_status",
    "delivered_record",
    "due_key",
    "due_time",
    "has_key",
    "inbox_key",
    "is_due",
    "matches_key",
    "matches_search",
    "merge_choice_key",
    "merged_record",
    "new_record",
    "requeued_record",
)

DEFAULT_PRIORITY: Final = "medium"

STATUS_TIMESTAMPS: Final[Mapping[str, str]] = {
    "delivered": "delivered_at",
    "seen": "seen_at",
    "dismissed": "dismissed_at",
    "archived": "archived_at",
    "discarded": "discarded_at",
}
"""Which timestamp a status sets; ``pending`` and ``failed`` set none (notifications.md 2)."""

_ATTRIBUTE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
#: Members of an event that nothing can be stored without.
_NEEDED: Final = ("thread_id", "source", "kind")
#: Members of a patch that replace the stored value as they are.
_REPLACED: Final = (
    "summary",
    "payload",
    "attributes",
    "metadata",
    "deliver_at",
    "summary_at",
    "delivery_reason",
    "delivery_attempts",
    "last_delivery_attempt_at",
    "last_delivery_error",
    "delivered_signal_id",
    "summary_signal_id",
)


# -- checks -----------------------------------------------------------------------------------


def check_create(notification: CreateNotification) -> None:
    """
    Refuse what must not be stored (notifications.md 1 rule 4, 5.3 rule 4).

    Raises:
        StorageArgumentError: An id, source or kind is empty, the priority is unknown, an
            attribute can't be rendered, or there are members that no store has a place for.
    """
    given = notification.__dict__
    for name in _NEEDED if given["id"] is None else ("id", *_NEEDED):
        value = given[name]
        if type(value) is not str or not value:
            check_text(value, name)
    priority = given["priority"]
    if priority is not None and priority not in PRIORITIES:
        check_choice(priority, "priority", PRIORITIES)
    _check_attributes(given["attributes"])
    _check_no_extra(notification.__pydantic_extra__)


def check_patch(patch: NotificationPatch) -> None:
    """
    Refuse a change that must not be stored.

    Raises:
        StorageArgumentError: The status is unknown, attempts are negative, an attribute
            can't be rendered, or there are members that no store has a place for.
    """
    if patch.status:
        check_status(patch.status)
    if patch.delivery_attempts < 0:
        raise StorageArgumentError(
            f"delivery_attempts must not be negative, as {patch.delivery_attempts!r} is."
        )
    if not isinstance(patch.summary, str):
        raise StorageArgumentError(f"summary must be a text, not {patch.summary!r}.")
    _check_attributes(patch.attributes)
    _check_no_extra(patch.model_extra)


def check_list(
    *,
    status: str | Sequence[str] | None,
    priority: str | Sequence[str] | None,
    search: str | None,
    limit: int | None,
) -> None:
    """
    Refuse a question to the inbox that can only be a mistake (notifications.md 3.4).

    Raises:
        StorageArgumentError: A status or priority is unknown, the search is no text, or the
            limit is below 1.
    """
    check_limit(limit)
    if search is not None and not isinstance(search, str):
        raise StorageArgumentError(
            f"search must be a text, not {shown(search)}.", details={"argument": "search"}
        )
    for name, given, allowed in (("status", status, STATUSES), ("priority", priority, PRIORITIES)):
        if given is not None and not isinstance(given, str | Sequence | AbstractSet):
            check_choice(given, name, allowed)
        for word in choices(given) or ():
            check_choice(word, name, allowed)


def check_status(status: object) -> str:
    """
    One of the seven statuses.

    Raises:
        StorageArgumentError: It is another value.
    """
    return check_choice(status, "status", STATUSES)


def _check_attributes(attributes: Mapping[str, Any] | None) -> None:
    if not attributes:
        return
    for name, value in attributes.items():
        if not isinstance(name, str) or not _ATTRIBUTE_NAME.fullmatch(name):
            # The text is contract (notifications.md 5.3 rule 4).
            raise StorageArgumentError(f"Invalid signal XML attribute name: {name}")
        number = isinstance(value, int | float) and math.isfinite(value)
        if value is not None and not isinstance(value, str | bool) and not number:
            raise StorageArgumentError(
                f"The attribute {name!r} must be a text, a finite number, a boolean or None, "
                f"not {value!r}."
            )


def _check_no_extra(extra: Mapping[str, Any] | None) -> None:
    if extra:
        raise StorageArgumentError(
            f"A notification has no member {next(iter(extra))!r}.", details={"unknown": list(extra)}
        )


# -- create and merge -------------------------------------------------------------------------


def new_record(
    notification: CreateNotification, *, notification_id: str, now: datetime
) -> NotificationRecord:
    """The record of an event that matches no other (notifications.md 3.1)."""
    created_at = now if notification.created_at is None else moment(notification.created_at)
    given = notification.__dict__
    return _BLANK.replace(
        id=notification_id,
        priority=notification.priority or DEFAULT_PRIORITY,
        created_at=created_at,
        updated_at=created_at,
        deliver_at=_moment_or_none(notification.deliver_at, "deliver_at"),
        summary_at=_moment_or_none(notification.summary_at, "summary_at"),
        **{name: given[name] for name in _TAKEN_OVER},
    )


def _moment_or_none(value: datetime | None, name: str) -> datetime | None:
    return None if value is None else moment(value, name)


#: Members of an event that are those of its record.
_TAKEN_OVER: Final = (
    "thread_id",
    "source",
    "kind",
    "summary",
    "payload",
    "resource_id",
    "agent_id",
    "source_id",
    "dedupe_key",
    "coalesce_key",
    "attributes",
    "delivery_reason",
    "metadata",
)

#: A record with every member set; copying it is cheaper than checking one anew.
_BLANK: Final = NotificationRecord.model_validate(
    {
        **dict.fromkeys(NotificationRecord.model_fields),
        **dict.fromkeys(("id", "thread_id", "source", "kind", "summary"), ""),
        **dict.fromkeys(("created_at", "updated_at"), 0),
        "priority": DEFAULT_PRIORITY,
        "status": "pending",
        "coalesced_count": 1,
        "delivery_attempts": 0,
    }
)


def has_key(notification: CreateNotification) -> bool:
    """Whether an event may be merged into a stored one at all."""
    return bool(notification.dedupe_key or notification.coalesce_key)


def matches_key(record: NotificationRecord, notification: CreateNotification) -> bool:
    """Whether the event goes into this record (notifications.md 3.2)."""
    same_scope = (
        record.status == "pending"
        and record.thread_id == notification.thread_id
        and record.source == notification.source
        and record.kind == notification.kind
        and record.agent_id == notification.agent_id
        and record.resource_id == notification.resource_id
    )
    if not same_scope:
        return False
    by_dedupe = bool(notification.dedupe_key) and record.dedupe_key == notification.dedupe_key
    by_coalesce = (
        bool(notification.coalesce_key) and record.coalesce_key == notification.coalesce_key
    )
    return by_dedupe or by_coalesce


def merge_choice_key(record: NotificationRecord) -> tuple[int, int, str]:
    """Sort key of several matches; the first wins: latest updated, latest created, smallest id."""
    return inbox_key(record)


def merged_record(
    record: NotificationRecord, notification: CreateNotification, *, now: datetime
) -> NotificationRecord:
    """The record after one more event went into it (notifications.md 3.2)."""
    changes: dict[str, Any] = {
        "summary": notification.summary,
        "coalesced_count": record.coalesced_count + 1,
        "updated_at": now,
    }
    for name in ("payload", "deliver_at", "summary_at", "delivery_reason"):
        value = getattr(notification, name)
        if value is not None:
            changes[name] = value
    if notification.priority:
        changes["priority"] = notification.priority
    for name in ("attributes", "metadata"):
        value = getattr(notification, name)
        if value is not None:
            changes[name] = {**(getattr(record, name) or {}), **value}
    return record.replace(**changes)


# -- changes ----------------------------------------------------------------------------------


def apply_patch(
    record: NotificationRecord, patch: NotificationPatch, *, now: datetime
) -> NotificationRecord:
    """The record with the members of the patch that were given (notifications.md 3.6)."""
    given = patch.model_fields_set
    changes: dict[str, Any] = {n: getattr(patch, n) for n in _REPLACED if n in given}
    if patch.status:
        changes |= _status_changes(patch.status, now)
    return record.replace(updated_at=now, **changes)


def apply_status(record: NotificationRecord, status: str, *, now: datetime) -> NotificationRecord:
    """The record in a status, with its timestamp; other timestamps stay (notifications.md 2)."""
    return record.replace(updated_at=now, **_status_changes(status, now))


def _status_changes(status: str, now: datetime) -> dict[str, Any]:
    timestamp = STATUS_TIMESTAMPS.get(status)
    return {"status": status, **({timestamp: now} if timestamp else {})}


def delivered_record(
    record: NotificationRecord,
    *,
    delivered_signal_id: str,
    last_delivery_attempt_at: datetime,
    now: datetime,
) -> NotificationRecord:
    """
    The record after its full signal was sent; the status moves only from ``pending``
    (``mark_notification_delivered``, notifications.md 3.7).
    """
    changes: dict[str, Any] = {
        "delivered_signal_id": delivered_signal_id,
        "last_delivery_attempt_at": last_delivery_attempt_at,
        "updated_at": now,
    }
    if record.status == "pending":
        changes |= _status_changes("delivered", now)
    return record.replace(**changes)


def requeued_record(record: NotificationRecord, *, now: datetime) -> NotificationRecord:
    """A failed record as a fresh one that is due now (notifications.md S23)."""
    return record.replace(status="pending", delivery_attempts=0, deliver_at=now, updated_at=now)


# -- orders and filters -----------------------------------------------------------------------


def due_time(record: NotificationRecord) -> datetime | None:
    """The earlier of both schedules; None without one."""
    if record.deliver_at is None or record.summary_at is None:
        return record.deliver_at or record.summary_at
    return min(record.deliver_at, record.summary_at)


def is_due(record: NotificationRecord, now: datetime) -> bool:
    """Pending, with a schedule that has come (notifications.md 3.5)."""
    at = due_time(record)
    return record.status == "pending" and at is not None and at <= now


def due_key(record: NotificationRecord) -> tuple[datetime, datetime, str]:
    """
    Sort key of due records: earliest due, earliest updated, id (notifications.md 3.5).

    Only for records that have a schedule.
    """
    at = due_time(record)
    if at is None:
        raise ValueError(f"Record {record.id!r} has no schedule.")
    return (at, record.updated_at, record.id)


def inbox_key(record: NotificationRecord) -> tuple[int, int, str]:
    """Sort key of the inbox: latest updated, latest created, id (notifications.md 3.4)."""
    return (-epoch_ms(record.updated_at), -epoch_ms(record.created_at), record.id)


def matches_search(record: NotificationRecord, search: str | None) -> bool:
    """Case-insensitive literal substring of summary, kind or source; empty matches all."""
    if not search:
        return True
    needle = search.casefold()
    return any(needle in text.casefold() for text in (record.summary, record.kind, record.source))
