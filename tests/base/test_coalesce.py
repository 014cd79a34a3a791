"""Writers of one row that come together are served together, each with its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mastra_core.base.coalesce import Coalescer

pytestmark = pytest.mark.anyio


class Server:
    """Serves when it is told to, and remembers what came together."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_serve = asyncio.Event()

    async def __call__(self, key: str, items: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(list(items))
        await self.may_serve.wait()
        return [LookupError(str(item)) if item < 0 else item * 10 for item in items]


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_comes_meanwhile_is_served_in_one_go() -> None:
    server = Server()
    coalescer = Coalescer(server)

    calls = [asyncio.create_task(coalescer.submit("row", n)) for n in range(4)]
    await settle()
    late = [asyncio.create_task(coalescer.submit("row", n)) for n in range(4, 7)]
    await settle()
    server.may_serve.set()

    assert [0, 10, 20, 30, 40, 50, 60] == await asyncio.gather(*calls, *late)
    assert [[0, 1, 2, 3], [4, 5, 6]] == server.batches


async def test_rows_are_served_apart() -> None:
    server = Server()
    server.may_serve.set()
    coalescer = Coalescer(server)

    results = await asyncio.gather(*(coalescer.submit(f"row{n}", n) for n in range(3)))

    assert [0, 10, 20] == results
    assert [[0], [1], [2]] == server.batches


async def test_an_error_belongs_to_whoever_caused_it() -> None:
    server = Server()
    server.may_serve.set()
    coalescer = Coalescer(server)

    results = await asyncio.gather(
        *(coalescer.submit("row", n) for n in (1, -2, 3)), return_exceptions=True
    )

    assert [10, "-2", 30] == [str(r) if isinstance(r, LookupError) else r for r in results]


async def test_a_failure_of_all_reaches_all_and_the_next_starts_anew() -> None:
    outcomes: list[Exception | None] = [OSError("gone"), None]

    async def serve(key: str, items: Sequence[int]) -> Sequence[int]:
        failure = outcomes.pop(0)
        if failure is not None:
            raise failure
        return list(items)

    coalescer: Coalescer[str, int, int] = Coalescer(serve)

    failed = await asyncio.gather(
        *(coalescer.submit("row", n) for n in range(3)), return_exceptions=True
    )

    assert ["gone"] * 3 == [str(error) for error in failed]
    assert 7 == await coalescer.submit("row", 7)


async def test_a_cancelled_caller_harms_no_other() -> None:
    """Not even if it was the first, whose batch the others wait behind."""
    server = Server()
    coalescer = Coalescer(server)
    first = asyncio.create_task(coalescer.submit("row", 1))
    await settle()
    second = asyncio.create_task(coalescer.submit("row", 2))
    third = asyncio.create_task(coalescer.submit("row", 3))
    await settle()

    first.cancel()
    third.cancel()
    await settle()
    server.may_serve.set()

    assert 20 == await second
    assert [[1], [2]] == server.batches
    assert first.cancelled()
    assert third.cancelled()
