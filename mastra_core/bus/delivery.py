"""One event in the hands of one handler: settled once, by whoever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import TYPE_CHECKING

from mastra_core.bus.driver import Position
from mastra_core.wire.events import Event

if TYPE_CHECKING:
    from mastra_core.bus.subscriptions import Subscription

__all__ = ("DONE", "Delivery", "HeldDelivery", "describe", "envelope")


class _Done:
    """An awaitable that has nothing to wait for."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


#: What ``ack`` and ``nack`` return where no store has to hear of it.
DONE = _Done()


class Delivery:
    """
    What a handler gets as ``ack``, ``nack`` and ``extend``, and what became of it.

    Settling takes effect with the call; awaiting its result waits for the store.
    """

    __slots__ = (
        "attempt",
        "event",
        "is_local",
        "position",
        "running",
        "settled",
        "subscription",
        "task",
    )

    def __init__(
        self,
        subscription: Subscription,
        event: Event,
        position: Position,
        attempt: int,
        *,
        is_local: bool = False,
    ) -> None:
        self.subscription = subscription
        self.event = event
        self.position = position
        self.attempt = attempt
        self.is_local = is_local
        self.running = False
        self.settled = False
        self.task: asyncio.Task[None] | None = None

    def ack(self) -> Awaitable[None]:
        """The event is done; later calls do nothing."""
        if self.settled:
            return DONE
        self.settled = True
        return self.subscription.acked(self)

    def nack(self, error: BaseException | str | None = None) -> Awaitable[None]:
        """Deliver it again after a pause, or give it up after the last attempt."""
        if self.settled:
            return DONE
        self.settled = True
        return self.subscription.nacked(self, describe(error))

    def extend(self) -> Awaitable[None]:
        """Start its time anew; nothing happens if it isn't ours any more."""
        if self.settled:
            return DONE
        return self.subscription.extended(self)


class HeldDelivery(Delivery):
    """A delivery to a member of a group, which the store has lent for a time."""

    __slots__ = ("deadline", "expired", "has_returned", "has_slot", "started_at")

    def __init__(
        self,
        subscription: Subscription,
        event: Event,
        position: Position,
        attempt: int,
        *,
        is_local: bool = False,
    ) -> None:
        super().__init__(subscription, event, position, attempt, is_local=is_local)
        #: Monotonic seconds of the claim, and until when it is ours.
        self.started_at = 0.0
        self.deadline = 0.0
        self.expired = False
        self.has_returned = False
        self.has_slot = True


def envelope(event: Event, attempt: int, topic: str) -> Event:
    """A subscriber's own envelope; the data is shared."""
    # Written out, since dataclasses.replace costs as much as the whole rest of a delivery.
    return Event(
        type=event.type,
        run_id=event.run_id,
        data=event.data,
        id=event.id,
        created_at=event.created_at,
        index=event.index,
        delivery_attempt=attempt,
        cursor=event.cursor,
        topic=topic,
        extra=dict(event.extra) if event.extra else {},
    )


def describe(error: BaseException | str | None) -> str | None:
    """An error in one line, as dead letters keep it."""
    if error is None or isinstance(error, str):
        return error
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
