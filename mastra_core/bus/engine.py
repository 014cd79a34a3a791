"""The event engine: the whole pubsub contract on top of a driver (pubsub_and_lease.md 8.1).

An adapter gives a ``BusDriver`` and inherits everything else.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.ids import Ids, UuidIds
from mastra_core.base.tasks import shielded
from mastra_core.bus.delivery import envelope
from mastra_core.bus.driver import BusDriver, ListeningDriver, Outgoing, Start
from mastra_core.bus.handlers import HandlerKey
from mastra_core.bus.publishing import Publisher
from mastra_core.bus.redelivery import RedeliveryPolicy
from mastra_core.bus.runtime import BusRuntime, Warner
from mastra_core.bus.settings import BusSettings
from mastra_core.bus.stamps import Stamps
from mastra_core.bus.subscriptions import Subscription, SubscriptionOptions
from mastra_core.bus.timers import within
from mastra_core.bus.topics import Topics, check_topic
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import (
    BatchPolicy,
    Cursor,
    DeadLetter,
    EventHandler,
    FenceToken,
    PubSubCapabilities,
    StartFrom,
)
from mastra_core.errors import (
    CapabilityNotSupportedError,
    EventTooLargeError,
    FlushTimeoutError,
    PubSubClosedError,
)
from mastra_core.wire.events import Event

__all__ = ("EventEngine",)

logger = logging.getLogger(__name__)

_OPEN: Final = "open"
_DRAINING: Final = "draining"
_CLOSED: Final = "closed"
#: How long closing waits for handlers that were cancelled.
_CANCEL_S: Final = 1.0
#: How long closing may take when opening was cancelled.
_CANCELLED_OPEN_S: Final = 10.0


class EventEngine:
    """
    A bus on a driver; implements ``contracts.pubsub.PubSub``.

    Opens itself with the first call, or by ``async with``. Belongs to the event loop
    that opened it.

    Args:
        driver: The store. The engine opens and closes it.
        settings: Times and limits.
        clock: Decides about every wait.
        ids: Makes event ids.
        rng: Varies pauses.
        name: How errors name this adapter.
    """

    def __init__(
        self,
        driver: BusDriver,
        *,
        settings: BusSettings | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        rng: random.Random | None = None,
        name: str = "bus",
    ) -> None:
        settings = settings or BusSettings()
        rng = rng or random.Random()  # noqa: S311 – spreads retries, protects nothing
        self.capabilities: PubSubCapabilities = driver.capabilities
        self.settings = settings
        self.name = name
        self._driver = driver
        self._clock = clock or SystemClock()
        self._ids = ids or UuidIds()
        self._runtime = BusRuntime(
            driver=driver,
            clock=self._clock,
            ids=self._ids,
            settings=settings,
            policy=RedeliveryPolicy(settings, rng),
            jitter=rng.random,
        )
        self._stamps = Stamps(self._clock, self._ids)
        self._publisher = Publisher(self._runtime)
        self._topics = Topics(self._runtime)
        self._subscriptions: dict[HandlerKey, Subscription] = {}
        self._state: str | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._waking: asyncio.Task[None] | None = None

    # -- publishing --------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        event: Event,
        *,
        local_only: bool = False,
        dedupe_id: str | None = None,
        fence: FenceToken | None = None,
    ) -> None:
        if self._state is not _OPEN:
            await self._ready(even_draining=True)
        check_topic(topic)
        if local_only:
            self._topics.offer_local(topic, self._stamped(topic, event, dedupe_id))
            return
        if fence is not None and not self.capabilities.fencing:
            raise self._unsupported("fencing")
        await self._publisher.append(topic, self._outgoing(topic, event, dedupe_id, fence))
        self._topics.signal(topic)

    # -- subscribing -------------------------------------------------------------------------------

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
        options = SubscriptionOptions(
            batch=batch, max_in_flight=max_in_flight, ordered=ordered, on_gap=on_gap
        )
        if group is not None and not self.capabilities.groups:
            raise self._unsupported("groups")
        if isinstance(start_from, Cursor) and not self.capabilities.cursors:
            raise self._unsupported("cursors")
        await self._subscribe(topic, handler, group, start_from, options)

    async def subscribe_with_replay(self, topic: str, handler: EventHandler) -> None:
        await self._subscribe(topic, handler, None, "earliest", SubscriptionOptions())

    async def subscribe_from_offset(
        self,
        topic: str,
        offset: int,
        handler: EventHandler,
        *,
        on_gap: Callable[[int, int], Any] | None = None,
    ) -> None:
        options = SubscriptionOptions(on_gap=on_gap)
        await self._ready()
        if not self.capabilities.offsets:
            raise self._unsupported("offsets")
        await self._subscribe(topic, handler, None, max(0, offset), options)

    async def unsubscribe(self, topic: str, handler: EventHandler) -> None:
        await self._ready()
        subscription = self._subscriptions.pop(HandlerKey(topic, handler), None)
        if subscription is not None:
            await self._close_subscription(subscription)

    # -- history and retention -----------------------------------------------------------------------

    async def get_history(self, topic: str, offset: int = 0) -> list[Event]:
        await self._ready()
        if not self.capabilities.history:
            raise self._unsupported("history")
        position = await self._driver.locate(
            topic, max(0, offset) if self.capabilities.offsets else "earliest"
        )
        events: list[Event] = []
        while True:
            page = await self._driver.read_after(topic, position, self.settings.read_batch)
            events += [envelope(entry.event, 1, topic) for entry in page.entries]
            if len(page.entries) < self.settings.read_batch:
                return events
            position = page.position

    async def clear_topic(self, topic: str) -> None:
        try:
            await self._ready(even_draining=True)
            await self._driver.clear(topic)
        except Exception:
            logger.warning("topic not cleared", extra={"topic": topic}, exc_info=True)
            return
        self._topics.forget(topic)
        self._topics.signal(topic)

    async def trim_topic(
        self, topic: str, *, run_id: str, produced_before_ms: int | None = None
    ) -> None:
        try:
            await self._ready(even_draining=True)
            await self._driver.trim(topic, run_id=run_id, produced_before_ms=produced_before_ms)
        except Exception:
            logger.warning("topic not trimmed", extra={"topic": topic}, exc_info=True)

    # -- dead letters --------------------------------------------------------------------------------

    async def list_dead(self, topic: str, *, group: str | None = None) -> list[DeadLetter]:
        await self._ready_for_dead_letters()
        return await self._driver.list_dead(topic, group)

    async def requeue_dead(self, topic: str, dead_letter_id: str) -> bool:
        await self._ready_for_dead_letters()
        found = await self._driver.requeue_dead(topic, dead_letter_id)
        self._topics.signal(topic)
        return found

    async def purge_dead(self, topic: str) -> int:
        await self._ready_for_dead_letters()
        return await self._driver.purge_dead(topic)

    # -- opening, flushing, closing --------------------------------------------------------------------

    def get_lease_provider(self) -> LeaseProvider | None:
        """The lease provider of this bus; adapters that lease override it."""
        return None

    async def flush(self, *, timeout_ms: int = 30_000) -> None:
        """
        As the contract says.

        Called by a handler, it doesn't wait for that handler.

        Raises:
            FlushTimeoutError: Something is still under way after ``timeout_ms``.
        """
        await self._ready()
        if not await within(self._clock, self._drain(asyncio.current_task()), timeout_ms / 1000):
            raise FlushTimeoutError(timeout_ms=timeout_ms, running=self._topics.count_active())

    async def aclose(self) -> None:
        opening = self._opening
        if self._state is None and opening is not None:
            # It can't be called back; what it opens is closed below.
            await asyncio.wait([opening])
            if not opening.cancelled():
                opening.exception()
        if self._state is None:
            self._state = _CLOSED
        if self._closing is None and self._state is _OPEN:
            self._state = _DRAINING
            self._closing = asyncio.get_running_loop().create_task(
                self._close(asyncio.current_task()), name="bus-close"
            )
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def __aenter__(self) -> Self:
        try:
            await self._ready()
        except asyncio.CancelledError:
            # Nobody will leave the block that nobody entered.
            await shielded(self.aclose(), _CANCELLED_OPEN_S)
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _release_leases(self) -> None:
        """Part of closing: adapters that lease let go of what they hold."""

    # -- inside ----------------------------------------------------------------------------------------

    async def _ready(self, *, even_draining: bool = False) -> None:
        """Open with the first call; refuse when closed."""
        if self._state is None:
            if self._opening is None:
                self._opening = asyncio.get_running_loop().create_task(
                    self._open(), name="bus-open"
                )
            try:
                await asyncio.shield(self._opening)
            except Exception:
                self._opening = None  # the next call tries anew
                raise
        if self._state is _OPEN or (even_draining and self._state is _DRAINING):
            return
        raise PubSubClosedError

    async def _open(self) -> None:
        await self._driver.open()
        self._stamps.seed()
        self.capabilities = self._driver.capabilities
        self._state = _OPEN
        self._waking = self._runtime.spawn(self._follow_hints(), name="bus-wake")

    async def _ready_for_dead_letters(self) -> None:
        await self._ready()
        if not self.capabilities.dead_letter:
            raise self._unsupported("dead_letter")

    def _outgoing(
        self, topic: str, event: Event, dedupe_id: str | None, fence: FenceToken | None = None
    ) -> Outgoing:
        """
        The event as the log takes it.

        Raises:
            EventTooLargeError, WireEncodeError: It takes no such event.
        """
        stamped = self._stamped(topic, event, dedupe_id)
        stamped.cursor = None
        payload, size = self._driver.encode(topic, stamped)
        limit = self.capabilities.max_event_bytes
        if limit is not None and size > limit:
            raise EventTooLargeError(topic=topic, size=size, limit=limit)
        return Outgoing(stamped, payload, size, dedupe_id, fence)

    def _stamped(self, topic: str, event: Event, dedupe_id: str | None) -> Event:
        stamped = envelope(event, 1, topic)
        stamped.id = dedupe_id or self._stamps.new_id()
        stamped.created_at = self._stamps.now()
        return stamped

    def _unsupported(self, capability: str) -> CapabilityNotSupportedError:
        return CapabilityNotSupportedError(
            adapter=self.name, capability=f"pubsub.{capability}", role="pubsub"
        )

    async def _follow_hints(self) -> None:
        """Wake the readers of topics that may have news (E1)."""
        warner = Warner(self._clock)
        while True:
            try:
                topics = await self._driver.wake()
                warner.recovered()
            except PubSubClosedError:
                return
            except Exception as exc:  # noqa: BLE001 – P17
                await self._clock.sleep(warner.failed("wake", exc, self._runtime.jitter()))
                topics = None
            self._topics.signal_all(topics)

    async def _subscribe(
        self,
        topic: str,
        handler: EventHandler,
        group: str | None,
        start: Start,
        options: SubscriptionOptions,
    ) -> None:
        await self._ready()
        check_topic(topic)
        key = HandlerKey(topic, handler)
        while (existing := self._subscriptions.get(key)) is not None:
            if existing.group != group:
                self._subscriptions.pop(key)
                await self._close_subscription(existing)
            elif await asyncio.shield(existing.opened):
                return
        subscription = self._topics.make(topic, handler, group, options)
        self._subscriptions[key] = subscription
        try:
            await self._topics.attach(subscription, start)
        except BaseException:
            if self._subscriptions.get(key) is subscription:
                del self._subscriptions[key]
            subscription.close()
            await self._topics.detach(subscription)
            subscription.opened.set_result(False)
            raise
        subscription.opened.set_result(True)

    async def _close_subscription(self, subscription: Subscription) -> None:
        """Stop it; an unsubscribe that comes while it is being opened wins."""
        subscription.close()
        await asyncio.shield(subscription.opened)
        await self._topics.detach(subscription)

    async def _drain(self, caller: asyncio.Task[Any] | None) -> None:
        """Until everything accepted so far was stored, dispatched, and settled or returned."""
        changes = self._runtime.changes
        await changes.wait_until(lambda: self._publisher.is_idle)
        if isinstance(self._driver, ListeningDriver):
            self._driver.ask_again()
        self._topics.signal_all(None)
        await changes.wait_until(lambda: not self._topics.is_behind)
        await self._topics.flush_buffers()
        running = self._topics.active(caller)
        await changes.wait_until(
            lambda: all(delivery.settled or not delivery.running for delivery in running)
        )
        await self._topics.settled()

    async def _close(self, caller: asyncio.Task[Any] | None) -> None:
        try:
            if self._waking is not None:
                self._waking.cancel()
            self._topics.stop_reading()
            for subscription in self._subscriptions.values():
                subscription.close()
            self._subscriptions.clear()
            running = self._topics.active(caller)
            changes = self._runtime.changes
            drain_s = self.settings.drain_timeout_ms / 1000
            handlers_end = changes.wait_until(lambda: not any(held.running for held in running))
            await within(self._clock, handlers_end, drain_s)
            await within(self._clock, self._topics.cancel_handlers(caller), _CANCEL_S)
            await self._topics.leave_groups()
            writes_end = changes.wait_until(lambda: self._publisher.is_idle)
            await within(self._clock, writes_end, drain_s)
            await self._release_leases()
        finally:
            self._state = _CLOSED
            await self._cancel_tasks(caller)
            await self._driver.close()

    async def _cancel_tasks(self, caller: asyncio.Task[Any] | None) -> None:
        tasks = [task for task in self._runtime.tasks if task is not caller]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
