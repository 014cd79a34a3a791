"""What is told at the end of a segment, and what becomes of it when nobody listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

MakeAgent = Callable[..., Agent]
T = {"thread_id": "t", "resource_id": "r"}


async def test_chunks_are_told_to_coroutines_too(make_agent: MakeAgent) -> None:
    """``on_chunk`` may be a coroutine function; it is awaited, chunk after chunk."""
    told: list[str] = []

    async def on_chunk(chunk: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        told.append(chunk["type"])

    output = await make_agent(model=ScriptedModel([[text("one")]])).stream("hi", on_chunk=on_chunk)

    assert told == [chunk["type"] async for chunk in output.full_stream]


async def test_a_run_that_is_parked_stays_so_whatever_is_cut_short() -> None:
    """Closing while a callback of a parked run hangs doesn't mark its call as aborted."""
    told = asyncio.Event()

    async def never_ends(facts: Any) -> None:
        told.set()
        await asyncio.Event().wait()

    async def act(args: Any, context: ToolContext) -> str:
        return "acted"

    tool = FunctionTool(id="act", execute=act, require_approval=True)
    agent = Agent(id="a", model=ScriptedModel([[tool_call("act", {})], [text("ok")]]), tools=[tool])
    async with Mastra(storage="memory:parked-with-callback", agents=[agent]) as mastra:
        output = await agent.stream("go", on_finish=never_ends, **T)
        async with asyncio.timeout(60):
            await told.wait()
        await mastra.runs.close()

        assert "suspended" == output.status
        [run] = (await agent.list_suspended_runs()).runs
        assert output.run_id == run.run_id
        row = (await mastra.storage.memory.list_messages("t")).messages[-1]
        assert "aborted" not in str(row.content)
