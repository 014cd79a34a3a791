"""Every subscriber gets every event: one position per subscriber, none in the store (E2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mastra_core.bus.delivery import DONE, Delivery, envelope
from mastra_core.bus.driver import DirectDriver, Page, Position, RememberingDriver
from mastra_core.bus.handlers import call_if_given
from mastra_core.bus.redelivery import RetryQueue
from mastra_core.bus.runtime import BusRuntime, Warner
from mastra_core.bus.subscriptions import Subscription, SubscriptionOptions
from mastra_core.contracts.pubsub import DeadLetter, EventHandler
from mastra_core.errors import PubSubClosedError

__all__ = ("FanoutReader", "FanoutSubscription")

logger = logging.getLogger(__name__)


class FanoutSubscription(Subscription):
    """A subscriber with a place of its own in the log."""

    def __init__(
        self,
        runtime: BusRuntime,
        topic: str,
        handler: EventHandler,
        options: SubscriptionOptions,
        room_came: Callable[[], None],
    ) -> None:
        super().__init__(runtime, topic, handler, options)
        self.position: Position = (0, 0)
        self._retries: RetryQueue[Delivery] = RetryQueue(runtime.clock, self._again)
        self._room_came = room_came
        self._loop = asyncio.get_running_loop()
        #: Whether it was left out for want of room, so that it must say when there is some.
        self.was_full = False

    def take(self, page: Page) -> bool:
        """Deliver a page as far as there is room; True if anything moved on."""
        before = self.position
        if page.gap is not None:
            self._report_gap(*page.gap)
        for entry in page.entries:
            if self.slots.is_full:
                self.was_full = True
                return self.position != before
            self.position = entry.position
            event = envelope(entry.event, 1, self.topic)
            self.offer(Delivery(self, event, entry.position, 1))
            if self.is_closed:
                return False
        self.position = page.position
        return self.position != before

    def close(self) -> None:
        super().close()
        self.slots.used -= len(self._retries.clear())

    def forget(self) -> None:
        super().forget()
        for _ in self._retries.clear():
            self._release()

    def acked(self, delivery: Delivery) -> Awaitable[None]:
        self.runtime.changes.tell()
        return DONE

    def nacked(self, delivery: Delivery, error: str | None) -> Awaitable[None]:
        if delivery.is_local:
            logger.warning(
                "nack of a local event does nothing",
                extra={"topic": self.topic, "event_id": delivery.event.id},
            )
        elif self.runtime.policy.is_last(delivery.attempt):
            self.runtime.spawn(self.runtime.gave_up(self._letter(delivery, error)), name="bus-dead")
        elif not self.is_closed:
            # The retry keeps a slot, so a subscriber that always fails stops reading.
            self.slots.used += 1
            self._retries.add(delivery, self.runtime.policy.delay_ms(delivery.attempt))
        self.runtime.changes.tell()
        return DONE

    def handler_returned(self, delivery: Delivery) -> None:
        self._release()

    def room_came(self) -> None:
        if self.local:
            self._loop.call_soon(self.drain_local)
        if self.was_full:
            self.was_full = False
            self._room_came()

    def _give_back(self, delivery: Delivery) -> None:
        self.slots.used -= 1

    def _again(self, failed: Delivery) -> None:
        attempt = failed.attempt + 1
        event = envelope(failed.event, attempt, self.topic)
        self.slots.used -= 1  # the retry's own, taken again by what follows
        self.offer(Delivery(self, event, failed.position, attempt))

    def _letter(self, delivery: Delivery, error: str | None) -> DeadLetter:
        return DeadLetter(
            id=self.runtime.ids.new("dead_letter"),
            topic=self.topic,
            group=None,
            event=delivery.event,
            attempts=delivery.attempt,
            last_error=error,
            dead_at_ms=self.runtime.clock.now_ms(),
        )

    def _report_gap(self, first_missing: int, first_available: int) -> None:
        logger.warning(
            "events missed, the log was trimmed",
            extra={"topic": self.topic, "from": first_missing, "to": first_available},
        )

        async def report() -> None:
            try:
                await call_if_given(self.options.on_gap, first_missing, first_available)
            except Exception:
                logger.exception("on_gap failed", extra={"topic": self.topic})

        if self.options.on_gap is not None:
            self.runtime.spawn(report(), name="bus-gap")


class FanoutReader:
    """Reads one topic for all its subscribers; those at the same place share a read."""

    def __init__(self, runtime: BusRuntime, topic: str) -> None:
        self.topic = topic
        self.subscriptions: list[FanoutSubscription] = []
        self._runtime = runtime
        self._direct = runtime.driver if isinstance(runtime.driver, DirectDriver) else None
        driver = runtime.driver
        self._remembering = driver if isinstance(driver, RememberingDriver) else None
        self._limit = runtime.settings.read_batch
        self._news = asyncio.Event()
        self._is_scheduled = False
        self._is_reading = False
        self._task: asyncio.Task[None] | None = None
        self._warner = Warner(runtime.clock)
        self._loop = asyncio.get_running_loop()

    @property
    def is_behind(self) -> bool:
        """Whether there may be something that was not yet dispatched but could be."""
        return self._is_scheduled or self._is_reading or self._news.is_set()

    def add(self, subscription: FanoutSubscription) -> None:
        """Serve it from now on."""
        self.subscriptions.append(subscription)
        if self._direct is None and self._task is None:
            self._task = self._runtime.spawn(self._run(), name="bus-fanout")
        self.signal()

    def remove(self, subscription: FanoutSubscription) -> None:
        """Serve it no more."""
        if subscription in self.subscriptions:
            self.subscriptions.remove(subscription)
        if not self.subscriptions:
            self.stop()

    def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._news.clear()
        self._is_reading = False

    def signal(self) -> None:
        """There may be news, or room."""
        if self._direct is None:
            self._news.set()
        elif not self._is_scheduled:
            # Never at once: a publish inside a handler must queue behind its event (P12).
            self._is_scheduled = True
            self._loop.call_soon(self._pump, self._direct, context=self._runtime.context)

    def _pump(self, driver: DirectDriver) -> None:
        self._is_scheduled = False
        try:
            more = False
            for subscription in tuple(self.subscriptions):
                if not subscription.slots.is_full:
                    page = driver.read_now(self.topic, subscription.position, self._limit)
                    moved = subscription.take(page)
                    more = more or (moved and len(page.entries) >= self._limit)
                else:
                    subscription.was_full = True
            if more:
                self.signal()
            self._runtime.changes.tell()
        except PubSubClosedError:
            pass

    async def _run(self) -> None:
        while True:
            self._news.clear()
            self._is_reading = True
            try:
                is_more = await self._read_round()
                self._warner.recovered()
            except PubSubClosedError:
                return
            except Exception as exc:  # noqa: BLE001 – P17: the reader goes on
                pause = self._warner.failed("read", exc, self._runtime.jitter())
                await self._runtime.clock.sleep(pause)
                continue
            self._is_reading = False
            if not is_more:
                self._runtime.changes.tell()
                await self._news.wait()

    async def _read_round(self) -> bool:
        """One read per place where subscribers with room stand; True if there may be more."""
        is_more = False
        places: dict[Position, list[FanoutSubscription]] = {}
        for subscription in self.subscriptions:
            if subscription.free:
                places.setdefault(subscription.position, []).append(subscription)
            else:
                subscription.was_full = True
        for position, standing in places.items():
            page = await self._read(position, is_only=len(places) == 1)
            for subscription in standing:
                if not subscription.is_closed and subscription.position == position:
                    has_moved = subscription.take(page)
                    is_more = is_more or (has_moved and not page.is_last)
        return is_more

    async def _read(self, position: Position, *, is_only: bool) -> Page:
        # Doubts about what is remembered are dispelled by one read; other places need theirs.
        if self._remembering is not None and is_only:
            page = self._remembering.remembered(self.topic, position, self._limit)
            if page is not None:
                return page
        return await self._runtime.driver.read_after(self.topic, position, self._limit)
