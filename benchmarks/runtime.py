"""
Measure the agent runtime, ours against the TypeScript one, in turns and each in its own process.

A model says so many words at once, so nothing but the runtime takes time. Where there is no Node
with the packages, only ours is measured and said to be so.

examples:
  python benchmarks/runtime.py
  python benchmarks/runtime.py --only stream --rounds 5 --json runtime.json
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from itertools import count
from pathlib import Path
from typing import Any, Final

from harness import NO_GOAL, Goal, Result, Scenario, Side, Timed, measure
from report import as_json, environment, tables

from mastra_conformance.node import NodePeer, find_node, node_peer
from mastra_conformance.servers import Missing
from mastra_core import Agent, Mastra
from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_libsql import LibSQLStorage

FORMAT: Final = "mastra-bench/2"
BACKEND: Final = "runtime"
NODE_PROGRAM: Final = Path(__file__).with_name("runtime.mjs")
#: Chunks of the run whose memory is looked at.
LONG: Final = 100_000


class Talker:
    """Says so many words, without a pause."""

    provider = "bench"
    model_id = "bench"

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """One answer."""
        yield {"type": "stream-start", "warnings": []}
        yield {"type": "response-metadata", "id": "r", "modelId": "bench"}
        yield {"type": "text-start", "id": "t"}
        for _ in range(self._chunks):
            yield {"type": "text-delta", "id": "t", "delta": "word "}
        yield {"type": "text-end", "id": "t"}
        usage = {"inputTokens": 10, "outputTokens": self._chunks}
        yield {"type": "finish", "finishReason": "stop", "usage": usage}


class Ours:
    """Our runtime in this process: applications that are opened once."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._threads = count()
        self._agents: dict[tuple[int, str | None], Agent] = {}

    async def agent(self, chunks: int, memory: str | None = None) -> Agent:
        """The agent whose model says so much; ``memory``: ``process``, ``libsql`` or None."""
        key = (chunks, memory)
        if key not in self._agents:
            agent = Agent(
                id=f"bench-{chunks}",
                instructions="You help.",
                model=Talker(chunks),
                memory=memory is not None,
            )
            storage: Any = InMemoryStorage()
            if memory == "libsql":
                storage = LibSQLStorage(f"file:{self._folder / f'{chunks}.db'}")
            await self._stack.enter_async_context(storage)
            # In memory, because this process is alone.
            await self._stack.enter_async_context(
                Mastra(agents=[agent], storage=storage, lease="memory:", pubsub="memory:")
            )
            self._agents[key] = agent
        return self._agents[key]

    async def runs(self, chunks: int, memory: str | None = None) -> Timed:
        """One run, read to its end."""
        agent = await self.agent(chunks, memory)

        async def call() -> None:
            thread = {} if memory is None else self.new_thread()
            output = await agent.stream("Hello", **thread)
            async for _ in output.full_stream:
                pass

        return Timed(call)

    async def readers(self, chunks: int, readers: int) -> Timed:
        """One run that is read by several; the cost of a chunk at one of them."""
        agent = await self.agent(chunks)

        async def call() -> None:
            output = await agent.stream("Hello")

            async def read() -> None:
                async for _ in output.full_stream:
                    pass

            await asyncio.gather(*(read() for _ in range(readers)))

        return Timed(call, units=chunks * readers)

    async def subscribers(self, chunks: int, readers: int) -> Timed:
        """The same through subscriptions to the thread."""
        agent = await self.agent(chunks, "process")

        async def call() -> None:
            thread = self.new_thread()

            async def read(subscription: Any) -> None:
                async with aclosing(subscription.stream) as seen:
                    async for chunk in seen:
                        if chunk["type"] == "finish":
                            return

            tasks = [
                asyncio.create_task(read(agent.subscribe_to_thread(**thread)), name=f"reader-{n}")
                for n in range(readers)
            ]
            await (await agent.stream("Hello", **thread)).wait()
            await asyncio.gather(*tasks)

        return Timed(call, units=chunks * readers)

    def new_thread(self) -> dict[str, str]:
        """A thread that nobody had before."""
        return {"thread_id": f"t{next(self._threads)}", "resource_id": "r"}


