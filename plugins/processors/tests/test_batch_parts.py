"""``batch-parts``: fewer pieces, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import text, tool_call
from mastra_processors import BatchParts

pytestmark = pytest.mark.anyio


async def pieces(agent: Any) -> list[str]:
    output = await agent.stream("go")
    return [piece async for piece in output.text_stream]


async def test_pieces_come_in_batches_and_the_rest_at_the_end(make_agent: Any) -> None:
    agent = make_agent([text("a b c d e")], output_processors=[BatchParts(batch_size=2)])

    assert ["a b ", "c d ", "e"] == await pieces(agent)


async def test_the_stored_text_is_whole(make_agent: Any) -> None:
    agent = make_agent([text("a b c")], output_processors=[BatchParts(batch_size=9)])

    await agent.generate("go", thread_id="t1", resource_id="u1")

    page = await agent.memory.store.list_messages("t1")
    assert "a b c" == page.messages[-1].content["parts"][-1]["text"]


@pytest.mark.parametrize(("emits", "expected"), [(True, ["a ", "b "]), (False, ["a b "])])
async def test_another_chunk_lets_a_batch_go(
    make_agent: Any, emits: bool, expected: list[str]
) -> None:
    parts = [
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "a "},
        {"type": "source", "id": "s", "sourceType": "url", "url": "https://example.org"},
        {"type": "text-delta", "id": "1", "delta": "b "},
        {"type": "text-end", "id": "1"},
    ]
    agent = make_agent(parts, output_processors=[BatchParts(emit_on_non_text=emits)])

    assert expected == await pieces(agent)


async def test_a_text_without_an_end_goes_before_a_call(make_agent: Any) -> None:
    agent = make_agent(
        [{"type": "text", "text": "a b", "open": True}, tool_call("nothing", {})],
        [text("c")],
        output_processors=[BatchParts(emit_on_non_text=False)],
    )

    output = await agent.stream("go")
    kinds = [
        chunk["payload"].get("text", chunk["type"])
        async for chunk in output.full_stream
        if chunk["type"] in ("text-delta", "tool-call")
    ]

    assert ["a b", "tool-call", "c"] == kinds


async def test_a_batch_that_waited_long_goes_with_the_next_piece(make_agent: Any) -> None:
    clock = FakeClock()
    batches = BatchParts(None, AdapterContext(clock=clock), batch_size=9, max_wait_time=1000)

    class Slow:
        id = "slow"

        async def process_output_stream(self, args: Any) -> Any:
            if args.part["type"] == "text-delta":
                await clock.advance(0.6)
            return args.part

    agent = make_agent([text("a b c d e")], output_processors=[Slow(), batches])

    assert ["a b c ", "d e"] == await pieces(agent)


async def test_two_texts_are_never_mixed(make_agent: Any) -> None:
    parts = [
        {"type": "text-start", "id": "1"},
        {"type": "text-start", "id": "2"},
        {"type": "text-delta", "id": "1", "delta": "a"},
        {"type": "text-delta", "id": "2", "delta": "b"},
        {"type": "text-end", "id": "1"},
        {"type": "text-end", "id": "2"},
    ]
    agent = make_agent(parts, output_processors=[BatchParts()])

    assert ["a", "b"] == await pieces(agent)
