"""Aborting a run and waiting until it is over, in one process (signals.md G13)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.contracts.tool import ToolContext
from mastra_core.errors import RunArgumentError, RunTimeoutError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_core.testing.thread_scene import ThreadScene, waiting

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}


async def ask(args: Any, context: ToolContext) -> Any:
    if not context.is_resumed:
        await context.suspend({"question": args["q"]})
        return None
    return context.resume_data


ASK = FunctionTool(id="ask", execute=ask, resume_schema={"type": "object"})


async def test_it_returns_when_the_last_words_are_stored() -> None:
    """Not before: whoever reads the thread then reads all of the run."""
    storing, go_on = asyncio.Event(), asyncio.Event()

    async def hook(point: str) -> None:
        if point == "memory.save_messages:before" and is_aborted:
            storing.set()
            await go_on.wait()

    is_aborted = False
    store = faulty_storage(InMemoryStorage(), hook)
    async with Mastra(storage=store, own=True) as mastra:
        scene = ThreadScene(mastra)
        agent = scene.agent(waiting("g"), memory=True)
        output = await agent.stream("go", **T)
        await scene.reached("g")
        is_aborted = True

        aborting = asyncio.create_task(agent.abort_thread_stream_and_wait(**T))
        async with asyncio.timeout(60):
            await storing.wait()
        held_by = agent.get_active_thread_run_id(**T)
        is_waiting = not aborting.done()
        go_on.set()

        assert await aborting
        assert is_waiting
        assert output.run_id == held_by
        assert agent.get_active_thread_run_id(**T) is None
        assert ["Busy"] == await scene.answers()


async def test_what_waits_is_answered_by_the_next_run(scene: ThreadScene) -> None:
    """It is on its way when the call returns; with ``clear_pending_signals`` nothing is."""
    agent = scene.agent(waiting("g"), waiting("h", "Next"))
    first = await agent.stream("go", **T)
    await scene.reached("g")
    agent.send_message("and this", **T)

    assert await agent.abort_thread_stream_and_wait(**T)
    assert agent.get_active_thread_run_id(**T) not in (None, first.run_id)
    await scene.reached("h")
    agent.send_message("never", **T)
    assert await agent.abort_thread_stream_and_wait(**T, clear_pending_signals=True)

    await scene.idle()
    assert agent.get_active_thread_run_id(**T) is None
    assert 2 == len(scene.models["a"].requests)


async def test_without_such_a_run_nothing_happens(scene: ThreadScene) -> None:
    """The answer is False, and another run goes on."""
    agent = scene.agent(waiting("g"))

    assert not await agent.abort_thread_stream_and_wait(**T)
    output = await agent.stream("go", **T)
    await scene.reached("g")
    assert not await agent.abort_thread_stream_and_wait(**T, expected_run_id="another")
    scene.gates.open("g")
    assert "stop" == await output.finish_reason


async def test_a_run_that_waits_for_data_is_gone(scene: ThreadScene) -> None:
    """Its rows are deleted when the call returns."""
    agent = scene.agent([tool_call("ask", {"q": "why"})], tools=[ASK])
    output = await agent.stream("go", **T)
    assert "suspended" == await output.finish_reason

    assert await agent.abort_thread_stream_and_wait(**T)

    assert agent.get_active_thread_run_id(**T) is None
    assert [] == (await agent.list_suspended_runs()).runs


async def test_a_run_that_waits_for_a_decision_is_not_waited_for(scene: ThreadScene) -> None:
    """Nobody knows when it comes; the run ends with it."""
    agent = scene.agent([tool_call("ask", {"q": "why"})], tools=[ASK])
    output = await agent.stream("go", **T, require_tool_approval=True)
    assert "suspended" == await output.finish_reason

    assert await agent.abort_thread_stream_and_wait(**T)

    assert output.run_id == agent.get_active_thread_run_id(**T)


async def test_a_run_that_does_not_end_is_an_error_in_time(mastra: Mastra) -> None:
    """It was asked to end, and may still do so."""
    go_on = asyncio.Event()

    async def stubborn(args: Any, context: ToolContext) -> str:
        for _ in range(2):
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        return "at last"

    tool = FunctionTool(id="work", execute=stubborn)
    model = ScriptedModel([[tool_call("work", {})], [text("done")]])
    agent = Agent(id="a", model=model, tools=[tool])
    mastra.add_agent(agent)
    output = await agent.stream("go", **T)
    async for chunk in output.full_stream:
        if chunk["type"] == "tool-call":
            break

    with pytest.raises(RunTimeoutError) as failure:
        await agent.abort_thread_stream_and_wait(**T, timeout_ms=50)

    assert "AGENT_THREAD_ABORT_TIMEOUT" == failure.value.id
    assert output.run_id == failure.value.details["runId"]
    go_on.set()
    async with asyncio.timeout(60):
        await output.wait()
    await ThreadScene(mastra).idle()
    assert agent.get_active_thread_run_id(**T) is None


@pytest.mark.parametrize("timeout_ms", [0, -1, 1.5, True, "1"])
async def test_a_time_that_is_none_is_refused(scene: ThreadScene, timeout_ms: Any) -> None:
    """Before anything is aborted."""
    agent = scene.agent()

    with pytest.raises(RunArgumentError, match="timeout_ms"):
        await agent.abort_thread_stream_and_wait(**T, timeout_ms=timeout_ms)
