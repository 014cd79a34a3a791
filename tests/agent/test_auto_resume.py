"""Calls that wait for data, answered by the model of a later run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, ToolContext, tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

MakeAgent = Callable[..., Agent]
pytestmark = pytest.mark.anyio

SCOPE = {"thread_id": "t", "resource_id": "r"}
Calls = list[tuple[str, Any]]


def booking(calls: Calls) -> FunctionTool:
    @tool(suspend_schema=dict, resume_schema=int)
    async def book(city: str, context: ToolContext) -> str:
        """Book a room."""
        calls.append((city, context.resume_data))
        if not context.is_resumed:
            await context.suspend({"question": "How many nights?"})
            return ""
        return f"{context.resume_data} nights in {city}"

    return book


def answers(run_id: str, data: Any, *, call_id: str = "old", city: str = "Lisbon") -> Any:
    link = {"suspendedToolRunId": run_id, "suspendedToolCallId": call_id, "resumeData": data}
    return tool_call("book", {"city": city, **link}, id="new")


async def parked(make_agent: MakeAgent, calls: Calls) -> tuple[Agent, ScriptedModel, str]:
    """An agent with a run that waits, and a script that goes on."""
    script: list[Any] = [[tool_call("book", {"city": "Lisbon"}, id="old")]]
    model = ScriptedModel(script)
    agent = make_agent(model=model, tools=[booking(calls)])
    output = await agent.stream("Book a room", **SCOPE)
    await output.wait()
    assert "suspended" == output.status
    return agent, model, output.run_id


def say(model: ScriptedModel, *calls: Any) -> None:
    model._calls.extend(calls)


async def test_a_model_answers_for_its_user(make_agent: MakeAgent) -> None:
    calls: Calls = []
    agent, model, run_id = await parked(make_agent, calls)
    say(model, [answers(run_id, 3)], [text("Booked.")])

    output = await agent.stream("Three nights", **SCOPE, auto_resume_suspended_tools=True)

    assert "Booked." == await output.text
    assert [("Lisbon", None), ("Lisbon", 3)] == calls
    [result] = await output.tool_results
    assert "3 nights in Lisbon" == result["payload"]["result"]
    told, schema = model.requests[1].prompt[0], model.requests[1].tools[0].input_schema
    assert {"old", run_id, "How many nights?"} <= {
        word for word in ("old", run_id, "How many nights?") if word in told["content"]
    }
    assert "resumeData" in schema["properties"]
    # It is over: nothing waits, and the next request isn't told of it.
    assert 0 == (await agent.list_suspended_runs()).total
    assert run_id not in str(model.requests[2].prompt[0])
    assert agent.memory is not None
    rows = (await agent.memory.store.list_messages("t")).messages
    assert "suspendedTools" not in str([row.content for row in rows])


async def test_the_call_is_carried_out_as_it_was_made(make_agent: MakeAgent) -> None:
    """Whatever else the model says now: what was parked is what runs."""
    calls: Calls = []
    agent, model, run_id = await parked(make_agent, calls)
    say(model, [answers(run_id, 3, city="Paris")], [text("Booked.")])

    await (await agent.stream("Three", **SCOPE, auto_resume_suspended_tools=True)).text

    assert ("Lisbon", 3) == calls[-1]


@pytest.mark.parametrize(
    ("data", "words"), [("three", "resume data"), ({"approved": True}, "resume data")]
)
async def test_an_answer_that_does_not_fit_changes_nothing(
    make_agent: MakeAgent, data: Any, words: str
) -> None:
    calls: Calls = []
    agent, model, run_id = await parked(make_agent, calls)
    say(model, [answers(run_id, data)], [text("Sorry.")])

    output = await agent.stream("Three", **SCOPE, auto_resume_suspended_tools=True)
    errors = [c async for c in output.full_stream if c["type"] == "tool-error"]

    assert words in errors[0]["payload"]["error"]["message"]
    assert 1 == len(calls)
    output = await agent.resume_stream(2, run_id=run_id)
    assert "extra" == await output.text
    assert ("Lisbon", 2) == calls[-1]


async def test_one_of_a_person_and_a_model_answers(make_agent: MakeAgent) -> None:
    calls: Calls = []
    agent, model, run_id = await parked(make_agent, calls)
    say(model, [{"type": "gate", "name": "g"}, answers(run_id, 3)], [text("one")], [text("two")])

    output = await agent.stream("Three", **SCOPE, auto_resume_suspended_tools=True)
    async with asyncio.timeout(30):
        await model.gates.reached("g")
    assert await agent.cancel_run(run_id)
    model.gates.open("g")
    errors = [c async for c in output.full_stream if c["type"] == "tool-error"]

    assert (1, 1) == (len(errors), len(calls))


@pytest.mark.parametrize(
    "options", [{}, {"auto_resume_suspended_tools": True, "require_tool_approval": True}]
)
async def test_without_leave_the_model_answers_nothing(
    make_agent: MakeAgent, options: dict[str, Any]
) -> None:
    calls: Calls = []
    agent, model, run_id = await parked(make_agent, calls)
    say(model, [answers(run_id, 3)], [text("Sorry.")])

    output = await agent.stream("Three", **SCOPE, **options)
    await output.wait()

    assert 1 == len(calls)
    assert run_id in [run.run_id for run in (await agent.list_suspended_runs()).runs]
    assert "resumeData" not in str(model.requests[1].tools[0].input_schema)


async def test_a_model_can_not_approve(make_agent: MakeAgent) -> None:
    @tool(require_approval=True)
    async def book(city: str) -> str:
        """Book a room."""
        raise AssertionError("was never approved")

    model = ScriptedModel([[tool_call("book", {"city": "Lisbon"}, id="old")]])
    agent = make_agent(model=model, tools=[book])
    first = await agent.stream("Book", **SCOPE)
    await first.wait()
    say(model, [answers(first.run_id, {"approved": True})], [text("Sorry.")])

    output = await agent.stream("Yes!", **SCOPE, auto_resume_suspended_tools=True)
    await output.wait()

    assert 1 <= (await agent.list_suspended_runs()).total
    assert first.run_id not in str(model.requests[1].prompt[0])


async def test_a_model_answers_for_a_sub_agent(make_agent: MakeAgent) -> None:
    calls: Calls = []
    worker = make_agent(
        id="worker",
        model=ScriptedModel([[tool_call("book", {"city": "Rome"}, id="i")], [text("did")]]),
        tools=[booking(calls)],
    )
    model = ScriptedModel([[tool_call("agent-worker", {"prompt": "Book!"}, id="old")]])
    boss = make_agent(id="boss", model=model, agents=[worker])
    first = await boss.stream("Book", **SCOPE)
    await first.wait()
    link = {"suspendedToolRunId": first.run_id, "suspendedToolCallId": "old", "resumeData": 4}
    say(model, [tool_call("agent-worker", {"prompt": "x", **link}, id="new")], [text("fine")])

    output = await boss.stream("Four", **SCOPE, auto_resume_suspended_tools=True)

    assert ("fine", ("Rome", 4)) == (await output.text, calls[-1])
    for each in (boss, worker):
        assert 0 == (await each.list_suspended_runs()).total
