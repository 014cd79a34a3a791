"""Numbered history for a bus that keeps none, in a server cache (pubsub_and_lease.md 4).

A bus with offsets of its own is passed through untouched: one layer owns replay and
offsets, never two.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.ids import Ids, UuidIds
from mastra_core.bus.cache import ServerCache
from mastra_core.bus.delivery import envelope
from mastra_core.bus.handlers import HandlerKey
from mastra_core.bus.replay import EPOCH, Replay
from mastra_core.bus.trimming import is_trimmable
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.contracts.pubsub import (
    BatchPolicy,
    DeadLetter,
    EventHandler,
    FenceToken,
    PubSub,
    StartFrom,
)
from mastra_core.wire.events import Event, event_from_wire, event_to_wire

__all__ = ("CachingPubSub",)

logger = logging.getLogger(__name__)


class CachingPubSub:
    """
    A bus around another one; implements ``contracts.pubsub.PubSub``.

    Args:
        inner: Carries the events; closed together with this one.
        cache: Keeps the history.
        key_prefix: Before the topic in the keys of the cache.
        should_cache: Which topics have a history; all without it.
        max_entries: How many events of a topic are kept (W5).
        reorder_window_ms: How long an event that overtook others waits for them (W1).
        clock: Stamps events and measures the window.
        ids: Makes event ids.
    """

    def __init__(
        self,
        inner: PubSub,
        cache: ServerCache,
        *,
        key_prefix: str = "pubsub:",
        should_cache: Callable[[str], bool] | None = None,
        max_entries: int = 10_000,
        reorder_window_ms: int = 250,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._inner = inner
        self._cache = cache
        self._key_prefix = key_prefix
        self._should_cache = should_cache
        self._max_entries = max_entries
        self._window_s = reorder_window_ms / 1000
        self._clock = clock or SystemClock()
        self._ids = ids or UuidIds()
        self._owns_history = not inner.capabilities.offsets
        #: By topic *and* handler (W2).
        self._replays: dict[HandlerKey, Replay] = {}
        self.capabilities = replace(inner.capabilities, history=True, offsets=True)

    def get_inner(self) -> PubSub:
        """The bus inside."""
        return self._inner

    def get_lease_provider(self) -> LeaseProvider | None:
        """That of the bus inside; None if it doesn't lease."""
        return self._inner.get_lease_provider()

    async def publish(
        self,
        topic: str,
        event: Event,
        *,
        local_only: bool = False,
        dedupe_id: str | None = None,
        fence: FenceToken | None = None,
    ) -> None:
        if local_only or not self._has_history(topic):
            await self._inner.publish(
                topic, event, local_only=local_only, dedupe_id=dedupe_id, fence=fence
            )
            return
        stamped = envelope(event, 1, topic)
        stamped.index = None
        # One id for the cached and the live copy: the inner bus takes it over.
        stamped.id = dedupe_id or self._ids.new("event")
        stamped.created_at = self._clock.now()
        if fence is None:
            await self._number(topic, stamped)
        await self._inner.publish(topic, stamped, dedupe_id=stamped.id, fence=fence)
        if fence is not None:
            # Only what wasn't fenced out may be in the history, so it goes there afterwards.
            await self._number(topic, stamped)

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
        await self._inner.subscribe(
            topic,
            handler,
            group=group,
            start_from=start_from,
            batch=batch,
            max_in_flight=max_in_flight,
            ordered=ordered,
            on_gap=on_gap,
        )

    async def unsubscribe(self, topic: str, handler: EventHandler) -> None:
        replay = self._replays.pop(HandlerKey(topic, handler), None)
        await self._inner.unsubscribe(topic, handler if replay is None else replay.on_event)

    async def subscribe_with_replay(self, topic: str, handler: EventHandler) -> None:
        await self.subscribe_from_offset(topic, 0, handler)

    async def subscribe_from_offset(
        self,
        topic: str,
        offset: int,
        handler: EventHandler,
        *,
        on_gap: Callable[[int, int], Any] | None = None,
    ) -> None:
        if not self._owns_history:
            await self._inner.subscribe_from_offset(topic, offset, handler, on_gap=on_gap)
            return
        key = HandlerKey(topic, handler)
        if key in self._replays:
            return

        async def read(start: int) -> list[Event]:
            return await self._read(topic, start)

        replay = self._replays[key] = Replay(
            handler, max(0, offset), window_s=self._window_s, clock=self._clock, get_history=read
        )
        try:
            # Live first, so that nothing falls between; it waits until the history is through.
            await self._inner.subscribe(topic, replay.on_event, start_from="latest")
            await replay.replay()
        except BaseException:
            await self.unsubscribe(topic, handler)
            raise

    async def get_history(self, topic: str, offset: int = 0) -> list[Event]:
        if not self._owns_history:
            return await self._inner.get_history(topic, offset)
        events = await self._read(topic, max(0, offset))
        for event in events:
            event.extra.pop(EPOCH, None)
        return events

    async def flush(self, *, timeout_ms: int = 30_000) -> None:
        await self._inner.flush(timeout_ms=timeout_ms)

    async def clear_topic(self, topic: str) -> None:
        await asyncio.gather(self._clear_cache(topic), self._inner.clear_topic(topic))

    async def trim_topic(
        self, topic: str, *, run_id: str, produced_before_ms: int | None = None
    ) -> None:
        await asyncio.gather(
            self._trim_cache(topic, run_id, produced_before_ms),
            self._inner.trim_topic(topic, run_id=run_id, produced_before_ms=produced_before_ms),
        )

    async def list_dead(self, topic: str, *, group: str | None = None) -> list[DeadLetter]:
        return await self._inner.list_dead(topic, group=group)

    async def requeue_dead(self, topic: str, dead_letter_id: str) -> bool:
        return await self._inner.requeue_dead(topic, dead_letter_id)

    async def purge_dead(self, topic: str) -> int:
        return await self._inner.purge_dead(topic)

    async def aclose(self) -> None:
        await self._inner.aclose()
        self._replays.clear()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _has_history(self, topic: str) -> bool:
        if not self._owns_history:
            return False
        return self._should_cache is None or self._should_cache(topic)

    def _list_key(self, topic: str) -> str:
        return f"{self._key_prefix}{topic}"

    def _counter_key(self, topic: str) -> str:
        return f"{self._key_prefix}{topic}:counter"

    async def _number(self, topic: str, event: Event) -> None:
        """Give it the next index and keep it; without a cache it goes out without."""
        try:
            put = await self._cache.list_push_indexed(
                self._list_key(topic),
                self._counter_key(topic),
                event_to_wire(event),
                max_entries=self._max_entries,
            )
        except Exception:
            logger.exception("event not cached", extra={"topic": topic})
            return
        event.index = put.index
        event.extra[EPOCH] = put.epoch

    async def _read(self, topic: str, offset: int) -> list[Event]:
        """By index, not by place: the list may have lost its head or its counter (W4)."""
        try:
            elements = await self._cache.list_from_to(self._list_key(topic), 0)
        except Exception:
            logger.exception("history not read", extra={"topic": topic})
            return []
        epoch = await self._current_epoch(topic)
        events = []
        for element in elements:
            event = event_from_wire(element, topic=topic)
            if event.index is not None and event.index >= offset:
                if epoch is not None:
                    event.extra[EPOCH] = epoch
                events.append(event)
        return sorted(events, key=lambda event: event.index or 0)

    async def _current_epoch(self, topic: str) -> int | None:
        try:
            epoch = await self._cache.get(f"{self._counter_key(topic)}:epoch")
        except Exception:
            logger.exception("history not read", extra={"topic": topic})
            return None
        return epoch if isinstance(epoch, int) else None

    async def _clear_cache(self, topic: str) -> None:
        try:
            await asyncio.gather(
                self._cache.delete(self._list_key(topic)),
                self._cache.delete(self._counter_key(topic)),
            )
        except Exception:
            logger.warning("history not cleared", extra={"topic": topic}, exc_info=True)

    async def _trim_cache(self, topic: str, run_id: str, produced_before_ms: int | None) -> None:
        key = self._list_key(topic)
        try:
            for element in await self._cache.list_from_to(key, 0):
                if is_trimmable(event_from_wire(element), run_id, produced_before_ms):
                    await self._cache.list_remove(key, element)
        except Exception:
            logger.warning("history not trimmed", extra={"topic": topic}, exc_info=True)
