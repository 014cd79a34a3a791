"""
Runs of agents: how long from a message to the last chunk of the answer, absolutely.

The model costs nothing: it hands out chunks that lie ready. So everything that is measured is
the runtime: the loop, the chunks and their readers, and the memory around them. Against the
TypeScript runtime: ``runtime_typescript``.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import statistics
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from harness import NO_GOAL, Goal, Result, Scenario, Timed

from mastra_core import Agent, Mastra

__all__ = ("BACKEND", "GOALS_MS", "LONG", "Runs", "Wake", "bytes_per_chunk", "open_scenarios")

BACKEND: Final = "runtime"
#: Chunks of the run whose memory is looked at.
LONG: Final = 100_000
#: Milliseconds for a run of so many chunks with this memory.
GOALS_MS: Final = {
    (1, None): 0.5,
    (100, None): 2.5,
    (1_000, None): 18,
    (100, "process"): 4,
    (100, "libSQL file"): 6,
}

_MILLISECOND = 1_000


class ReadyModel:
    """Answers every call with the same chunks."""

    provider = "bench"
    model_id = "ready"

    def __init__(self, chunks: int) -> None:
        words = [{"type": "text-delta", "id": "t", "delta": "word "} for _ in range(chunks)]
        usage = {"inputTokens": 10, "outputTokens": chunks, "totalTokens": chunks + 10}
        self._parts: list[dict[str, Any]] = [
            {"type": "stream-start", "warnings": []},
            {"type": "text-start", "id": "t"},
            *words,
            {"type": "text-end", "id": "t"},
            {"type": "finish", "finishReason": "stop", "usage": usage},
        ]

    async def stream(self, request: Any) -> AsyncIterator[dict[str, Any]]:
        """The chunks; others have one turn before the first, as with every model that is asked."""
        del request
        await asyncio.sleep(0)
        for part in self._parts:
            yield part


class Runs:
    """
    Agents that are made once, and what is done with them.

    Args:
        stack: Closes them.
        folder: Where a database may lie.
        on_processor: Count the time on a processor. Nothing here waits for anything else, so on
            a machine that has nothing else to do it is the same.
    """

    def __init__(self, stack: AsyncExitStack, folder: Path, *, on_processor: bool = False) -> None:
        self.clock = time.process_time if on_processor else time.perf_counter
        self._stack = stack
        self._folder = folder
        self._threads = count()
        self._agents: dict[tuple[int, str | None], Agent] = {}

    async def agent(self, chunks: int, memory: str | None = None) -> Agent:
        """The agent whose model says so much; ``memory``: ``process``, ``libSQL file`` or None."""
        key = (chunks, memory)
        if key not in self._agents:
            agent = Agent(id="bench", instructions="Answer.", model=ReadyModel(chunks))
            if memory is None:
                self._stack.push_async_callback(agent.aclose)
            else:
                url = "memory:" if memory == "process" else f"file:{self._folder / 'runtime.db'}"
                application = Mastra(storage=url, lease="memory:", agents=[agent])
                await self._stack.enter_async_context(application)
            self._agents[key] = agent
        return self._agents[key]

    def new_thread(self) -> dict[str, str]:
        """A thread that nobody had before."""
        return {"thread_id": f"thread{next(self._threads)}", "resource_id": "user"}

    async def run(self, chunks: int, memory: str | None = None) -> Timed:
        """One run, read to its end."""
        agent = await self.agent(chunks, memory)

        async def call() -> None:
            output = await agent.stream("Hello", **({} if memory is None else self.new_thread()))
            await _read(output.full_stream)

        return Timed(call, clock=self.clock)

    async def late_readers(self, readers: int, chunks: int = 1_000) -> Timed:
        """A run that is over, read by several."""
        output = await (await self.agent(chunks)).stream("Hello")
        await output.wait()

        async def call() -> None:
            await asyncio.gather(*(_read(output.full_stream) for _ in range(readers)))

        return Timed(call, units=readers * chunks, clock=self.clock)

    async def live_readers(self, readers: int, chunks: int = 1_000) -> Timed:
        """A run that is read by several while it goes on; what the run costs is part of it."""
        agent = await self.agent(chunks)

        async def call() -> None:
            output = await agent.stream("Hello")
            await asyncio.gather(*(_read(output.full_stream) for _ in range(readers)))

        return Timed(call, units=readers * chunks, clock=self.clock)

    async def subscribers(self, readers: int, chunks: int = 1_000) -> Timed:
        """The same through subscriptions to the thread."""
        agent = await self.agent(chunks, "process")

        async def call() -> None:
            thread = self.new_thread()
            subscribed = [agent.subscribe_to_thread(**thread) for _ in range(readers)]
            await agent.stream("Hello", **thread)
            await asyncio.gather(*(_read(one.stream, until="finish") for one in subscribed))

        return Timed(call, units=readers * chunks, clock=self.clock)


class Wake:
    """From a message for an idle thread to the first chunk at its subscriber."""

    def __init__(self, runs: Runs, agent: Agent) -> None:
        self._runs = runs
        self._agent = agent

    async def __call__(self, calls: int, tasks: int) -> float:
        return statistics.median([await self._one() for _ in range(calls)]) * 1e6

    async def _one(self) -> float:
        thread = self._runs.new_thread()
        subscription = await self._agent.subscribe_to_thread(**thread)
        stream: Any = subscription.stream
        async with aclosing(stream) as chunks:
            began = self._runs.clock()
            await self._agent.send_message("Hello", **thread).accepted
            await anext(chunks)
            duration = self._runs.clock() - began
            async for chunk in chunks:
                if chunk["type"] == "finish":
                    break
        return duration


@asynccontextmanager
async def open_scenarios(
    folder: Path, *, on_processor: bool = False
) -> AsyncIterator[AsyncIterator[Scenario | Result]]:
    """The scenarios; one of them has its database in the folder."""
    async with AsyncExitStack() as stack:
        yield _scenarios(Runs(stack, folder, on_processor=on_processor), folder)


async def _scenarios(runs: Runs, folder: Path) -> AsyncIterator[Scenario | Result]:
    for (chunks, memory), milliseconds in GOALS_MS.items():
        kept = "no memory" if memory is None else f"memory in {memory}"
        side = await runs.run(chunks, memory)
        calls = max(10, 400 // chunks)
        yield _scenario(f"stream, {chunks} chunks, {kept}", side, milliseconds, calls=calls)
    side = await runs.run(100)
    goal = Goal(kind="at least per second", value=600)
    yield Scenario(
        name="runs of 100 chunks", backend=BACKEND, ours=side, goal=goal, calls=64, tasks=32
    )
    for readers in (1, 10, 100):
        goal = Goal(kind="at most microseconds", value=3) if readers == 10 else NO_GOAL
        for name, side in (
            ("late readers", await runs.late_readers(readers)),
            ("readers", await runs.live_readers(readers)),
            ("subscribers", await runs.subscribers(readers)),
        ):
            yield Scenario(
                name=f"a chunk at one of {readers} {name}", backend=BACKEND, ours=side,
                goal=goal, calls=max(2, 20 // readers),
            )  # fmt: skip
    wake = Wake(runs, await runs.agent(1, "process"))
    yield _scenario("wake an idle thread", wake, 1, calls=20)
    for name, options in (
        ("a reader stands still", {}),
        ("a reader stands still, 1000 are kept", {"max_buffered_chunks": 1_000}),
    ):
        held = await bytes_per_chunk(runs, **options)
        yield Result(
            name=f"bytes per chunk of {LONG}, {name}", backend=BACKEND, against="", tasks=1,
            ours_us=round(held, 1), floor_us=None, ratio=None, goal="–", met=None, unit="bytes",
        )  # fmt: skip
    start = _Start(folder / "bytecode", on_processor=runs.clock is time.process_time)
    yield _scenario(
        "import mastra_core", start.of("-c", "import mastra_core"), 150, calls=1,
        floor=start.of("-c", "pass"),
    )  # fmt: skip
    yield Scenario(
        name="import an agent", backend=BACKEND, calls=1,
        ours=start.of("-c", "from mastra_core import Agent"), floor=start.of("-c", "pass"),
    )  # fmt: skip
    yield _scenario("mastra-py --help", start.of("-m", "mastra_cli", "--help"), 350, calls=1)


def _scenario(
    name: str, side: Any, milliseconds: float, *, calls: int, floor: Any = None
) -> Scenario:
    return Scenario(
        name=name,
        backend=BACKEND,
        ours=side,
        floor=floor,
        goal=Goal(kind="at most microseconds", value=milliseconds * _MILLISECOND),
        calls=calls,
    )


async def bytes_per_chunk(runs: Runs, **options: int) -> float:
    """What a long run holds at most while one of its two readers has read a single chunk."""
    agent = await runs.agent(LONG)
    gc.collect()
    tracemalloc.start()
    output = await agent.stream("Hello", **options)
    slow: Any = output.full_stream
    async with aclosing(slow):
        await anext(slow)
        await _read(output.full_stream)
        held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held / LONG


async def _read(stream: Any, until: str | None = None) -> None:
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            if chunk["type"] == until:
                return


class _Start:
    """Starts interpreters whose bytecode was written before."""

    def __init__(self, bytecode: Path, *, on_processor: bool) -> None:
        self._clock = _children_time if on_processor else time.perf_counter
        self._environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def of(self, *arguments: str) -> Timed:
        """From the start of one to its end."""

        async def call() -> None:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, stdout=asyncio.subprocess.DEVNULL, env=self._environment
            )
            if await process.wait() != 0:
                raise RuntimeError(f"python {' '.join(arguments)} failed.")

        return Timed(call, clock=self._clock)


def _children_time() -> float:
    """Seconds that ended children were on a processor."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
