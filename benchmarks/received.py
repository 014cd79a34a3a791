"""
How many bytes a store receives for a page of suspended runs.

The conversation is most of what is stored of a suspended run, and no part of a listing; so what
is received should be about what the page holds. The way from the server leads through the
conformance suite's network, which counts. Of a file counts what its statements hand over.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from contents import NOW, suspended
from goals import goal_of
from harness import Result
from places import Place
from pydantic_core import to_json

from mastra_conformance.faults.addresses import address_of, through_port
from mastra_conformance.faults.proxy import Direction, open_network

__all__ = ("measure_received",)

RUNS: Final = 10_000
AGENTS: Final = 10
KILOBYTES: Final = 5
PAGES: Final = (20, 100)

_WRITERS: Final = 32
_WORKFLOW: Final = "agentic-loop"


async def measure_received(place: Place, *, rounds: int, only: str) -> AsyncIterator[Result]:
    """Bytes of some pages, against their size as JSON."""
    names = {f"a page of {size} of {RUNS} suspended runs": size for size in PAGES}
    if not any(only in f"{place.backend}: {name}" for name in names):
        return
    async with place.open_store(place.url_of("received")) as store:
        await _fill(store)
        print(f"… {place.backend}: {RUNS} suspended runs written", file=sys.stderr)
        async with _counted(place, store) as (counted_store, received):
            for name, size in names.items():
                if only in f"{place.backend}: {name}":
                    yield await _page(place.backend, name, counted_store, received, size, rounds)
        await store.dangerously_clear_all()


async def _fill(store: Any) -> None:
    numbers = iter(range(RUNS))

    async def write() -> None:
        for number in numbers:
            await store.workflows.persist_workflow_snapshot(
                workflow_name=_WORKFLOW,
                run_id=f"run{number}",
                snapshot=suspended(
                    f"agent{number % AGENTS}", f"thread{number}", kilobytes=KILOBYTES
                ),
                created_at=NOW,
            )

    await asyncio.gather(*(write() for _ in range(_WRITERS)))


Received = Callable[[], int]


@asynccontextmanager
async def _counted(place: Place, store: Any) -> AsyncIterator[tuple[Any, Received]]:
    """A store, and how many bytes it has received so far."""
    if place.backend == "libsql file":
        with _handed_over(store) as received:
            yield store, received
        return
    host, port = address_of(place.url)
    async with (
        open_network(host, port) as network,
        place.open_store(through_port(place.url_of("received"), network.port)) as behind,
    ):
        yield behind, lambda: network.carried[Direction.TO_CLIENT]


async def _page(  # noqa: PLR0917 - a row of a table
    backend: str, name: str, store: Any, received: Received, size: int, rounds: int
) -> Result:
    async def read() -> Any:
        return await store.workflows.list_suspended_runs(
            workflow_names=[_WORKFLOW], agent_id="agent7", page=0, per_page=size
        )

    page = await read()
    counts = []
    for _ in range(rounds):
        before = received()
        await read()
        counts.append(received() - before)
    count, shown = statistics.median(counts), len(to_json(page.rows))
    ratio = count / shown
    goal = goal_of("received", backend)
    return Result(
        name=name,
        backend=backend,
        against="the page as JSON",
        unit="bytes",
        tasks=1,
        ours_us=count,
        floor_us=shown,
        ratio=round(ratio, 6),
        goal=str(goal),
        met=goal.is_met(count, ratio),
    )


@contextmanager
def _handed_over(store: Any) -> Iterator[Received]:
    """The bytes of the values that statements of a file hand over."""
    # To see what statements hand over, there is no public way.
    client = store._door.client  # noqa: SLF001
    count = 0
    original = client.read

    async def read(operation: str, *steps: Any) -> Any:
        nonlocal count
        found = await original(operation, *steps)
        count += sum(_size(value) for rows in found for row in rows for value in row)
        return found

    client.read = read
    try:
        yield lambda: count
    finally:
        del client.read


def _size(value: Any) -> int:
    match value:
        case None:
            return 0
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case _:
            return 8
