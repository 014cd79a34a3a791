"""Parts get to the listener; the request ends when nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from mastra_core.errors import ModelError
from mastra_models.feed import FEED_PARTS, feed

pytestmark = pytest.mark.anyio


class Source:
    """A request that counts, and remembers whether it was closed."""

    def __init__(
        self, parts: int, failure: BaseException | None = None, *, hangs: bool = False
    ) -> None:
        self.parts, self.failure, self.hangs = parts, failure, hangs
        self.sent = 0
        self.closed_in: asyncio.Task[Any] | None = None
        self.opened_in: asyncio.Task[Any] | None = None

    async def run(self) -> AsyncGenerator[dict[str, Any], None]:
        self.opened_in = asyncio.current_task()
        try:
            for number in range(self.parts):
                self.sent += 1
                yield {"type": "text-delta", "delta": str(number)}
            if self.failure:
                raise self.failure
            if self.hangs:
                await asyncio.Event().wait()
        finally:
            self.closed_in = asyncio.current_task()


async def test_all_parts_arrive_in_order() -> None:
    source = Source(FEED_PARTS * 3)

    parts = [part["delta"] async for part in feed(source.run(), None)]

    assert [str(number) for number in range(FEED_PARTS * 3)] == parts


async def test_a_failure_comes_after_the_parts_before_it() -> None:
    source, seen = Source(2, ValueError("broken")), list[str]()

    async def listen() -> None:
        async for part in feed(source.run(), None):
            seen.append(part["delta"])

    with pytest.raises(ValueError, match="broken"):
        await listen()

    assert ["0", "1"] == seen


async def test_a_listener_that_leaves_closes_the_request_in_its_own_task() -> None:
    source = Source(1, hangs=True)

    async with aclosing(feed(source.run(), None)) as parts:  # type: ignore[type-var]
        await anext(parts)

    assert source.opened_in is source.closed_in
    assert source.closed_in is not asyncio.current_task()


async def test_abort_ends_the_answer_quietly() -> None:
    source, abort = Source(1, hangs=True), asyncio.Event()
    seen = []

    async for part in feed(source.run(), abort):
        seen.append(part)
        abort.set()

    assert 1 == len(seen)
    assert source.closed_in is not None


async def test_a_slow_listener_holds_the_request_back() -> None:
    source = Source(FEED_PARTS * 10)

    async with aclosing(feed(source.run(), None)) as parts:  # type: ignore[type-var]
        await anext(parts)
        await asyncio.sleep(0)

        assert source.sent <= FEED_PARTS + 2


async def test_a_client_that_gives_up_fails_the_request() -> None:
    """Nobody cancelled it from outside: the listener must not wait for ever."""
    source = Source(1, asyncio.CancelledError())

    async def listen() -> None:
        async with asyncio.timeout(30):
            async for _ in feed(source.run(), asyncio.Event()):
                pass

    with pytest.raises(ModelError, match="gave the request up"):
        await listen()
