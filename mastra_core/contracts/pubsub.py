"""The bus: topics, subscriptions, delivery (pubsub_and_lease.md 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self, runtime_checkable

from mastra_core.contracts.lease import LeaseProvider
from mastra_core.wire.events import Event

__all__ = (
    "BatchPolicy",
    "Cursor",
    "DeadLetter",
    "EventHandler",
    "FenceToken",
    "PubSub",
    "PubSubCapabilities",
    "StartFrom",
)

#: Called as ``cb(event, ack, nack, extend)``, with as many of them as it accepts.
EventHandler = Callable[..., Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Resume after this position; the text is opaque and belongs to one adapter."""

    value: str


StartFrom = Literal["earliest", "latest"] | Cursor
#: A lease key and the fence that must not be older than what was seen for it.
FenceToken = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSubCapabilities:
    """What a transport really does."""

    durable: bool = False
    cross_process: bool = False
    cross_host: bool = False
    groups: bool = True
    history: bool = True
    cursors: bool = True
    dead_letter: bool = True
    ordering: Literal["none", "publisher", "topic"] = "topic"
    #: None: no limit of its own.
    max_event_bytes: int | None = None
    leases: bool = False
    fencing: bool = False
    lease_watch: bool = False
    pull: bool = True
    push: bool = True
    native_batching: bool = True
    offsets: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPolicy:
    """Deliver in bursts (pubsub_and_lease.md 3.4)."""

    max_size: int | None = None
    max_wait_ms: int | None = None
    min_interval_ms: int = 0
    is_immediate: Callable[[Event], bool] | None = None
    #: Must return a subset of its input, the same objects in the same order.
    coalesce: Callable[[Sequence[Event]], Sequence[Event]] | None = None
    max_buffer_size: int = 256
    overflow: Literal["drop-oldest", "drop-newest", "coalesce-or-drop-oldest"] = (
        "coalesce-or-drop-oldest"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An event that was given up, with the reason."""

    id: str
    topic: str
    group: str | None
    event: Event
    attempts: int
    last_error: str | None
    dead_at_ms: int


@runtime_checkable
class PubSub(Protocol):
    """An opened bus; the rules P1-P19 are duties of every adapter."""

    capabilities: PubSubCapabilities

    async def publish(
        self,
        topic: str,
        event: Event,
        *,
        local_only: bool = False,
        dedupe_id: str | None = None,
        fence: FenceToken | None = None,
    ) -> None:
        """
        Put the event into the topic's log.

        Args:
            topic: Any non-empty text of at most 1024 UTF-8 bytes.
            event: ``id`` and ``created_at`` are set by the transport.
            local_only: Subscribers of this instance only, by reference, without history.
            dedupe_id: A second publish with it within the window stores nothing.
            fence: Refused if a newer owner has been seen for the lease key.

        Raises:
            EventTooLargeError, WireEncodeError, PubSubError: Nothing was stored.
            PubSubConnectionError: Nobody knows; repeat with the same ``dedupe_id``.
            FencedOutError: The fence is old.
            PubSubClosedError: The bus is closed.
        """
        ...

    async def subscribe(
        self,
        topic: str,
        handler: EventHandler,
        *,
        group: str | None = None,
        start_from: StartFrom = "earliest",
        batch: BatchPolicy | None = None,
        max_in_flight: int = 256,
        ordered: bool = False,
        on_gap: Callable[[int, int], Any] | None = None,
    ) -> None:
        """Deliver from now on; when this returns, every later publish will arrive (P1, P2)."""
        ...

    async def unsubscribe(self, topic: str, handler: EventHandler) -> None:
        """When this returns the handler isn't called again (P3)."""
        ...

    async def flush(self, *, timeout_ms: int = 30_000) -> None:
        """Wait for accepted publishes, running handlers and batch buffers (P15)."""
        ...

    async def clear_topic(self, topic: str) -> None:
        """Forget the log, groups and pending deliveries; never raises (P16)."""
        ...

    async def trim_topic(
        self, topic: str, *, run_id: str, produced_before_ms: int | None = None
    ) -> None:
        """Delete the entries of one run; never raises (3.9)."""
        ...

    async def get_history(self, topic: str, offset: int = 0) -> list[Event]:
        """Retained events with index >= offset, in order."""
        ...

    async def subscribe_with_replay(self, topic: str, handler: EventHandler) -> None:
        """Everything retained, then live, without a gap or a duplicate."""
        ...

    async def subscribe_from_offset(
        self,
        topic: str,
        offset: int,
        handler: EventHandler,
        *,
        on_gap: Callable[[int, int], Any] | None = None,
    ) -> None:
        """Everything with index >= offset exactly once in order, then live."""
        ...

    async def list_dead(self, topic: str, *, group: str | None = None) -> list[DeadLetter]:
        """Given-up events, oldest first."""
        ...

    async def requeue_dead(self, topic: str, dead_letter_id: str) -> bool:
        """Deliver it again to its group, with a fresh budget; False if unknown."""
        ...

    async def purge_dead(self, topic: str) -> int:
        """Forget the dead letters of a topic."""
        ...

    def get_lease_provider(self) -> LeaseProvider | None:
        """The lease provider that belongs to this bus; None without one."""
        ...

    async def aclose(self) -> None:
        """Drain and close (P14); idempotent."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
