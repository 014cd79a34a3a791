"""Errors of stores: the only ones that a storage adapter lets out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from mastra_core.errors.base import Category, ErrorFields, MastraError, with_facts

__all__ = (
    "FencedOutError",
    "MessageNotFoundError",
    "NotFoundError",
    "NotificationNotFoundError",
    "ScheduleNotFoundError",
    "StorageArgumentError",
    "StorageConflictError",
    "StorageConnectionError",
    "StorageDataError",
    "StorageError",
    "StorageSchemaError",
    "StorageTimeoutError",
    "TaskNotFoundError",
    "ThreadNotFoundError",
    "snapshot_too_large",
)


class StorageError(MastraError):
    """
    A store refused or failed; the driver's exception is the cause.

    Adapters give the id ``MASTRA_STORAGE_<STORE>_<OPERATION>_FAILED``.
    """

    id = "MASTRA_STORAGE_OPERATION_FAILED"
    domain = "STORAGE"
    category: Category = "THIRD_PARTY"


class StorageConnectionError(StorageError):
    """The server didn't answer; the operation was not carried out."""

    id = "MASTRA_STORAGE_CONNECTION_FAILED"
    retryable = True
    http_status = 503


class StorageTimeoutError(StorageError, TimeoutError):
    """The store took longer than allowed."""

    id = "MASTRA_STORAGE_TIMEOUT"
    retryable = True
    http_status = 504


class StorageConflictError(StorageError):
    """Somebody else changed the row since it was read; nothing was written."""

    id = "STORAGE_VERSION_CONFLICT"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        what: str = "row",
        expected: object = None,
        found: object = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message
            or f"The {what} is at version {found!r}, not at the expected {expected!r}; "
            "nothing was written.",
            **with_facts(fields, what=what, expected=expected, found=found),
        )


class StorageSchemaError(StorageError):
    """The database has to be migrated first, or is newer than this version."""

    id = "MASTRA_STORAGE_SCHEMA_MISMATCH"
    category: Category = "USER"


class StorageDataError(StorageError):
    """A stored row can't be read as what it should be."""

    id = "MASTRA_STORAGE_DATA_UNREADABLE"
    category: Category = "SYSTEM"


class StorageArgumentError(StorageError, ValueError):
    """The call itself is wrong; the store wasn't touched."""

    id = "MASTRA_STORAGE_INVALID_ARGUMENT"
    category: Category = "USER"
    http_status = 400


class FencedOutError(StorageError):
    """A write with an older fence or claim than the current one; nothing was written."""

    id = "STALE_CLAIM"
    category: Category = "SYSTEM"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        key: str = "",
        fence: object = None,
        current: object = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message
            or f"The claim {fence!r} on {key!r} is no longer current; "
            f"{current!r} is. Nothing was written.",
            **with_facts(fields, key=key, fence=fence, current=current),
        )


class NotFoundError(StorageError, LookupError):
    """The thing that should be changed or used doesn't exist."""

    id = "MASTRA_STORAGE_NOT_FOUND"
    category: Category = "USER"
    http_status = 404


class ThreadNotFoundError(NotFoundError):
    """There is no thread of this id."""

    id = "MASTRA_STORAGE_THREAD_NOT_FOUND"

    def __init__(
        self,
        message: str | None = None,
        *,
        thread_id: str = "",
        resource_id: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        owner = f" for resource {resource_id!r}" if resource_id else ""
        super().__init__(
            message or f"Thread {thread_id!r} was not found{owner}.",
            **with_facts(fields, thread_id=thread_id, resource_id=resource_id),
        )


class MessageNotFoundError(NotFoundError):
    """There is no message of this id."""

    id = "MASTRA_STORAGE_MESSAGE_NOT_FOUND"

    def __init__(
        self,
        message: str | None = None,
        *,
        message_id: str = "",
        thread_id: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        place = f" in thread {thread_id!r}" if thread_id else ""
        super().__init__(
            message or f"Message {message_id!r} was not found{place}.",
            **with_facts(fields, message_id=message_id, thread_id=thread_id),
        )


class NotificationNotFoundError(NotFoundError):
    """There is no notification of this id in the thread's inbox."""

    id = "MASTRA_STORAGE_NOTIFICATION_NOT_FOUND"

    def __init__(
        self,
        message: str | None = None,
        *,
        notification_id: str = "",
        thread_id: str = "",
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            # The text is contract (notifications.md, case 28): no quotes, no full stop.
            message or f"Notification {notification_id} was not found for thread {thread_id}",
            **with_facts(fields, notification_id=notification_id, thread_id=thread_id),
        )


class TaskNotFoundError(NotFoundError):
    """There is no background task of this id."""

    id = "MASTRA_STORAGE_TASK_NOT_FOUND"

    def __init__(
        self, message: str | None = None, *, task_id: str = "", **fields: Unpack[ErrorFields]
    ) -> None:
        super().__init__(
            message or f"Background task {task_id!r} was not found.",
            **with_facts(fields, task_id=task_id),
        )


class ScheduleNotFoundError(NotFoundError):
    """There is no schedule of this id."""

    id = "MASTRA_STORAGE_SCHEDULE_NOT_FOUND"

    def __init__(
        self, message: str | None = None, *, schedule_id: str = "", **fields: Unpack[ErrorFields]
    ) -> None:
        super().__init__(
            message or f"Schedule {schedule_id!r} was not found.",
            **with_facts(fields, schedule_id=schedule_id),
        )


def snapshot_too_large(
    *, run_id: str, size: int, limit: int, largest: Sequence[tuple[str, int]]
) -> StorageArgumentError:
    """The refusal of a snapshot over the size limit, with its largest parts (snapshots.md G12)."""
    return StorageArgumentError(
        f"The snapshot of run {run_id!r} has {size} bytes; at most {limit} are allowed. "
        "The previous snapshot is unchanged.",
        id="SNAPSHOT_TOO_LARGE",
        hint="Store large values elsewhere and keep their ids in the run.",
        details={
            "runId": run_id,
            "size": size,
            "limit": limit,
            "largest": [{"path": path, "bytes": count} for path, count in largest],
        },
    )
