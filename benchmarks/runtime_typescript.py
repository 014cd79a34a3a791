"""
Our runtime against the TypeScript one: the real packages in a Node process, in turns.

Each side runs agents whose model says so many words at once, and is timed in its own process.
Where Node or the packages are missing, that is reported as not run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from harness import NO_GOAL, Goal, Result, Scenario, Side
from runtime import BACKEND, GOALS_MS, LONG, Runs, Wake, bytes_per_chunk

from mastra_conformance.node import NodePeer, find_node, node_peer
from mastra_conformance.servers import Missing

__all__ = ("open_comparisons",)

_PROGRAM: Final = Path(__file__).with_name("runtime.mjs")
_AGAINST: Final = "the TypeScript runtime"
#: What the two of our stores are called there.
_MEMORIES: Final = {None: None, "process": "process", "libSQL file": "libsql"}


class _Node:
    """An order for the TypeScript runtime, which times itself."""

    def __init__(self, peer: NodePeer, what: str, **order: object) -> None:
        self._peer = peer
        self._what = what
        self._order = order

    async def __call__(self, calls: int, tasks: int) -> float:
        order: dict[str, Any] = {"calls": calls, "tasks": tasks, **self._order}
        microseconds: float = await self._peer.do(self._what, **order)
        return microseconds


@asynccontextmanager
async def open_comparisons(
    folder: Path, *, on_processor: bool = False
) -> AsyncIterator[AsyncIterator[Scenario | Result]]:
    """The comparisons; databases of both sides lie in the folder."""
    found = find_node()
    if isinstance(found, Missing):
        yield _nothing(f"{found.reason} Try: {found.command}")
        return
    async with AsyncExitStack() as stack:
        clock = {"BENCH_CLOCK": "processor" if on_processor else "wall"}
        peer = await stack.enter_async_context(node_peer(found, program=_PROGRAM, **clock))
        yield _comparisons(Runs(stack, folder, on_processor=on_processor), peer, folder)


async def _nothing(reason: str) -> AsyncIterator[Scenario | Result]:
    yield _figure("every run", 0.0, None, not_run=reason)


async def _comparisons(
    runs: Runs, peer: NodePeer, folder: Path
) -> AsyncIterator[Scenario | Result]:
    url = f"file:{folder / 'runtime-node.db'}"
    for chunks, memory in GOALS_MS:
        kept = "no memory" if memory is None else f"memory in {memory}"
        order = {"chunks": chunks, "memory": _MEMORIES[memory], "url": url}
        ours, theirs = await runs.run(chunks, memory), _Node(peer, "runs", **order)
        calls = max(6, min(40, 1_000 // chunks))
        yield _against(f"stream, {chunks} chunks, {kept}", ours, theirs, calls=calls)
    ours, theirs = await runs.run(100), _Node(peer, "runs", chunks=100)
    yield _against("runs of 100 chunks", ours, theirs, calls=64, tasks=32)
    for readers in (1, 10, 100):
        ours = await runs.live_readers(readers)
        theirs = _Node(peer, "readers", chunks=1_000, count=readers)
        yield _against(f"a chunk at one of {readers} readers", ours, theirs, calls=3)
    wake = Wake(runs, await runs.agent(1, "process"))
    yield _against("wake an idle thread", wake, _Node(peer, "wake"), calls=20)
    held = await bytes_per_chunk(runs)
    theirs_held: float = await peer.do("memory", chunks=LONG)
    yield _figure(f"bytes per chunk of {LONG}, a reader stands still", held, theirs_held)


def _against(name: str, ours: Side, theirs: Side, **fields: int) -> Scenario:
    goal = Goal(kind="at least times faster", value=1) if "reader" not in name else NO_GOAL
    return Scenario(
        name=name,
        backend=BACKEND,
        ours=ours,
        floor=theirs,
        against=_AGAINST,
        goal=goal,
        **fields,
    )


def _figure(name: str, ours: float, theirs: float | None, not_run: str | None = None) -> Result:
    return Result(
        name=name,
        backend=BACKEND,
        against=_AGAINST,
        tasks=1,
        ours_us=round(ours, 1),
        floor_us=None if theirs is None else round(theirs, 1),
        ratio=None if theirs is None else round(ours / theirs, 3),
        goal="–",
        met=None,
        not_run=not_run,
    )
