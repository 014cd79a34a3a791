"""A bus that delivers badly on purpose: events come twice, late, in another order, or not at all.

Wraps any bus; what it does to which event is decided by a seeded plan.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from mastra_core.bus.handlers import accepted_arguments
from mastra_core.contracts.pubsub import PubSub
from mastra_core.errors import PubSubConnectionError
from mastra_core.wire.events import Event

__all__ = ("Mischief", "UnreliableBus")

_LATE_S: Final = 0.03
_INDEX: Final = "unreliableIndex"


class Mischief(StrEnum):
    """What may happen to a published event."""

    #: It arrives as it should.
    NONE = "none"
    #: It arrives twice.
    TWICE = "twice"
    #: It arrives after the one that was published next.
    SWAPPED = "swapped"
    #: It arrives a little later, as do those behind it.
    LATE = "late"
    #: It never arrives, and the publisher isn't told.
    LOST = "lost"
    #: It arrives, but the publisher is told that nobody knows.
    DOUBTED = "doubted"


class UnreliableBus:
    """
    The bus, with mischief in ``publish``; everything else is passed on.

    Args:
        inner: Carries the events; closed by whoever opened it.
        rng: Decides; the same numbers do the same things.
        weights: How often each mischief happens, relative to each other.
    """

    def __init__(
        self, inner: PubSub, rng: random.Random, weights: Mapping[Mischief, float]
    ) -> None:
        # Whoever puts a history around it must do without one inside.
        self.capabilities = replace(inner.capabilities, offsets=False)
        #: What happened, for the notes of a test.
        self.done: Counter[Mischief] = Counter()
        self._inner = inner
        self._rng = rng
        self._weights = dict(weights)
        self._held: list[tuple[str, Event, dict[str, Any]]] = []
        self._handlers: dict[tuple[str, Any], Callable[..., Any]] = {}

    async def publish(self, topic: str, event: Event, **options: Any) -> None:
        """Publish, more or less."""
        if event.index is not None:
            # The bus inside may number events itself; whoever is outside wants its own back.
            event = replace(event, extra={**event.extra, _INDEX: event.index})
        kinds = list(self._weights)
        (kind,) = self._rng.choices(kinds, [self._weights[one] for one in kinds])
        self.done[kind] += 1
        match kind:
            case Mischief.LOST:
                return
            case Mischief.SWAPPED:
                self._held.append((topic, event, options))
                return
            case Mischief.LATE:
                await asyncio.sleep(_LATE_S)
        await self._inner.publish(topic, event, **options)
        if kind is Mischief.TWICE:
            await self._inner.publish(topic, event, **{**options, "dedupe_id": None})
        await self.release()
        if kind is Mischief.DOUBTED:
            raise PubSubConnectionError("The connection was lost on purpose.")

    async def release(self) -> None:
        """Let go of what was held back to be swapped."""
        held, self._held = self._held, []
        for topic, event, options in held:
            await self._inner.publish(topic, event, **options)

    async def subscribe(self, topic: str, handler: Callable[..., Any], **options: Any) -> None:
        """Subscribe; the handler sees the numbers of whoever published."""

        async def renumbered(event: Event, ack: Any, nack: Any, extend: Any) -> None:
            index = event.extra.pop(_INDEX, None)
            given = replace(event, index=index)
            result = handler(given, *(ack, nack, extend)[: accepted_arguments(handler) - 1])
            if inspect.isawaitable(result):
                await result

        wrapped = self._handlers.setdefault((topic, handler), renumbered)
        await self._inner.subscribe(topic, wrapped, **options)

    async def unsubscribe(self, topic: str, handler: Callable[..., Any]) -> None:
        """As the bus inside."""
        wrapped = self._handlers.pop((topic, handler), handler)
        await self._inner.unsubscribe(topic, wrapped)

    def calm(self) -> None:
        """From now on everything arrives as it should."""
        self._weights = {Mischief.NONE: 1.0}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
