"""
Signals for threads: how soon one is kept, how soon another process's run is heard, how many a second.

A signal is accepted when it will be answered, whoever dies; on a busy thread that is one value
in the store. On an idle one it is the start of a run. The floor is the plain driver's insert of
that value.

For a wake a second process is told through a pipe to send to an idle thread, and the first chunk
of the run is awaited here. The floor is an event that the second process is told to publish, on
the same buses; so the difference is what the wake takes beside the way through the bus.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import count
from typing import Any, Final

from driver import Driver
from goals import goal_of
from harness import Call, Goal, Scenario, Side, Spans, Timed
from signal_worker import Application, Worker, open_application, open_worker
from templates import scattered

from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.messages.signals import create_signal
from mastra_core.threads.inbox import InboxEntry
from mastra_core.wire.events import Event

__all__ = ("MEMORY", "open_in_memory", "open_signals")

MEMORY: Final = "memory"
SENDERS: Final = 32
#: Signals through one thread, and threads with one signal each.
MANY: Final = 1_000

_RATE: Final = Goal(kind="any per second")
_PATIENCE_S: Final = 60


@asynccontextmanager
async def open_in_memory(*, on_processor: bool = False) -> AsyncIterator[AsyncIterator[Scenario]]:
    """What there is to measure in one process without a database, which waits for nothing."""
    clock = time.process_time if on_processor else time.perf_counter
    async with open_application("memory:", "memory:", "memory:") as here:
        yield _rates(MEMORY, here, clock)


@asynccontextmanager
async def open_signals(driver: Driver) -> AsyncIterator[AsyncIterator[Scenario]]:
    """The scenarios of one backend."""
    async with open_application(driver.store, driver.bus, driver.lease) as here:
        yield _scenarios(driver, here)


async def _scenarios(driver: Driver, here: Application) -> AsyncIterator[Scenario]:
    async with open_worker(driver.store_url, driver.bus_url) as worker:
        async for scenario in _acceptance(driver, here, worker):
            yield scenario
        async for scenario in _wakes(driver, here, worker):
            yield scenario
    async for scenario in _rates(driver.backend, here, time.perf_counter):
        yield scenario


# -- one signal ---------------------------------------------------------------------------------


async def _acceptance(driver: Driver, here: Application, worker: Worker) -> AsyncIterator[Scenario]:
    inbox = driver.store.thread_state
    kept = _kept()
    floors = await driver.floors(
        lambda: inbox.set_state("box", "id-taken", kept), {"id-taken": scattered}
    )
    busy, busy_there = _Busy(here), _BusyElsewhere(here, worker)
    sides: list[tuple[str, Side, Call]] = [
        ("a busy thread", Timed(busy.send, before=busy.renew), busy.end),
        ("a busy thread of another process", Timed(busy_there.send, before=busy_there.renew),
         busy_there.end),
        ("an idle thread", Spans(_Idle(here).wake), here.rest),
    ]  # fmt: skip
    for name, ours, end in sides:
        yield Scenario(
            name=f"signal accepted for {name}",
            backend=driver.backend,
            ours=ours,
            floor=Timed(floors.alone),
            against=driver.plain,
            goal=goal_of("acceptance", driver.backend),
            calls=50,
        )
        await end()


def _kept() -> dict[str, Any]:
    """What is stored of an accepted message."""
    value = {"type": "user", "tagName": "user", "contents": "Is the deployment done?"}
    clock = SystemClock()
    signal = create_signal(value, clock=clock, ids=UuidIds(), accepted_at=clock.now())
    return InboxEntry(signal=signal, agent_id="bench", run_id="run", number=1).to_wire()


class _Threads:
    """New threads, one after the other."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._numbers = count()

    def new(self) -> dict[str, str]:
        """One that nobody had before."""
        name = f"{self._prefix}{time.time_ns()}-{next(self._numbers)}"
        return {"thread_id": name, "resource_id": "user"}


