"""
Runs of agents: how long from a message to the last chunk of the answer, absolutely.

The model costs nothing: it hands out chunks that lie ready. So everything that is measured is
the runtime: the loop, the chunks and their readers, and the memory around them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from harness import Goal, Scenario, Timed

from mastra_core import Agent, Mastra

__all__ = ("BACKEND", "open_scenarios")

BACKEND = "runtime"

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
        """The chunks, without waiting."""
        del request
        for part in self._parts:
            yield part


@asynccontextmanager
async def open_scenarios(folder: Path) -> AsyncIterator[AsyncIterator[Scenario]]:
    """The scenarios; one of them has its database in the folder."""
    yield _scenarios(folder)


async def _scenarios(folder: Path) -> AsyncIterator[Scenario]:
    for chunks, milliseconds in ((1, 0.5), (100, 2.5), (1_000, 18)):
        agent = _agent(chunks)
        yield _scenario(
            f"stream, {chunks} chunks, no memory",
            lambda agent=agent: _read(agent),  # type: ignore[misc]
            milliseconds,
            calls=max(10, 400 // chunks),
        )
        await agent.aclose()

    agent = _agent(100)
    yield Scenario(
        name="runs of 100 chunks",
        backend=BACKEND,
        ours=Timed(lambda: _read(agent)),
        goal=Goal(kind="at least per second", value=600),
        calls=64,
        tasks=32,
    )
    await agent.aclose()

    for store, url, milliseconds in (
        ("process", "memory:", 4),
        ("libSQL file", f"file:{folder / 'runtime.db'}", 6),
    ):
        agent = _agent(100)
        async with Mastra(storage=url, lease="memory:", agents=[agent]):
            threads = count()
            yield _scenario(
                f"stream, 100 chunks, memory in {store}",
                lambda agent=agent, threads=threads: _read(  # type: ignore[misc]
                    agent, thread_id=f"thread{next(threads)}", resource_id="user"
                ),
                milliseconds,
                calls=20,
            )

    agent = _agent(1_000)
    output = await agent.stream("Hello")
    await output.wait()
    yield Scenario(
        name="a chunk read by one of 10 readers",
        backend=BACKEND,
        ours=Timed(lambda: _read_by_ten(output), units=10 * 1_000),
        goal=Goal(kind="at most microseconds", value=3),
        calls=5,
    )
    await agent.aclose()

    yield _scenario(
        "import mastra_core", lambda: _process("-c", "import mastra_core"), 150, calls=3,
        floor=lambda: _process("-c", "pass"),
    )  # fmt: skip
    yield _scenario(
        "mastra-py --help", lambda: _process("-m", "mastra_cli", "--help"), 350, calls=3
    )


def _scenario(
    name: str, call: Any, milliseconds: float, *, calls: int, floor: Any = None
) -> Scenario:
    return Scenario(
        name=name,
        backend=BACKEND,
        ours=Timed(call),
        floor=None if floor is None else Timed(floor),
        goal=Goal(kind="at most microseconds", value=milliseconds * _MILLISECOND),
        calls=calls,
    )


def _agent(chunks: int) -> Agent:
    return Agent(id="bench", instructions="Answer.", model=ReadyModel(chunks))


async def _read(agent: Agent, **options: Any) -> None:
    output = await agent.stream("Hello", **options)
    async for _ in output.full_stream:
        pass
    await output.wait()


async def _read_by_ten(output: Any) -> None:
    async def read() -> None:
        async for _ in output.full_stream:
            pass

    await asyncio.gather(*(read() for _ in range(10)))


async def _process(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.DEVNULL
    )
    if await process.wait() != 0:
        raise RuntimeError(f"python {' '.join(arguments)} failed.")
