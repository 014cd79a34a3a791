"""Errors of the event bus and of leases."""

from __future__ import annotations

from typing import Unpack

from mastra_core.errors.base import Category, ErrorFields, MastraError, with_facts

__all__ = (
    "EventTooLargeError",
    "FlushTimeoutError",
    "LeaseConflictError",
    "LeaseError",
    "LeaseLostError",
    "LeaseUnavailableError",
    "PubSubClosedError",
    "PubSubConnectionError",
    "PubSubError",
    "StreamGapError",
)


class PubSubError(MastraError):
    """An event couldn't be published or received."""

    id = "MASTRA_PUBSUB_ERROR"
    category: Category = "THIRD_PARTY"


class PubSubConnectionError(PubSubError):
    """The transport didn't answer."""

    id = "MASTRA_PUBSUB_CONNECTION_FAILED"
    retryable = True
    http_status = 503


class EventTooLargeError(PubSubError):
    """The event is larger than the transport carries; it wasn't published."""

    id = "MASTRA_PUBSUB_EVENT_TOO_LARGE"
    category: Category = "USER"
    http_status = 413

    def __init__(
        self,
        message: str | None = None,
        *,
        topic: str = "",
        size: int = 0,
        limit: int = 0,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"An event for {topic!r} has {size} bytes; at most {limit} are carried.",
            **with_facts(fields, topic=topic, size=size, limit=limit),
        )


class FlushTimeoutError(PubSubError, TimeoutError):
    """Something was still under way when the time of a flush was over."""

    id = "MASTRA_PUBSUB_FLUSH_TIMEOUT"
    category: Category = "SYSTEM"
    retryable = True
    http_status = 504

    def __init__(
        self,
        message: str | None = None,
        *,
        timeout_ms: int = 0,
        running: int = 0,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message
            or f"The event bus didn't come to rest within {timeout_ms} ms; "
            f"{running} handlers are running.",
            **with_facts(fields, timeout_ms=timeout_ms, running=running),
        )


class StreamGapError(PubSubError):
    """Events between two positions can no longer be had."""

    id = "MASTRA_PUBSUB_STREAM_GAP"
    category: Category = "SYSTEM"
    http_status = 410

    def __init__(
        self,
        message: str | None = None,
        *,
        topic: str = "",
        wanted: object = None,
        oldest: object = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message
            or f"Events of {topic!r} from {wanted!r} on are gone; the oldest is {oldest!r}.",
            **with_facts(fields, topic=topic, wanted=wanted, oldest=oldest),
        )


class PubSubClosedError(PubSubError):
    """The transport was closed, before or during the call."""

    id = "MASTRA_PUBSUB_CLOSED"
    category: Category = "SYSTEM"

    def __init__(self, message: str | None = None, **fields: Unpack[ErrorFields]) -> None:
        super().__init__(message or "The event bus is closed.", **fields)


class LeaseError(MastraError):
    """Ownership of a key couldn't be had or kept."""

    id = "MASTRA_LEASE_ERROR"
    category: Category = "SYSTEM"


class LeaseLostError(LeaseError):
    """This process no longer owns the thread it was writing to."""

    id = "AGENT_THREAD_LEASE_LOST"
    domain = "AGENT"
    http_status = 409

    def __init__(
        self,
        key: str,
        *,
        owner: str | None = None,
        current: str | None = None,
        message: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        fields.setdefault("hint", "Stop this run; the other process continues the thread.")
        super().__init__(
            message or f"Lease {key!r} belongs to {current!r}, not to {owner!r}.",
            **with_facts(fields, key=key, owner=owner, current=current),
        )


class LeaseConflictError(LeaseError):
    """Somebody else owns the key, and the caller insisted on having it."""

    id = "AGENT_THREAD_LEASE_CONFLICT"
    domain = "AGENT"
    http_status = 409

    def __init__(
        self,
        key: str,
        *,
        owner: str | None = None,
        current: str | None = None,
        message: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(
            message or f"Lease {key!r} is held by {current!r}; {owner!r} can't have it.",
            **with_facts(fields, key=key, owner=owner, current=current),
        )


class LeaseUnavailableError(LeaseError):
    """The lease provider didn't answer, so nobody knows who owns the key."""

    id = "MASTRA_LEASE_UNAVAILABLE"
    category: Category = "THIRD_PARTY"
    retryable = True
    http_status = 503
