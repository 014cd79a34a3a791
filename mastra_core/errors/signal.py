"""Errors of input to a thread: signals and notifications."""

from __future__ import annotations

from typing import Unpack

from mastra_core.errors.base import Category, ErrorFields, MastraError, with_facts

__all__ = (
    "DeliveryError",
    "InvalidSignalError",
    "NotificationError",
    "NotificationExistsError",
    "SignalError",
    "SignalIdConflictError",
    "SignalPersistUnavailableError",
    "SignalQueueFullError",
)


class SignalError(MastraError):
    """A signal couldn't be accepted or delivered."""

    id = "AGENT_SIGNAL_ERROR"
    domain = "AGENT"


class InvalidSignalError(SignalError, ValueError):
    """The signal itself is wrong; nothing was queued or stored."""

    id = "AGENT_SIGNAL_INVALID"
    category: Category = "USER"
    http_status = 400


class SignalQueueFullError(SignalError):
    """The thread has too much waiting input; nothing of this signal was queued."""

    id = "AGENT_SIGNAL_QUEUE_FULL"
    category: Category = "USER"
    http_status = 429

    def __init__(
        self,
        message: str | None = None,
        *,
        thread_id: str = "",
        limit: int = 0,
        unit: str = "signals",
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Thread {thread_id!r} already has {limit} {unit} waiting.",
            **with_facts(fields, thread_id=thread_id, limit=limit, unit=unit),
        )


class SignalPersistUnavailableError(SignalError):
    """The signal should be stored, but the agent has no memory."""

    id = "AGENT_SIGNAL_PERSIST_UNAVAILABLE"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        agent_id: str = "",
        thread_id: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Agent {agent_id!r} has no memory, so the signal can't be stored.",
            **with_facts(fields, agent_id=agent_id, thread_id=thread_id),
        )


class SignalIdConflictError(SignalError):
    """The id was already used for another signal."""

    id = "AGENT_SIGNAL_ID_CONFLICT"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        signal_id: str = "",
        thread_id: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Signal id {signal_id!r} was already used with other contents.",
            **with_facts(fields, signal_id=signal_id, thread_id=thread_id),
        )


class DeliveryError(SignalError):
    """Another process or agent didn't take the signal."""

    id = "AGENT_SIGNAL_DELIVERY_FAILED"
    category: Category = "SYSTEM"
    http_status = 502


class NotificationError(MastraError):
    """The notification inbox couldn't do what was asked."""

    id = "AGENT_NOTIFICATION_ERROR"
    domain = "AGENT"


class NotificationExistsError(NotificationError):
    """The thread's inbox already has a record of this id."""

    id = "AGENT_NOTIFICATION_EXISTS"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        notification_id: str = "",
        thread_id: str = "",
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Notification {notification_id!r} already exists in thread {thread_id!r}.",
            **with_facts(fields, notification_id=notification_id, thread_id=thread_id),
        )