class Wake:
    """From a message for an idle thread to the first chunk at its subscriber."""

    def __init__(self, ours: Ours, agent: Agent) -> None:
        self._ours = ours
        self._agent = agent

    async def __call__(self, calls: int, tasks: int) -> float:
        return statistics.median([await self._one() for _ in range(calls)]) * 1e6

    async def _one(self) -> float:
        thread = self._ours.new_thread()
        subscription = await self._agent.subscribe_to_thread(**thread)
        async with aclosing(subscription.stream) as chunks:
            began = time.perf_counter()
            await self._agent.send_message("Hello", **thread).accepted
            await anext(chunks)
            duration = time.perf_counter() - began
            async for chunk in chunks:
                if chunk["type"] == "finish":
                    break
        return duration


class Node:
    """An order for the TypeScript runtime, which times itself."""

    def __init__(self, peer: NodePeer, what: str, **order: object) -> None:
        self._peer = peer
        self._what = what
        self._order = order

    async def __call__(self, calls: int, tasks: int) -> float:
        given: dict[str, Any] = {"calls": calls, **self._order}
        microseconds: float = await self._peer.do(self._what, tasks=tasks, **given)
        return microseconds


class Bench:
    """One run of the benchmark."""

    def __init__(self, options: argparse.Namespace, ours: Ours, peer: NodePeer | None) -> None:
        self._options = options
        self._ours = ours
        self._peer = peer
        self._folder: Path = ours._folder  # noqa: SLF001 - of this module
        self.results: list[Result] = []

    def _node(self, what: str, **order: object) -> Side | None:
        return None if self._peer is None else Node(self._peer, what, **order)

    async def run(self) -> None:
        """Everything that is wanted."""
        for scenario in await self._scenarios():
            if self._options.only in scenario.label:
                print(f"… {scenario.label}", file=sys.stderr)
                self.results.append(await measure(scenario, rounds=self._options.rounds))
        for name, found in (("memory", self._memory), ("import", self._imports)):
            if self._options.only in f"{BACKEND}: {name}":
                self.results += await found()

    async def _scenarios(self) -> list[Scenario]:
        ours, node, made = self._ours, self._node, []

        def add(name: str, side: Side, floor: Side | None, limit: Goal, **fields: int) -> None:
            against = "the TypeScript runtime" if floor is not None else ""
            made.append(
                Scenario(
                    name=name, backend=BACKEND, ours=side, floor=floor, against=against,
                    goal=limit, **fields,
                )
            )  # fmt: skip

        for chunks, limit, calls in ((1, 500, 60), (100, 2_500, 30), (1_000, 18_000, 6)):
            side, floor = await ours.runs(chunks), node("runs", chunks=chunks)
            add(f"stream {chunks} chunks", side, floor, _at_most(limit), calls=calls)
        for memory, limit in (("process", 4_000), ("libsql", 6_000)):
            order = {"chunks": 100, "memory": memory, "url": f"file:{self._folder / 'node.db'}"}
            side, floor = await ours.runs(100, memory), node("runs", **order)
            add(f"stream 100 chunks, memory {memory}", side, floor, _at_most(limit), calls=30)
        side, floor = await ours.runs(100), node("runs", chunks=100)
        goal = Goal(kind="at least per second", value=600)
        add("stream 100 chunks", side, floor, goal, calls=96, tasks=32)
        for readers in (1, 10, 100):
            goal = _at_most(3) if readers == 10 else NO_GOAL
            fields = {"calls": max(2, 20 // readers)}
            side = await ours.readers(1_000, readers)
            floor = node("readers", chunks=1_000, count=readers)
            add(f"a chunk of 1000 at one of {readers} readers", side, floor, goal, **fields)
            side = await ours.subscribers(1_000, readers)
            add(f"a chunk of 1000 at one of {readers} subscribers", side, None, goal, **fields)
        side = Wake(ours, await ours.agent(1, "process"))
        add("wake an idle thread", side, node("wake"), _at_most(1_000), calls=30)
        return made

    async def _memory(self) -> list[Result]:
        """Bytes per chunk of a long run, with and without a reader that stands still."""
        agent = await self._ours.agent(LONG)
        both = []
        for slow in (False, True):
            gc.collect()
            tracemalloc.start()
            output = await agent.stream("Hello")
            waiting = output.full_stream
            if slow:
                await anext(waiting)
            async for _ in output.full_stream:
                pass
            held = tracemalloc.get_traced_memory()[1] / LONG
            tracemalloc.stop()
            await waiting.aclose()
            both.append(held)
        floor = None
        if self._peer is not None:
            floor = float(await self._peer.do("memory", chunks=LONG))
        alone, together = both
        name = f"memory: bytes per chunk of {LONG}, one reader stands still"
        return [
            _figure(name, together, floor, "at most what it is without that reader"),
            _figure(f"memory: bytes per chunk of {LONG}, without it", alone, None, "–"),
        ]

    async def _imports(self) -> list[Result]:
        """Milliseconds that a fresh interpreter takes for an import, more than for nothing."""
        wanted = (
            ("import: mastra_core", "import mastra_core", 150_000),
            ("import: an agent", "from mastra_core import Agent", 0),
            ("import: mastra-py --help", "HELP", 350_000),
        )
        return [self._import(*one) for one in wanted]

    def _import(self, name: str, code: str, limit: int) -> Result:
        times = []
        for _ in range(max(3, self._options.rounds)):
            command = [sys.executable, "-c", code]
            if code == "HELP":
                command = [sys.executable, "-m", "mastra_cli", "--help"]
            nothing = _seconds([sys.executable, "-c", ""])
            times.append(_seconds(command) - (0 if code == "HELP" else nothing))
        own = statistics.median(times) * 1e6
        goal = _at_most(limit) if limit else NO_GOAL
        return Result(
            name=name, backend=BACKEND, against="", tasks=1, ours_us=round(own, 1), floor_us=None,
            ratio=None, goal=str(goal), met=goal.is_met(own, None),
        )  # fmt: skip


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def _figure(name: str, ours: float, floor: float | None, goal: str) -> Result:
    return Result(
        name=name, backend=BACKEND, against="the TypeScript runtime" if floor else "", tasks=1,
        ours_us=round(ours, 1), floor_us=None if floor is None else round(floor, 1),
        ratio=round(ours / floor, 3) if floor else None, goal=goal, met=None,
    )  # fmt: skip


def _at_most(microseconds: float) -> Goal:
    return Goal(kind="at most microseconds", value=microseconds)


async def _run(options: argparse.Namespace) -> list[Result]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = find_node()
        peer = None
        if isinstance(found, Missing):
            print(f"not run: TypeScript: {found.reason} Try: {found.command}", file=sys.stderr)
        else:
            peer = await stack.enter_async_context(node_peer(found, program=NODE_PROGRAM))
        bench = Bench(options, Ours(stack, folder), peer)
        await bench.run()
        return bench.results


def main() -> int:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", default="", metavar="TEXT", help="only what has this text in its name")
    add("--rounds", type=int, default=5, help="turns of each comparison (default 5)")
    add("--json", type=Path, metavar="FILE", help="write the results here")
    options = parser.parse_args()
    results = asyncio.run(_run(options))
    print(tables(results))
    missed = [result for result in results if result.met is False]
    print(f"\n{len(results)} figures, {len(missed)} goals missed")
    if options.json:
        content = {
            "format": FORMAT,
            "environment": environment(),
            "rounds": options.rounds,
            "results": as_json(results),
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
