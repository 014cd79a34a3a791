"""Records of the inbox (notifications.md 3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.isotime import parse_iso, to_iso_ms
from mastra_core.contracts.storage import NotificationsStorage
from mastra_core.errors import (
    NotificationExistsError,
    NotificationNotFoundError,
    StorageConflictError,
)
from mastra_core.rules import notification_claims as guards
from mastra_core.rules import notifications as rules
from mastra_core.rules.arguments import check_limit, check_text, choices, moment
from mastra_core.rules.notification_claims import Sidecar
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)
from mastra_jsonfile.capabilities import refused
from mastra_jsonfile.file import Document, JsonFile, row_of

__all__ = ("JsonFileNotifications",)

Pair = tuple[NotificationRecord, Sidecar]


class JsonFileNotifications:
    """Domain ``notifications``; see ``contracts.storage.notifications``."""

    def __init__(self, file: JsonFile, clock: Clock, ids: Ids) -> None:
        self._file = file
        self._clock = clock
        self._ids = ids

    # -- writing ------------------------------------------------------------------------------

    async def create_notification(
        self,
        notification: CreateNotification,
        *,
        on_conflict: Literal["raise", "return"] = "raise",
        guard_until: datetime | None = None,
    ) -> NotificationRecord:
        """Insert, or merge into the pending record with the same key, in one step."""
        rules.check_create(notification)
        event = CreateNotification.model_validate(row_of(notification))

        def change(document: Document) -> NotificationRecord:
            inbox, now = _records(document, event.thread_id), self._clock.now()
            if event.id is not None and event.id in inbox:
                if on_conflict == "return":
                    return inbox[event.id]
                raise NotificationExistsError(notification_id=event.id, thread_id=event.thread_id)
            matches = [record for record in inbox.values() if rules.matches_key(record, event)]
            if matches:
                record = min(matches, key=rules.merge_choice_key)
                sidecar = _sidecar(document, record)
                pair = guards.merge_guarded(
                    record, sidecar, event, now=now, guard_until=guard_until
                )
            else:
                new_id = event.id or self._ids.new("notification")
                pair = guards.create_guarded(
                    event, notification_id=new_id, now=now, guard_until=guard_until
                )
            return _put(document, pair)

        return await self._file.write("create_notification", change)

    async def update_notification(
        self,
        thread_id: str,
        notification_id: str,
        patch: NotificationPatch,
        *,
        expected_statuses: Sequence[str] | None = None,
        settle_guard: bool = False,
        expected_count: int | None = None,
    ) -> NotificationRecord | None:
        """Write the members that are set, if the record still is as expected."""
        rules.check_patch(patch)
        patch = NotificationPatch.model_validate(row_of(patch))

        def change(document: Document) -> NotificationRecord | None:
            record = _existing(document, thread_id, notification_id)
            if expected_statuses is not None and record.status not in expected_statuses:
                return None
            if expected_count is not None and record.coalesced_count != expected_count:
                return None
            sidecar, now = _sidecar(document, record), self._clock.now()
            pair = guards.patch_guarded(record, sidecar, patch, now=now, settle_guard=settle_guard)
            return _put(document, pair)

        return await self._file.write("update_notification", change)

    async def mark_notification_delivered(
        self,
        thread_id: str,
        notification_id: str,
        *,
        delivered_signal_id: str,
        last_delivery_attempt_at: datetime,
    ) -> NotificationRecord | None:
        """Both facts always, the status only from pending; None if missing."""
        check_text(delivered_signal_id, "delivered_signal_id")
        at = moment(last_delivery_attempt_at, "last_delivery_attempt_at")

        def change(document: Document) -> NotificationRecord | None:
            record = _records(document, thread_id).get(notification_id)
            if record is None:
                return None
            delivered = rules.delivered_record(
                record,
                delivered_signal_id=delivered_signal_id,
                last_delivery_attempt_at=at,
                now=self._clock.now(),
            )
            return _put(document, (delivered, _sidecar(document, record)))

        return await self._file.write("mark_notification_delivered", change)

    async def requeue(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """A failed record, pending and due now."""

        def change(document: Document) -> NotificationRecord:
            record = _existing(document, thread_id, notification_id)
            if record.status != "failed":
                raise StorageConflictError(
                    f"Notification {notification_id!r} is {record.status!r}, not 'failed', so it "
                    "can't be queued again.",
                    what="notification",
                    expected="failed",
                    found=record.status,
                )
            sidecar, now = _sidecar(document, record), self._clock.now()
            return _put(document, guards.requeue(record, sidecar, now=now))

        return await self._file.write("requeue", change)

    async def dangerously_clear_all(self) -> None:
        """Delete every record."""

        def change(document: Document) -> None:
            document["notifications"] = {}

        await self._file.write("clear_notifications", change)

    # -- reading ------------------------------------------------------------------------------

    async def get_notification(
        self, thread_id: str, notification_id: str
    ) -> NotificationRecord | None:
        """Exactly that pair, or None."""
        return await self._file.read(
            "get_notification", lambda document: _records(document, thread_id).get(notification_id)
        )

    async def list_notifications(
        self,
        thread_id: str,
        *,
        status: str | Sequence[str] | None = None,
        priority: str | Sequence[str] | None = None,
        source: str | None = None,
        resource_id: str | None = None,
        agent_id: str | None = None,
        search: str | None = None,
        limit: int | None = None,
    ) -> list[NotificationRecord]:
        """The inbox, latest updated first."""
        rules.check_list(status=status, priority=priority, search=search, limit=limit)
        statuses, priorities = choices(status), choices(priority)

        def matches(record: NotificationRecord) -> bool:
            return (
                (statuses is None or record.status in statuses)
                and (priorities is None or record.priority in priorities)
                and (not source or record.source == source)
                and (not resource_id or record.resource_id == resource_id)
                and (not agent_id or record.agent_id == agent_id)
                and rules.matches_search(record, search)
            )

        inbox = await self._file.read(
            "list_notifications", lambda document: list(_records(document, thread_id).values())
        )
        return sorted(filter(matches, inbox), key=rules.inbox_key)[:limit]

    async def list_due_notifications(
        self,
        now: datetime,
        *,
        limit: int | None = None,
        agent_id: str | None = None,
        resource_id: str | None = None,
    ) -> list[NotificationRecord]:
        """Pending records due at ``now``, of all threads, earliest first."""
        check_limit(limit)
        at = moment(now)

        def query(document: Document) -> list[NotificationRecord]:
            return [
                record
                for thread_id in document["notifications"]
                for record in _records(document, thread_id).values()
                if rules.is_due(record, at)
                and (not agent_id or record.agent_id == agent_id)
                and (not resource_id or record.resource_id == resource_id)
            ]

        due = await self._file.read("list_due_notifications", query)
        return sorted(due, key=rules.due_key)[:limit]

    # -- what was never promised --------------------------------------------------------------

    update_notifications_status = refused(
        NotificationsStorage.update_notifications_status, "notifications.bulk_status"
    )
    claim_due = refused(NotificationsStorage.claim_due, "notifications.claims")
    extend_claim = refused(NotificationsStorage.extend_claim, "notifications.claims")
    finalize_full = refused(NotificationsStorage.finalize_full, "notifications.claims")
    finalize_summary = refused(NotificationsStorage.finalize_summary, "notifications.claims")
    fail_claims = refused(NotificationsStorage.fail_claims, "notifications.claims")
    release_claims = refused(NotificationsStorage.release_claims, "notifications.claims")
    claim_unconfirmed = refused(NotificationsStorage.claim_unconfirmed, "notifications.claims")
    confirm_delivery = refused(NotificationsStorage.confirm_delivery, "notifications.claims")
    record_acceptance = refused(NotificationsStorage.record_acceptance, "notifications.claims")
    prune = refused(NotificationsStorage.prune, "storage.retention")


def _records(document: Document, thread_id: str) -> dict[str, NotificationRecord]:
    """The inbox of a thread by id."""
    rows = document["notifications"].get(thread_id, {})
    return {name: NotificationRecord.model_validate(row["record"]) for name, row in rows.items()}


def _existing(document: Document, thread_id: str, notification_id: str) -> NotificationRecord:
    record = _records(document, thread_id).get(notification_id)
    if record is None:
        raise NotificationNotFoundError(notification_id=notification_id, thread_id=thread_id)
    return record


def _sidecar(document: Document, record: NotificationRecord) -> Sidecar:
    """What is remembered beside a record; without claims that is only its guard."""
    guard_at = document["notifications"][record.thread_id][record.id]["guardAt"]
    return Sidecar(guard_at=parse_iso(guard_at) if guard_at else None)


def _put(document: Document, pair: Pair) -> NotificationRecord:
    record, sidecar = pair
    row: dict[str, Any] = {
        "record": row_of(record),
        "guardAt": to_iso_ms(sidecar.guard_at) if sidecar.guard_at else None,
    }
    document["notifications"].setdefault(record.thread_id, {})[record.id] = row
    return NotificationRecord.model_validate(row["record"])