class _Busy:
    """A thread whose run here stands in the middle of its answer, a new one for each round."""

    def __init__(self, here: Application) -> None:
        self._here = here
        self._threads = _Threads("busy")
        self.thread = self._threads.new()

    async def send(self) -> None:
        """One more signal for that run."""
        await self._here.send(self.thread)

    async def renew(self) -> None:
        """The next thread; that before is answered first."""
        await self.end()
        self.thread = self._threads.new()
        await self._here.make_busy(self.thread)

    async def end(self) -> None:
        """Let the run answer everything, and wait for that."""
        self._here.model.go_on()
        await self._here.rest()


class _BusyElsewhere(_Busy):
    """The same with the run in the second process."""

    def __init__(self, here: Application, worker: Worker) -> None:
        super().__init__(here)
        self._worker = worker

    async def renew(self) -> None:
        """The next thread."""
        await self.end()
        self.thread = self._threads.new()
        self._worker.ask("make busy", **self.thread)
        await self._worker.done()

    async def end(self) -> None:
        """Let the run answer everything there."""
        self._worker.ask("go on")
        await self._worker.done()


class _Idle:
    """Threads on which nothing happens yet."""

    def __init__(self, here: Application) -> None:
        self._here = here
        self._threads = _Threads("idle")

    async def wake(self) -> float:
        """Seconds until a signal is accepted, which is when its run has started."""
        thread = self._threads.new()
        began = time.perf_counter()
        await self._here.send(thread)
        took = time.perf_counter() - began
        await self._here.rest()
        return took


# -- across processes ---------------------------------------------------------------------------


async def _wakes(driver: Driver, here: Application, worker: Worker) -> AsyncIterator[Scenario]:
    threads = _Threads("wake")
    arrived = asyncio.Event()
    topic = "bench-signals"

    async def deliver(_: Event) -> None:
        arrived.set()

    async def hear() -> float:
        """Seconds until an event of the second process is here."""
        arrived.clear()
        began = time.perf_counter()
        worker.ask("publish", topic=topic)
        async with asyncio.timeout(_PATIENCE_S):
            await arrived.wait()
        took = time.perf_counter() - began
        await worker.done()
        return took

    async def wake() -> float:
        """Seconds until the first chunk of a run of the second process is here."""
        thread = threads.new()
        subscription = await here.agent.subscribe_to_thread(**thread)
        stream: Any = subscription.stream
        async with asyncio.timeout(_PATIENCE_S), aclosing(stream) as chunks:
            began = time.perf_counter()
            worker.ask("answer", **thread)
            await anext(chunks)
            took = time.perf_counter() - began
            async for chunk in chunks:
                if chunk["type"] == "finish":
                    break
        subscription.unsubscribe()
        await worker.done()
        return took

    await driver.bus.subscribe(topic, deliver, start_from="latest")
    try:
        yield Scenario(
            name="wake in another process, to the first chunk",
            backend=driver.backend,
            ours=Spans(wake),
            floor=Spans(hear),
            against="an event of that process",
            goal=goal_of("wake across processes", driver.backend),
            calls=20,
        )
    finally:
        await driver.bus.unsubscribe(topic, deliver)


# -- many ---------------------------------------------------------------------------------------


async def _rates(
    backend: str, here: Application, clock: Callable[[], float]
) -> AsyncIterator[Scenario]:
    """How many signals a second are accepted, answered and forgotten."""
    busy, threads = _Busy(here), _Threads("many")

    async def through_one() -> None:
        await _by_senders(here, [busy.thread] * MANY)
        await busy.end()

    async def through_many() -> None:
        await _by_senders(here, [threads.new() for _ in range(MANY)])
        await here.rest()

    for name, ours in (
        ("one busy thread", Timed(through_one, units=MANY, before=busy.renew, clock=clock)),
        (f"{MANY} idle threads", Timed(through_many, units=MANY, clock=clock)),
    ):
        yield Scenario(
            name=f"signals through {name}, {SENDERS} senders",
            backend=backend,
            ours=ours,
            goal=_RATE,
            calls=1,
        )


async def _by_senders(here: Application, threads: list[dict[str, str]]) -> None:
    """A signal for each of the threads."""
    left = iter(threads)

    async def send() -> None:
        for thread in left:
            await here.send(thread)

    await asyncio.gather(*(send() for _ in range(SENDERS)))
