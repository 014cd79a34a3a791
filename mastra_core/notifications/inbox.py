"""The inbox for people and programs: look, mark, put back. Sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mastra_core.contracts.storage.notifications import NotificationsStorage
from mastra_core.errors import NotificationNotFoundError
from mastra_core.wire.notifications import NotificationPatch, NotificationRecord

__all__ = ("DEFAULT_LIST_LIMIT", "UNREAD", "NotificationInbox")

DEFAULT_LIST_LIMIT: Final = 20
#: Statuses of what nobody has looked at.
UNREAD: Final = ("pending", "delivered")


class NotificationInbox:
    """
    The records of a store, by thread.

    What a person does here is done whatever the status was (notifications.md 2); the runtime
    never undoes it.
    """

    def __init__(self, storage: NotificationsStorage) -> None:
        self._storage = storage

    async def list(
        self,
        thread_id: str,
        *,
        status: str | Sequence[str] | None = None,
        priority: str | Sequence[str] | None = None,
        source: str | None = None,
        resource_id: str | None = None,
        search: str | None = None,
        limit: int | None = DEFAULT_LIST_LIMIT,
    ) -> list[NotificationRecord]:
        """Latest updated first; nothing is marked by looking."""
        return await self._storage.list_notifications(
            thread_id,
            status=status,
            priority=priority,
            source=source,
            resource_id=resource_id,
            search=search,
            limit=limit,
        )

    async def get(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """
        One record; nothing is marked by looking.

        Raises:
            NotificationNotFoundError: There is no such pair.
        """
        record = await self._storage.get_notification(thread_id, notification_id)
        if record is None:
            raise NotificationNotFoundError(notification_id=notification_id, thread_id=thread_id)
        return record

    async def read(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """
        One record, marked as seen if it was unread.

        Raises:
            NotificationNotFoundError: There is no such pair.
        """
        seen = await self._storage.update_notification(
            thread_id, notification_id, NotificationPatch(status="seen"), expected_statuses=UNREAD
        )
        return seen or await self.get(thread_id, notification_id)

    async def mark_seen(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """
        Mark as seen, whatever it was.

        Raises:
            NotificationNotFoundError: There is no such pair.
        """
        return await self._mark(thread_id, notification_id, "seen")

    async def dismiss(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """
        Dismiss, whatever it was; it will not be delivered any more.

        Raises:
            NotificationNotFoundError: There is no such pair.
        """
        return await self._mark(thread_id, notification_id, "dismissed")

    async def archive(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """
        Archive, whatever it was; it will not be delivered any more.

        Raises:
            NotificationNotFoundError: There is no such pair.
        """
        return await self._mark(thread_id, notification_id, "archived")

    async def requeue(self, thread_id: str, notification_id: str) -> NotificationRecord:
        """
        Give a failed record a new start: pending, no attempts, due now (S23).

        Raises:
            NotificationNotFoundError: There is no such pair.
            StorageConflictError: It isn't failed.
        """
        return await self._storage.requeue(thread_id, notification_id)

    async def _mark(self, thread_id: str, notification_id: str, status: str) -> NotificationRecord:
        written = await self._storage.update_notification(
            thread_id, notification_id, NotificationPatch(status=status)
        )
        return written or await self.get(thread_id, notification_id)
