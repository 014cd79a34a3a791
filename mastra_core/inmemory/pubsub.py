"""The bus in this process's memory: the whole contract, bounded, gone with its last user.

Two instances with one ``memory:name`` of one context share topics as two processes share
a server: ``local_only`` events and group members belong to the instance.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager

from pydantic import Field

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.ids import Ids, UuidIds
from mastra_core.bus import (
    BusOptions,
    Claims,
    EventEngine,
    Outgoing,
    Page,
    Position,
    Settlement,
    Start,
)
from mastra_core.contracts.pubsub import DeadLetter, PubSubCapabilities
from mastra_core.errors import MastraError, PubSubClosedError
from mastra_core.inmemory.capabilities import MAX_EVENT_BYTES, PUBSUB_CAPABILITIES
from mastra_core.inmemory.hub import Hints, Hub, HubLimits, hub_key, open_hub
from mastra_core.inmemory.lease import InMemoryLease, InMemoryLeaseSettings
from mastra_core.inmemory.payload import copy_payload
from mastra_core.inmemory.topic_log import LogLimits
from mastra_core.inmemory.url import MemoryUrl
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.events import Event

__all__ = ("InMemoryPubSub", "InMemoryPubSubSettings", "MemoryDriver")


class InMemoryPubSubSettings(BusOptions):
    """Options of ``memory:`` as a bus; instances of one ``memory:name`` share topics."""

    url: MemoryUrl = "memory:"
    #: Bytes of retained events per topic; the oldest go first.
    max_topic_bytes: int = Field(default=64 * 1024 * 1024, ge=1)
    #: Events that a live group hasn't settled; when there are so many, publishing is refused.
    max_unsettled: int = Field(default=100_000, ge=1)
    #: Beyond so many, topics that nobody uses are forgotten.
    max_topics: int = Field(default=10_000, ge=1)
    #: A topic that nobody uses or writes for so long is forgotten.
    idle_ttl_ms: int = Field(default=3_600_000, ge=1)
    lock_delay_ms: int = Field(default=0, ge=0)

    def hub_limits(self) -> HubLimits:
        """What bounds the shared memory; the first user of a name decides."""
        return HubLimits(
            log=LogLimits(
                max_entries=self.max_entries,
                max_bytes=self.max_topic_bytes,
                max_unsettled=self.max_unsettled,
                dedupe_window_ms=self.dedupe_window_ms,
            ),
            max_topics=self.max_topics,
            idle_ttl_ms=self.idle_ttl_ms,
        )


class MemoryDriver:
    """A hub as the engine sees it; every step is atomic since none of them waits."""

    def __init__(
        self,
        clock: Clock,
        ids: Ids,
        hub: Hub | AbstractAsyncContextManager[Hub],
        *,
        capabilities: PubSubCapabilities = PUBSUB_CAPABILITIES,
    ) -> None:
        self.capabilities = capabilities
        self._clock = clock
        self._ids = ids
        self._share = None if isinstance(hub, Hub) else hub
        self._hub = hub if isinstance(hub, Hub) else None
        self._hints: Hints | None = None
        self._is_closed = False

    @property
    def hub(self) -> Hub:
        """The shared memory; there from ``open`` to ``close``."""
        if self._hub is None or self._is_closed:
            raise PubSubClosedError
        return self._hub

    async def open(self) -> None:
        if self._share is not None:
            self._hub = await self._share.__aenter__()
        self._hints = self.hub.listen()

    async def close(self) -> None:
        self._is_closed = True
        if self._hub is not None and self._hints is not None:
            self._hub.stop_listening(self._hints)
        if self._share is not None and self._hub is not None:
            await self._share.__aexit__(None, None, None)

    def encode(self, topic: str, event: Event) -> tuple[Event, int]:
        data, size = copy_payload(event.data, MAX_EVENT_BYTES)
        extra = event.extra
        if extra:
            extra, extra_size = copy_payload(extra, MAX_EVENT_BYTES)
            size += extra_size
        event.data = data
        event.extra = extra
        return event, size

    async def append(self, topic: str, batch: Sequence[Outgoing]) -> Sequence[Exception | None]:
        errors: list[Exception | None] = []
        for outgoing in batch:
            try:
                self.append_now(topic, outgoing)
            except MastraError as exc:
                errors.append(exc)
            else:
                errors.append(None)
        return errors

    def append_now(self, topic: str, outgoing: Outgoing) -> None:
        hub = self.hub
        if outgoing.fence is not None:
            hub.check_fence(outgoing.fence)
        now_ms = self._clock.now_ms()
        log = hub.topic(topic, now_ms)
        log.append(outgoing, now_ms, is_numbered=self.capabilities.offsets)
        hub.tell_others(topic, self._hints)

    async def locate(self, topic: str, start: Start) -> Position:
        return self.hub.existing(topic).locate(start)

    async def read_after(self, topic: str, position: Position, limit: int) -> Page:
        return self.read_now(topic, position, limit)

    def read_now(self, topic: str, position: Position, limit: int) -> Page:
        return self.hub.existing(topic).read_after(position, limit)

    async def watch(self, topics: Collection[str]) -> None:
        if self._hints is not None:
            self._hints.watched = frozenset(topics)

    async def wake(self) -> Collection[str] | None:
        if self._hints is None:
            raise PubSubClosedError
        return await self._hints.wait()

    async def join_group(self, topic: str, group: str, consumer: str, start: Start) -> None:
        self.hub.topic(topic, self._clock.now_ms()).join(group, consumer, start)

    async def leave_group(self, topic: str, group: str, consumer: str) -> None:
        self.hub.existing(topic).leave(group, consumer, self._clock.monotonic())
        self.hub.tell_others(topic, self._hints)

    async def claim(
        self,
        topic: str,
        group: str,
        consumer: str,
        *,
        limit: int,
        ack_wait_ms: int,
        ordered: bool,
    ) -> Claims:
        now = self._clock.monotonic()
        return self.hub.topic(topic, self._clock.now_ms()).claim(
            group,
            consumer,
            limit=limit,
            visible_at=now + ack_wait_ms / 1000,
            now=now,
            ordered=ordered,
        )

    async def settle(
        self, topic: str, group: str, consumer: str, settlements: Sequence[Settlement]
    ) -> Sequence[DeadLetter]:
        letters = self.hub.existing(topic).settle(
            group,
            consumer,
            settlements,
            now=self._clock.monotonic(),
            now_ms=self._clock.now_ms(),
            new_id=lambda: self._ids.new("dead_letter"),
        )
        # An ordered group of another instance may go on; so may one that waits for a nack.
        self.hub.tell_others(topic, self._hints)
        return letters

    async def extend(
        self,
        topic: str,
        group: str,
        consumer: str,
        held: Sequence[tuple[Position, int]],
        ack_wait_ms: int,
    ) -> None:
        until = self._clock.monotonic() + ack_wait_ms / 1000
        self.hub.existing(topic).extend(group, consumer, held, until)

    async def clear(self, topic: str) -> None:
        self.hub.existing(topic).clear()
        self.hub.tell_others(topic, self._hints)

    async def trim(self, topic: str, *, run_id: str, produced_before_ms: int | None) -> None:
        self.hub.existing(topic).trim(run_id, produced_before_ms)

    async def list_dead(self, topic: str, group: str | None) -> list[DeadLetter]:
        return self.hub.existing(topic).list_dead(group, self._clock.now_ms())

    async def requeue_dead(self, topic: str, dead_letter_id: str) -> bool:
        clock = self._clock
        found = self.hub.existing(topic).requeue(dead_letter_id, clock.monotonic(), clock.now_ms())
        self.hub.tell_others(topic, self._hints)
        return found

    async def purge_dead(self, topic: str) -> int:
        return self.hub.existing(topic).purge_dead()


class InMemoryPubSub(EventEngine):
    """
    A bus in memory.

    Args:
        settings: Times and limits.
        context: Clock, ids, and what instances of one name share. Without it the
            instance has topics and leases of its own.
    """

    def __init__(
        self,
        settings: InMemoryPubSubSettings | None = None,
        context: AdapterContext | None = None,
    ) -> None:
        settings = settings or InMemoryPubSubSettings()
        clock: Clock = context.clock if context else SystemClock()
        ids: Ids = context.ids if context else UuidIds()
        limits = settings.hub_limits()
        lease_settings = InMemoryLeaseSettings(
            url=settings.url, lock_delay_ms=settings.lock_delay_ms
        )
        if context is None:
            hub = Hub(clock, limits)
            driver = MemoryDriver(clock, ids, hub)
            self._lease = InMemoryLease(lease_settings, hub=hub)
        else:
            driver = MemoryDriver(
                clock,
                ids,
                context.share(hub_key(settings.url), lambda: open_hub(lambda: Hub(clock, limits))),
            )
            self._lease = InMemoryLease(lease_settings, context)
        super().__init__(
            driver,
            settings=settings.bus_settings(),
            clock=clock,
            ids=ids,
            rng=random.Random(),  # noqa: S311 – spreads retries, protects nothing
            name="memory",
        )

    def get_lease_provider(self) -> InMemoryLease:
        return self._lease

    async def _release_leases(self) -> None:
        await self._lease.aclose()
