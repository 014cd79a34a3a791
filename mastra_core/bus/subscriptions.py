"""One handler on one topic: calling it, counting what is under way, settling.

Where its events come from is another question, see ``fanout`` and ``groups``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import CoroutineType
from typing import Any

from mastra_core.bus.backpressure import Backlog, Slots
from mastra_core.bus.batching import BatchBuffer, check_policy
from mastra_core.bus.delivery import DONE, Delivery, envelope
from mastra_core.bus.driver import Position
from mastra_core.bus.handlers import HandlerKey, accepted_arguments
from mastra_core.bus.runtime import BusRuntime
from mastra_core.contracts.pubsub import BatchPolicy, EventHandler
from mastra_core.errors import ConfigError
from mastra_core.wire.events import Event

__all__ = ("Subscription", "SubscriptionOptions")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """How a subscription wants its events."""

    batch: BatchPolicy | None = None
    max_in_flight: int = 256
    ordered: bool = False
    on_gap: Callable[[int, int], Any] | None = None

    def __post_init__(self) -> None:
        if self.max_in_flight < 0:
            raise ConfigError(f"max_in_flight is {self.max_in_flight!r}, but can't be negative.")
        if self.batch is not None:
            check_policy(self.batch)


class Subscription:
    """What all subscriptions have in common; see the two kinds."""

    #: The group that this is a member of; None gets every event.
    group: str | None = None

    def __init__(
        self, runtime: BusRuntime, topic: str, handler: EventHandler, options: SubscriptionOptions
    ) -> None:
        self.runtime = runtime
        self.topic = topic
        self.key = HandlerKey(topic, handler)
        self.options = options
        self.is_closed = False
        #: True once events come, False if that failed; both end the wait of other callers.
        self.opened: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        #: Deliveries whose handler runs.
        self.active: set[Delivery] = set()
        #: ``local_only`` events that wait for a free slot.
        self.local: Backlog[Event] = Backlog(runtime.settings.local_backlog)
        self.slots = Slots(1 if options.ordered else options.max_in_flight)
        self.buffer: BatchBuffer[Delivery] | None = None
        if options.batch is not None:
            # What waits in the buffer must not keep the next burst from forming.
            if options.max_in_flight and not options.ordered:
                self.slots.limit += options.batch.max_buffer_size
            self.buffer = BatchBuffer(
                options.batch,
                clock=runtime.clock,
                deliver=self._deliver,
                ack=self._drop,
                give_back=self._give_back,
                spawn=runtime.spawn_awaitable,
            )
        self._handler = handler
        self._arguments = accepted_arguments(handler)

    @property
    def free(self) -> int:
        """How many more events it takes now."""
        return 0 if self.is_closed else self.slots.free

    def make_delivery(
        self, event: Event, position: Position, attempt: int, *, is_local: bool = False
    ) -> Delivery:
        """One event for this subscription."""
        return Delivery(self, event, position, attempt, is_local=is_local)

    def offer(self, delivery: Delivery) -> None:
        """Take the event: call the handler, or put it into the buffer."""
        self.slots.used += 1
        if self.buffer is not None:
            self.buffer.add(delivery)
        else:
            self._start(delivery)

    def offer_local(self, event: Event) -> None:
        """Deliver an event that never leaves this process, behind the current one (P12)."""
        asyncio.get_running_loop().call_soon(self.drain_local)
        if not self.local.add(event):
            logger.warning("local event dropped, subscriber too slow", extra={"topic": self.topic})

    def drain_local(self) -> None:
        """Deliver queued local events as far as there is room."""
        while self.local and self.free:
            event = self.local.pop()
            if event is not None:
                own = envelope(event, 1, self.topic)
                self.offer(self.make_delivery(own, (0, 0), 1, is_local=True))

    def close(self) -> None:
        """Never call the handler again; what it runs now may end."""
        self.is_closed = True
        self.local.clear()
        if self.buffer is not None:
            self.buffer.dispose()

    def forget(self) -> None:
        """Drop what was read but not delivered: the topic was cleared."""
        if self.buffer is not None:
            self.buffer.forget()

    # -- settling; Delivery has made sure that it happens once ----------------------------------

    def acked(self, delivery: Delivery) -> Awaitable[None]:
        """The handler is content."""
        raise NotImplementedError

    def nacked(self, delivery: Delivery, error: str | None) -> Awaitable[None]:
        """The handler wants it again, or failed."""
        raise NotImplementedError

    def extended(self, delivery: Delivery) -> Awaitable[None]:
        """The handler needs more time."""
        return DONE

    def handler_returned(self, delivery: Delivery) -> None:
        """The handler has ended, settled or not."""
        raise NotImplementedError

    def room_came(self) -> None:
        """A slot became free."""
        raise NotImplementedError

    # -- calling the handler ---------------------------------------------------------------------

    def _start(self, delivery: Delivery) -> None:
        """Call the handler; a coroutine goes on in a task of its own."""
        delivery.running = True
        self.active.add(delivery)
        try:
            result = self._call(delivery)
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 – P7: the door
            self._failed(delivery, exc)
            self._returned(delivery)
            return
        if result is None:
            self._returned(delivery)
        elif type(result) is CoroutineType or isinstance(result, Awaitable):
            delivery.task = asyncio.get_running_loop().create_task(
                self._finish(result, delivery), name="bus-handler"
            )
        else:
            self._returned(delivery)

    async def _deliver(self, delivery: Delivery) -> None:
        """Call the handler and wait for it; for bursts."""
        if self.is_closed:
            self._give_back(delivery)
            return
        self._start(delivery)
        if delivery.task is not None:
            await asyncio.wait([delivery.task])

    def _call(self, delivery: Delivery) -> Any:
        if self._arguments == 1:
            return self._handler(delivery.event)
        arguments = (delivery.event, delivery.ack, delivery.nack, delivery.extend)
        return self._handler(*arguments[: self._arguments])

    async def _finish(self, result: Awaitable[Any], delivery: Delivery) -> None:
        try:
            await result
        except asyncio.CancelledError as exc:
            if delivery.task is not None and delivery.task.cancelling():
                self._returned(delivery)
                raise  # we or the loop are closing; the event is given back
            self._failed(delivery, exc)
        except Exception as exc:  # noqa: BLE001 – P7: a failure is a nack and goes no further
            self._failed(delivery, exc)
        self._returned(delivery)

    def _failed(self, delivery: Delivery, error: BaseException) -> None:
        logger.warning(
            "event handler failed",
            extra={
                "topic": self.topic,
                "event_id": delivery.event.id,
                "attempt": delivery.attempt,
            },
            exc_info=error,
        )
        if not delivery.settled:
            delivery.nack(error)

    def _returned(self, delivery: Delivery) -> None:
        if not delivery.running:
            return
        delivery.running = False
        self.active.discard(delivery)
        self.handler_returned(delivery)
        self.runtime.changes.tell()

    def _release(self) -> None:
        """Give a slot free."""
        self.slots.used -= 1
        if not self.is_closed:
            self.room_came()

    def _drop(self, delivery: Delivery) -> None:
        """Settle an event that the buffer left out."""
        delivery.ack()
        self.handler_returned(delivery)

    def _give_back(self, delivery: Delivery) -> None:
        """Settle an event that was buffered when the subscription closed."""
        raise NotImplementedError
