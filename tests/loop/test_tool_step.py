"""Tools that do what they shouldn't: the model is told, the turn goes on, the thread is kept."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.errors import StorageConnectionError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

MakeAgent = Callable[..., Agent]
T = {"thread_id": "t", "resource_id": "r"}


async def cancelled_inside(args: Any, context: ToolContext) -> None:
    waiting = asyncio.get_running_loop().create_future()
    waiting.cancel()
    await waiting


async def exits(args: Any, context: ToolContext) -> None:
    sys.exit(3)


async def writes_an_object(args: Any, context: ToolContext) -> None:
    await context.writer.custom({"type": "data-x", "data": object()})


async def writes_no_mapping(args: Any, context: ToolContext) -> None:
    await context.writer.custom(5)  # type: ignore[arg-type] # that is the point


async def plays_the_run(args: Any, context: ToolContext) -> None:
    await context.writer.custom({"type": "finish", "payload": {}})


@pytest.mark.parametrize(
    "body",
    [cancelled_inside, exits, writes_an_object, writes_no_mapping, plays_the_run],
)
async def test_a_failing_tool_fails_alone(
    make_agent: MakeAgent, stored: Callable[..., Any], body: Any
) -> None:
    """Its error goes to the model, the run goes on, and everything can be stored."""
    model = ScriptedModel([[tool_call("x", {})], [text("so what")]])
    agent = make_agent(model=model, tools=[FunctionTool(id="x", execute=body)])

    output = await agent.stream("go", **T)

    assert "so what" == await output.text
    kinds = [chunk["type"] async for chunk in output.full_stream]
    assert 1 == kinds.count("tool-error")
    assert 1 == kinds.count("finish")
    rows = await stored(agent)
    assert ["user", "assistant"] == [row.role for row in rows]
    assert "output-error" == rows[-1].content["parts"][0]["toolInvocation"]["state"]


async def test_what_a_tool_does_to_its_arguments_changes_nothing(
    make_agent: MakeAgent, stored: Callable[..., Any]
) -> None:
    """The call is stored as the model made it."""

    async def spoil(args: Any, context: ToolContext) -> str:
        args["own"] = args
        return "ok"

    model = ScriptedModel([[tool_call("x", {"n": 1})], [text("done")]])
    agent = make_agent(model=model, tools=[FunctionTool(id="x", execute=spoil)])

    await agent.generate("go", **T)

    invocation = (await stored(agent))[-1].content["parts"][0]["toolInvocation"]
    assert {"n": 1} == invocation["args"]


async def test_what_a_tool_does_to_its_answer_later_changes_nothing(
    make_agent: MakeAgent, stored: Callable[..., Any]
) -> None:
    """The answer is what it was when the tool returned."""
    kept: list[Any] = []

    async def remember(args: Any, context: ToolContext) -> Any:
        kept.append(len(kept))
        return kept

    calls = [[tool_call("x", {}, id="a")], [tool_call("x", {}, id="b")], [text("done")]]
    agent = make_agent(model=ScriptedModel(calls), tools=[FunctionTool(id="x", execute=remember)])

    await agent.generate("go", **T)

    parts = (await stored(agent))[-1].content["parts"]
    results = [p["toolInvocation"]["result"] for p in parts if p["type"] == "tool-invocation"]
    assert [[0], [0, 1]] == results


async def test_an_id_that_the_model_repeats_means_its_newest_call(
    make_agent: MakeAgent, stored: Callable[..., Any]
) -> None:
    """Each step's call keeps its own answer."""

    async def same(args: Any, context: ToolContext) -> Any:
        return args["n"]

    calls = [
        [tool_call("x", {"n": 1}, id="c")],
        [tool_call("x", {"n": 2}, id="c")],
        [text("done")],
    ]
    model = ScriptedModel(calls)
    agent = make_agent(model=model, tools=[FunctionTool(id="x", execute=same)])

    await agent.generate("go", **T)

    parts = (await stored(agent))[-1].content["parts"]
    invocations = [p["toolInvocation"] for p in parts if p["type"] == "tool-invocation"]
    assert [(1, 1), (2, 2)] == [(i["args"]["n"], i["result"]) for i in invocations]
    last = [turn for turn in model.requests[-1].prompt if turn["role"] == "tool"]
    assert [1, 2] == [turn["content"][0]["output"]["value"] for turn in last]


async def test_calls_without_an_id_get_one(make_agent: MakeAgent) -> None:
    """Both run, and each could be answered by its id."""
    ran: list[str] = []

    async def note(args: Any, context: ToolContext) -> None:
        ran.append(context.tool_call_id)

    step = [tool_call("x", {"n": 1}, id=""), tool_call("x", {"n": 2}, id="")]
    agent = make_agent(
        model=ScriptedModel([step, [text("done")]]), tools=[FunctionTool(id="x", execute=note)]
    )

    await agent.generate("go", **T)

    assert 2 == len(set(ran))
    assert all(ran)


@case("streaming", 37)
async def test_a_store_that_fails_keeps_no_chunk_back() -> None:
    """What a tool streams is read while nothing can be stored, also if that stays so."""
    is_down = False
    failed: list[str] = []
    read = asyncio.Event()

    def fault(point: str) -> None:
        if is_down:
            failed.append(point)
            raise StorageConnectionError(f"down at {point}")

    async def report(args: Any, context: ToolContext) -> str:
        nonlocal is_down
        is_down = True
        await context.writer.custom({"type": "data-progress", "data": {"percent": 50}})
        async with asyncio.timeout(60):
            await read.wait()
        return "ok"

    model = ScriptedModel([[tool_call("x", {})], [text("done")]])
    agent = Agent(id="a", model=model, tools=[FunctionTool(id="x", execute=report)])
    store = faulty_storage(InMemoryStorage(), fault)
    async with Mastra(
        storage=store, agents=[agent], own=True, notifications={"enabled": False}
    ) as mastra:
        output = await agent.stream("go", **T, save_per_step=True)
        chunks = []
        async for chunk in output.full_stream:
            chunks.append(chunk)
            if chunk["type"] == "data-progress":
                read.set()
        is_down = False
        await mastra.runs.join()

    assert failed
    assert {"type": "data-progress", "data": {"percent": 50}} in chunks
