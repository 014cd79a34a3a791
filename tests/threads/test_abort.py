"""Aborting a thread: what its readers see, and what becomes of a run that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.contracts.tool import ToolContext
from mastra_core.errors import RunNotFoundError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}


@pytest.fixture
async def mastra() -> AsyncIterator[Mastra]:
    """An application without a dispatcher."""
    async with Mastra(storage="memory:", notifications={"enabled": False}) as opened:
        yield opened


async def idle(mastra: Mastra) -> None:
    """Wait until nothing runs any more."""
    for _ in range(5):
        await mastra.threads.tasks.join()
        await mastra.runs.join()


async def ask(args: Any, context: ToolContext) -> Any:
    if not context.is_resumed:
        await context.suspend({"question": args["q"]})
        return None
    return context.resume_data


ASK = FunctionTool(id="ask", execute=ask, resume_schema={"type": "object"})


@case("signals", 71)
async def test_an_aborted_run_that_waits_for_data_is_gone(mastra: Mastra) -> None:
    """Its rows are deleted, readers see one abort, and queued input gets its turn."""
    model = ScriptedModel([[tool_call("ask", {"q": "why"})], [text("next")]])
    agent = Agent(id="a", model=model, tools=[ASK])
    mastra.add_agent(agent)
    subscription = agent.subscribe_to_thread(**T)
    output = await agent.stream("go", **T)
    assert "suspended" == await output.finish_reason
    await idle(mastra)
    agent.send_message("and this", **T)

    was_aborted = agent.abort_thread_stream(**T)
    await idle(mastra)

    assert was_aborted
    assert [] == (await agent.list_suspended_runs()).runs
    assert agent.get_active_thread_run_id(**T) is None
    assert "and this" in str(model.requests[-1].prompt)
    with pytest.raises(RunNotFoundError):
        await agent.resume_stream({}, run_id=output.run_id)
    seen = []
    async for chunk in subscription.stream:
        seen.append((chunk["type"], chunk["runId"] == output.run_id))
        if chunk["type"] == "finish":
            break
    assert [("abort", True)] == [entry for entry in seen if entry[0] == "abort"]


@case("signals", 73)
async def test_a_reader_in_mid_stream_gets_one_abort_and_stays(mastra: Mastra) -> None:
    """Nothing of the aborted run follows it; the next run is read as always."""
    gates = Gates()
    words = [
        {"type": "text", "text": "Busy", "open": True},
        {"type": "gate", "name": "g"},
        {"type": "text", "text": " still", "cont": True},
    ]
    agent = Agent(id="a", model=ScriptedModel([words, [text("next")]], gates=gates))
    mastra.add_agent(agent)
    subscription = agent.subscribe_to_thread(**T)
    first = await agent.send_message("go", **T).accepted
    async with asyncio.timeout(60):
        await gates.reached("g")

    agent.abort_thread_stream(**T)
    await idle(mastra)
    second = await agent.send_message("again", **T).accepted
    await idle(mastra)

    seen = []
    async for chunk in subscription.stream:
        seen.append((chunk["type"], chunk["runId"]))
        if chunk == {**chunk, "type": "finish", "runId": second.run_id}:
            break
    of_first = [kind for kind, run_id in seen if run_id == first.run_id]
    assert ["abort"] == [kind for kind in of_first if kind in ("abort", "finish")]
    assert "abort" == of_first[-1]
    assert ("start", second.run_id) in seen


async def test_a_cancellation_that_is_cut_short_does_not_leave_the_thread_held() -> None:
    """The rows are gone already when the caller stops listening."""
    deleted, go_on = asyncio.Event(), asyncio.Event()

    async def hook(point: str) -> None:
        if point == "workflows.delete_workflow_runs:after":
            deleted.set()
            await go_on.wait()

    model = ScriptedModel([[tool_call("ask", {"q": "why"})]])
    agent = Agent(id="a", model=model, tools=[ASK])
    store = faulty_storage(InMemoryStorage(), hook)
    async with Mastra(storage=store, agents=[agent], own=True) as mastra:
        output = await agent.stream("go", **T)
        await output.wait()
        await idle(mastra)
        cancelling = asyncio.create_task(agent.cancel_run(output.run_id))
        async with asyncio.timeout(60):
            await deleted.wait()

        cancelling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelling
        await idle(mastra)

        assert agent.get_active_thread_run_id(**T) is None
