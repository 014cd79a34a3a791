"""What the suites of the bus share: events, handlers that remember, waiting with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mastra_conformance.opening import Opener
from mastra_core.contracts.pubsub import PubSub
from mastra_core.wire.events import Event

__all__ = (
    "ACK_WAIT_MS",
    "DEADLINE_S",
    "Elapse",
    "Recorder",
    "eventually",
    "make_event",
    "open_bus",
    "pass_time",
    "publish_all",
    "settle",
)

Elapse = Callable[[int], Awaitable[None]]

#: Small, so that adapters with a clock of their own are tested in reasonable time.
ACK_WAIT_MS = 500
#: How long a test waits for something that must happen.
DEADLINE_S = 60
_TURNS = 20
#: What a thread or a server near by may need to answer.
_ANSWER_S = 0.01


def make_event(data: Any = None, *, type: str = "test", run_id: str = "run", **more: Any) -> Event:
    """An event of which only the data matters."""
    return Event(type=type, run_id=run_id, data=data, **more)


async def publish_all(bus: PubSub, topic: str, data: Any) -> None:
    """One event per item, in order."""
    for item in data:
        await bus.publish(topic, make_event(item))


class Recorder:
    """
    A handler that remembers what it got.

    Args:
        act: Called with the event and ``ack, nack, extend``; acks if left out.
    """

    def __init__(self, act: Callable[..., Any] | None = None) -> None:
        self.events: list[Event] = []
        self.running = 0
        self.most_running = 0
        self._act = act
        self._arrived = asyncio.Condition()

    @property
    def data(self) -> list[Any]:
        """The data of the events, in order of arrival."""
        return [event.data for event in self.events]

    @property
    def attempts(self) -> list[int]:
        """The attempt of each delivery."""
        return [event.delivery_attempt for event in self.events]

    async def __call__(self, event: Event, ack: Any, nack: Any, extend: Any) -> None:
        self.events.append(event)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        async with self._arrived:
            self._arrived.notify_all()
        try:
            if self._act is None:
                await ack()
                return
            result = self._act(event, ack, nack, extend)
            if asyncio.iscoroutine(result):
                await result
        finally:
            self.running -= 1

    async def until(self, count: int) -> list[Event]:
        """Wait for so many deliveries in total."""
        try:
            async with asyncio.timeout(DEADLINE_S), self._arrived:
                await self._arrived.wait_for(lambda: len(self.events) >= count)
        except TimeoutError:
            raise AssertionError(
                f"{len(self.events)} deliveries instead of {count}: {self.data!r}"
            ) from None
        return self.events


async def eventually(
    condition: Callable[[], bool], elapse: Elapse | None = None, *, step_ms: int = 50
) -> None:
    """Wait for a condition with a deadline, and let time pass meanwhile."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            if elapse is not None:
                await elapse(step_ms)
            await settle()


async def pass_time(elapse: Elapse, milliseconds: int, *, step_ms: int) -> None:
    """Let time pass in steps that are small enough for heartbeats."""
    for _ in range(milliseconds // step_ms):
        await elapse(step_ms)
        await settle()


async def settle() -> None:
    """Let every task run that can, and let what lies outside this loop answer."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    await asyncio.sleep(_ANSWER_S)


@asynccontextmanager
async def open_bus(opener: Opener, **options: Any) -> AsyncIterator[PubSub]:
    """The test's bus with small timings; every bus adapter reads these options."""
    given = {"ack_wait_ms": ACK_WAIT_MS, "retry_base_ms": 20, "retry_cap_ms": 40, **options}
    url = opener.place.url
    query = "&".join(f"mastra_{name}={value}" for name, value in given.items())
    mark = "&" if "?" in url else "?"
    async with opener.with_url(f"{url}{mark}{query}").pubsub() as bus:
        yield bus
