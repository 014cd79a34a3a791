"""The subscriptions of one engine, by topic and group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mastra_core.bus.delivery import Delivery
from mastra_core.bus.driver import Start
from mastra_core.bus.fanout import FanoutReader, FanoutSubscription
from mastra_core.bus.groups import GroupMember, GroupReader
from mastra_core.bus.runtime import BusRuntime
from mastra_core.bus.subscriptions import Subscription, SubscriptionOptions
from mastra_core.contracts.pubsub import EventHandler
from mastra_core.errors import PubSubError
from mastra_core.wire.events import Event

__all__ = (
    "INVALID_TOPIC",
    "MAX_TOPIC_BYTES",
    "Topics",
    "check_topic",
)

MAX_TOPIC_BYTES = 1024
INVALID_TOPIC = "MASTRA_PUBSUB_TOPIC_INVALID"


def check_topic(topic: str) -> None:
    """
    Refuse what no transport carries (P13).

    Raises:
        PubSubError: It is empty, longer than 1024 bytes, or has a lone surrogate.
    """
    if topic.isascii() and 0 < len(topic) <= MAX_TOPIC_BYTES:
        return
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        raise PubSubError(f"Topic {topic!r} holds a lone surrogate.", id=INVALID_TOPIC) from None
    if not 0 < size <= MAX_TOPIC_BYTES:
        raise PubSubError(
            f"A topic has 1 … {MAX_TOPIC_BYTES} bytes of UTF-8, but this one has {size}.",
            id=INVALID_TOPIC,
        )


@dataclass(slots=True)
class _Topic:
    fanout: FanoutReader
    groups: dict[str, GroupReader] = field(default_factory=dict)
    #: Subscriptions that are attached or about to be.
    users: set[Subscription] = field(default_factory=set)
    #: Subscriptions whose last handlers still run.
    leaving: set[Subscription] = field(default_factory=set)


class Topics:
    """Attaches subscriptions to readers and tells readers about news."""

    def __init__(self, runtime: BusRuntime) -> None:
        self._runtime = runtime
        self._topics: dict[str, _Topic] = {}
        self._watching = asyncio.Lock()
        self._watched: frozenset[str] = frozenset()

    # -- attaching and detaching -----------------------------------------------------------------

    def make(
        self, topic: str, handler: EventHandler, group: str | None, options: SubscriptionOptions
    ) -> Subscription:
        """A subscription that isn't attached yet."""
        entry = self._topics.get(topic)
        if entry is None:
            entry = self._topics[topic] = _Topic(FanoutReader(self._runtime, topic))
        subscription: Subscription
        if group is None:
            subscription = FanoutSubscription(
                self._runtime, topic, handler, options, entry.fanout.signal
            )
        else:
            reader = self._reader_of(entry, topic, group)
            subscription = GroupMember(self._runtime, topic, handler, options, reader)
        entry.users.add(subscription)
        return subscription

    async def attach(self, subscription: Subscription, start: Start) -> None:
        """From when this returns, every later event reaches it (P1)."""
        await self._watch()
        driver, topic = self._runtime.driver, subscription.topic
        entry = self._topics[topic]
        if isinstance(subscription, FanoutSubscription):
            subscription.position = await driver.locate(topic, start)
            if not subscription.is_closed:
                entry.fanout.add(subscription)
        elif isinstance(subscription, GroupMember):
            await subscription.reader.join(start)
            if not subscription.is_closed:
                subscription.reader.add(subscription)

    async def detach(self, subscription: Subscription) -> None:
        """Serve it no more, and forget a topic that nobody uses."""
        entry = self._topics.get(subscription.topic)
        if entry is None or subscription not in entry.users:
            return
        entry.users.discard(subscription)
        if subscription.active:
            entry.leaving.add(subscription)
        if isinstance(subscription, FanoutSubscription):
            entry.fanout.remove(subscription)
        elif isinstance(subscription, GroupMember):
            await subscription.reader.remove(subscription)
        self._forget_unused(subscription.topic)
        await self._watch()

    def _reader_of(self, entry: _Topic, topic: str, group: str) -> GroupReader:
        reader = entry.groups.get(group)
        if reader is None:

            def left() -> None:
                if entry.groups.get(group) is reader:
                    del entry.groups[group]
                self._forget_unused(topic)

            reader = entry.groups[group] = GroupReader(self._runtime, topic, group, left=left)
        return reader

    def _forget_unused(self, topic: str) -> None:
        entry = self._topics.get(topic)
        if entry is None:
            return
        entry.leaving = {subscription for subscription in entry.leaving if subscription.active}
        if not entry.users and not entry.groups and not entry.leaving:
            del self._topics[topic]

    async def _watch(self) -> None:
        """Let the store speak of exactly the topics in use."""
        async with self._watching:
            wanted = frozenset(topic for topic, entry in self._topics.items() if entry.users)
            if wanted != self._watched:
                await self._runtime.driver.watch(wanted)
                self._watched = wanted

    # -- news ------------------------------------------------------------------------------------

    def signal(self, topic: str) -> None:
        """There may be news of the topic."""
        entry = self._topics.get(topic)
        if entry is not None:
            if entry.fanout.subscriptions:
                entry.fanout.signal()
            for reader in entry.groups.values():
                reader.signal()

    def signal_all(self, topics: Iterable[str] | None) -> None:
        """There may be news of these, or of any."""
        for topic in list(self._topics) if topics is None else topics:
            self.signal(topic)

    def offer_local(self, topic: str, event: Event) -> None:
        """Every subscriber of this process, and one member of each of its groups (P9)."""
        entry = self._topics.get(topic)
        if entry is not None:
            for subscription in entry.fanout.subscriptions:
                subscription.offer_local(event)
            for reader in entry.groups.values():
                reader.offer_local(event)

    def forget(self, topic: str) -> None:
        """Drop what was read but not delivered: the topic was cleared (P16)."""
        entry = self._topics.get(topic)
        if entry is not None:
            for subscription in tuple(entry.users):
                subscription.forget()

    # -- draining and closing --------------------------------------------------------------------

    @property
    def is_behind(self) -> bool:
        """Whether a reader has something to look at."""
        return any(
            (entry.fanout.subscriptions and entry.fanout.is_behind)
            or any(reader.is_behind for reader in entry.groups.values())
            for entry in self._topics.values()
        )

    def active(self, except_task: asyncio.Task[Any] | None) -> list[Delivery]:
        """Deliveries whose handlers run now, save the one that asks."""
        return [
            delivery
            for subscription in self._all()
            for delivery in subscription.active
            if except_task is None or delivery.task is not except_task
        ]

    def count_active(self) -> int:
        """How many handlers run now."""
        return sum(len(subscription.active) for subscription in self._all())

    async def flush_buffers(self) -> None:
        """Deliver what waits in batch buffers."""
        buffers = [subscription.buffer for subscription in self._all() if subscription.buffer]
        await asyncio.gather(*(buffer.flush() for buffer in buffers))

    async def settled(self) -> None:
        """Wait until the store has heard of everything that was settled."""
        for reader in list(self._readers()):
            await reader.settled()

    def stop_reading(self) -> None:
        """Take nothing new from the store."""
        for entry in self._topics.values():
            entry.fanout.stop()
            for reader in entry.groups.values():
                reader.stop_claiming()

    async def cancel_handlers(self, except_task: asyncio.Task[Any] | None) -> None:
        """End the handlers that didn't end by themselves."""
        tasks = [
            delivery.task for delivery in self.active(except_task) if delivery.task is not None
        ]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def leave_groups(self) -> None:
        """Give back what is unsettled, so that others get it at once."""
        for reader in list(self._readers()):
            await reader.leave()

    def _readers(self) -> Iterator[GroupReader]:
        for entry in self._topics.values():
            yield from entry.groups.values()

    def _all(self) -> Iterator[Subscription]:
        for entry in list(self._topics.values()):
            yield from tuple(entry.users)
            yield from tuple(entry.leaving)
