"""What a run keeps for its readers, and what happens to those that are too slow."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from mastra_core import Agent
from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.errors import RunArgumentError, StreamGapError
from mastra_core.streaming.broadcast import MIN_BUFFERED_CHUNKS, ChunkBuffer

pytestmark = pytest.mark.anyio

LIMIT = MIN_BUFFERED_CHUNKS


class Talker:
    """Says so many words without a pause."""

    provider = "test"
    model_id = "talker"

    def __init__(self, words: int) -> None:
        self._words = words

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        yield {"type": "text-start", "id": "t"}
        for _ in range(self._words):
            yield {"type": "text-delta", "id": "t", "delta": "word "}
        yield {"type": "text-end", "id": "t"}
        yield {"type": "finish", "finishReason": "stop", "usage": {}}


def numbered(count: int, *, limit: int | None = None) -> ChunkBuffer:
    buffer = ChunkBuffer(limit=limit)
    for number in range(count):
        buffer.append({"type": "text-delta", "number": number})
    return buffer


async def numbers(buffer: ChunkBuffer, **options: Any) -> list[int]:
    buffer.close()
    return [chunk["number"] async for chunk in buffer.read(**options)]


async def test_all_is_kept_unless_a_limit_is_given() -> None:
    assert list(range(5_000)) == await numbers(numbered(5_000))


async def test_at_most_so_many_are_kept() -> None:
    buffer = ChunkBuffer(limit=LIMIT)
    most = 0
    for number in range(10 * LIMIT):
        buffer.append({"type": "x", "number": number})
        most = max(most, len(buffer.chunks))

    assert LIMIT == most
    assert 10 * LIMIT == buffer.count


async def test_who_comes_too_late_is_told() -> None:
    buffer = numbered(10 * LIMIT, limit=LIMIT)

    with pytest.raises(StreamGapError) as caught:
        await numbers(buffer)

    assert 0 == caught.value.details["wanted"]
    assert buffer.gone == caught.value.details["oldest"]


async def test_who_may_miss_some_goes_on_with_the_oldest() -> None:
    buffer = numbered(10 * LIMIT, limit=LIMIT)

    seen = await numbers(buffer, skips_gaps=True)

    assert list(range(buffer.gone, 10 * LIMIT)) == seen


async def test_a_reader_that_keeps_up_misses_nothing() -> None:
    agent = Agent(id="a", model=Talker(20 * LIMIT))
    output = await agent.stream("Hello", max_buffered_chunks=LIMIT)

    words = [chunk async for chunk in output.full_stream if chunk["type"] == "text-delta"]

    assert 20 * LIMIT == len(words)
    await agent.aclose()


async def test_a_reader_that_stands_still_is_told_and_costs_nobody_else() -> None:
    agent = Agent(id="a", model=Talker(20 * LIMIT))
    output = await agent.stream("Hello", max_buffered_chunks=LIMIT)

    async with aclosing(output.full_stream) as slow:
        assert "start" == (await anext(slow))["type"]
        text = await output.text
        with pytest.raises(StreamGapError, match="too slow"):
            await anext(slow)

    assert 20 * LIMIT == len(text.split())
    assert "stop" == await output.finish_reason
    await agent.aclose()


async def test_a_subscriber_that_stands_still_is_told() -> None:
    """Further runs follow, so it is told by a chunk."""
    agent = Agent(id="a", model=Talker(20 * LIMIT))
    thread = {"thread_id": "t", "resource_id": "r"}
    subscription = agent.subscribe_to_thread(**thread)
    output = await agent.stream("Hello", max_buffered_chunks=LIMIT, **thread)

    async with aclosing(subscription.stream) as slow:
        await anext(slow)
        await output.wait()
        told = await anext(slow)

    assert ("error", output.run_id) == (told["type"], told["runId"])
    assert StreamGapError.id == told["payload"]["error"]["code"]
    await agent.aclose()


async def test_a_long_run_takes_no_more_memory_than_its_buffer() -> None:
    """Twenty thousand chunks, one reader that reads one: the text is kept, the chunks not."""
    words = 20_000
    agent = Agent(id="a", model=Talker(words))

    async def peak(**options: Any) -> float:
        tracemalloc.start()
        output = await agent.stream("Hello", **options)
        async with aclosing(output.full_stream) as slow:
            await anext(slow)
            await output.wait()
        most = tracemalloc.get_traced_memory()[1] / words
        tracemalloc.stop()
        return most

    whole, bounded = await peak(), await peak(max_buffered_chunks=1_000)

    assert bounded < whole / 3
    await agent.aclose()


@pytest.mark.parametrize("value", [0, -1, LIMIT - 1, True, "many"])
async def test_a_limit_that_nobody_could_keep_up_with_is_refused(value: Any) -> None:
    agent = Agent(id="a", model=Talker(1))

    with pytest.raises(RunArgumentError, match="max_buffered_chunks"):
        await agent.stream("Hello", max_buffered_chunks=value)

    await agent.aclose()


async def test_readers_at_the_live_edge_are_woken_by_every_chunk() -> None:
    buffer = ChunkBuffer(limit=LIMIT)
    seen: list[int] = []
    taken = asyncio.Event()

    async def read() -> None:
        async for chunk in buffer.read():
            seen.append(chunk["number"])
            taken.set()

    reading = asyncio.create_task(read(), name="reader")
    for number in range(3 * LIMIT):
        buffer.append({"type": "x", "number": number})
        await taken.wait()
        taken.clear()
    buffer.close()
    await reading

    assert list(range(3 * LIMIT)) == seen
