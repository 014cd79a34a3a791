"""Bursts: buffer events and deliver them together (pubsub_and_lease.md 3.4).

One buffer belongs to one subscription. What an item is, and how it is delivered or
acked, its owner says.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from mastra_core.base.clock import Clock
from mastra_core.bus.timers import Alarm
from mastra_core.contracts.pubsub import BatchPolicy
from mastra_core.errors import ConfigError
from mastra_core.wire.events import Event

__all__ = ("BatchBuffer", "Buffered", "check_policy")

logger = logging.getLogger(__name__)


class Buffered(Protocol):
    """What a buffer can hold."""

    @property
    def event(self) -> Event: ...


T = TypeVar("T", bound=Buffered)


def check_policy(policy: BatchPolicy) -> None:
    """
    Refuse a policy that can't work.

    Raises:
        ConfigError: A number is out of its range.
    """
    for name, lowest in (("max_size", 1), ("max_wait_ms", 0), ("min_interval_ms", 0)):
        value = getattr(policy, name)
        if value is not None and not value >= lowest:
            raise ConfigError(f"Batch {name} is {value!r}, but must be at least {lowest}.")
    if policy.max_buffer_size < 1:
        raise ConfigError(f"Batch max_buffer_size is {policy.max_buffer_size!r}, not at least 1.")


class BatchBuffer(Generic[T]):
    """
    The buffer of one subscription.

    Args:
        policy: When to flush and what to drop.
        clock: Its monotonic time and sleeping decide about deadlines.
        deliver: Awaited for each kept item, in order.
        ack: Told about each item that was dropped on purpose.
        give_back: Told about each item that was buffered when the buffer was disposed.
        spawn: Runs a flush in a task of the owner.
    """

    def __init__(
        self,
        policy: BatchPolicy,
        *,
        clock: Clock,
        deliver: Callable[[T], Awaitable[None]],
        ack: Callable[[T], None],
        give_back: Callable[[T], None],
        spawn: Callable[[Awaitable[None]], object],
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._deliver = deliver
        self._ack = ack
        self._give_back = give_back
        self._spawn = spawn
        self._items: list[T] = []
        self._immediate: set[int] = set()
        self._first_at = 0.0
        self._delivered_at = -math.inf
        self._alarm = Alarm(clock, self._ring, name="bus-batch")
        self._flushing: asyncio.Future[None] | None = None
        self._again = False
        self._disposed = False
        self._generation = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_flushing(self) -> bool:
        """Whether a burst is being delivered."""
        return self._flushing is not None

    def add(self, item: T) -> None:
        """Buffer the item, and flush or set the timer as the policy says."""
        now = self._clock.monotonic()
        if not self._items:
            self._first_at = now
        self._items.append(item)
        if self._is_immediate(item.event):
            self._immediate.add(id(item))
            self._flush_at_floor(now)
        elif len(self._items) >= self._policy.max_buffer_size:
            self._start()
        elif self._policy.max_size is not None and len(self._items) >= self._policy.max_size:
            self._flush_at_floor(now)
        else:
            self._set_deadline()

    async def flush(self) -> None:
        """Deliver what is buffered now, whatever the timer says."""
        self._start()
        while self._flushing is not None:
            await asyncio.shield(self._flushing)

    def forget(self) -> None:
        """Drop what hasn't been delivered; a running burst ends with its current event."""
        self._generation += 1
        for item in self._take():
            self._ack(item)
        self._immediate.clear()

    def dispose(self) -> None:
        """Deliver nothing any more; what waits is given back."""
        self._disposed = True
        for item in self._take():
            self._give_back(item)
        self._immediate.clear()

    def _take(self) -> list[T]:
        items, self._items = self._items, []
        self._alarm.stop()
        return items

    def _is_immediate(self, event: Event) -> bool:
        if self._policy.is_immediate is None:
            return False
        try:
            return bool(self._policy.is_immediate(event))
        except Exception:
            logger.exception("batch is_immediate failed", extra={"topic": event.topic})
            return False

    @property
    def _floor(self) -> float:
        return self._delivered_at + self._policy.min_interval_ms / 1000

    def _flush_at_floor(self, now: float) -> None:
        if now >= self._floor:
            self._start()
        else:
            self._alarm.set_earlier(self._floor)

    def _set_deadline(self) -> None:
        # Without max_wait_ms the deadline is infinite, also where there is a floor.
        if self._policy.max_wait_ms is not None:
            self._alarm.set_earlier(
                max(self._first_at + self._policy.max_wait_ms / 1000, self._floor)
            )

    def _ring(self) -> None:
        if self._flushing is not None:
            return  # the end of the burst looks at what came meanwhile
        self._flush_at_floor(self._clock.monotonic())

    def _start(self) -> None:
        if self._disposed:
            return
        if self._flushing is not None:
            self._again = True
        elif self._items:
            self._flushing = asyncio.get_running_loop().create_future()
            # Taken at once: what comes before the task runs belongs to the next burst.
            self._spawn(self._run(self._take(), self._generation))

    async def _run(self, snapshot: list[T], generation: int) -> None:
        try:
            await self._burst(snapshot, generation)
            while self._again and not self._disposed:
                self._again = False
                await self._burst(self._take(), self._generation)
        finally:
            done, self._flushing = self._flushing, None
            if done is not None and not done.done():
                done.set_result(None)
        if self._items and not self._disposed:
            self._look_again()

    def _look_again(self) -> None:
        """After a burst: what came meanwhile waits for its own deadline or the new floor."""
        size = self._policy.max_size
        if self._immediate or (size is not None and len(self._items) >= size):
            self._flush_at_floor(self._clock.monotonic())
        else:
            self._set_deadline()

    async def _burst(self, snapshot: list[T], generation: int) -> None:
        if not snapshot:
            return  # and the floor stays where it is
        kept = self._coalesce(snapshot)
        if kept is None:
            return
        for item in self._overflow(kept):
            if self._disposed:
                self._give_back(item)
            elif generation != self._generation:
                self._ack(item)
            else:
                await self._deliver(item)
        self._delivered_at = self._clock.monotonic()

    def _coalesce(self, snapshot: list[T]) -> list[T] | None:
        """The items that the caller's function keeps; None if nothing is to be delivered."""
        if self._policy.coalesce is None:
            return snapshot
        try:
            wanted = list(self._policy.coalesce([item.event for item in snapshot]))
        except Exception:
            logger.exception("batch coalesce failed", extra={"topic": snapshot[0].event.topic})
            if self._disposed:
                for item in snapshot:
                    self._give_back(item)
                return None
            self._items[:0] = snapshot
            self._first_at = self._clock.monotonic()
            return None
        kept = _subset(snapshot, wanted)
        if kept is None:
            logger.error(
                "batch coalesce returned other events than it got; batch discarded",
                extra={"topic": snapshot[0].event.topic, "events": len(snapshot)},
            )
        self._ack_others(snapshot, kept or [])
        return kept

    def _overflow(self, items: list[T]) -> list[T]:
        """What remains within the budget; immediate events always do."""
        excess = len(items) - self._policy.max_buffer_size
        immediate, self._immediate = self._immediate, set()
        if excess <= 0:
            return items
        droppable = [item for item in items if id(item) not in immediate]
        if self._policy.overflow == "drop-newest":
            droppable.reverse()
        dropped = {id(item) for item in droppable[:excess]}
        kept = [item for item in items if id(item) not in dropped]
        self._ack_others(items, kept)
        return kept

    def _ack_others(self, items: Sequence[T], kept: Sequence[T]) -> None:
        ids = {id(item) for item in kept}
        for item in items:
            if id(item) not in ids:
                self._immediate.discard(id(item))
                self._ack(item)


def _subset(items: Sequence[T], wanted: Sequence[Event]) -> list[T] | None:
    """The items of these very event objects; None unless they come in the same order."""
    rest = iter(items)
    kept = []
    for event in wanted:
        item = next((item for item in rest if item.event is event), None)
        if item is None:
            return None
        kept.append(item)
    return kept
