"""Payloads of tools, as clients see them and as storage keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, ToolContext, tool
from mastra_core.contracts.tool_hooks import ToolPayload
from mastra_core.errors import ConfigError
from mastra_core.testing.scripted_model import ScriptedModel, text

MakeAgent = Callable[..., Agent]
pytestmark = pytest.mark.anyio

SCOPE = {"thread_id": "t", "resource_id": "r"}


def masked(payload: ToolPayload) -> Any:
    return f"<{payload.phase}>"


def hide(*phases: str) -> dict[str, Any]:
    return dict.fromkeys(phases, masked)


async def chunks_of(agent: Agent, **options: Any) -> dict[str, list[dict[str, Any]]]:
    output = await agent.stream("go", **SCOPE, **options)
    found: dict[str, list[dict[str, Any]]] = {}
    async for chunk in output.full_stream:
        found.setdefault(chunk["type"], []).append(chunk)
    return found


def login(**options: Any) -> FunctionTool:
    @tool(**options)
    async def login(password: str) -> dict[str, str]:
        """Log in."""
        seen.append(password)
        return {"token": f"{password}-token"}

    seen: list[str] = []
    login.seen = seen  # type: ignore[attr-defined] # for the test alone
    return login


def calls_login(streamed: bool = False) -> Any:
    return {
        "type": "tool-streamed" if streamed else "tool",
        "id": "c",
        "name": "login",
        "input": {"password": "hunter2"},
    }


async def test_clients_see_what_the_tool_lets_them_see(make_agent: MakeAgent) -> None:
    known = login(transform={"display": hide("input", "output")})
    model = ScriptedModel([[calls_login()], [text("in")]])
    agent = make_agent(model=model, tools=[known])

    found = await chunks_of(agent)

    assert "hunter2" not in str(found)
    [call], [result] = found["tool-call"], found["tool-result"]
    assert ("<input>", "<output>") == (call["payload"]["args"], result["payload"]["result"])
    states = call["metadata"]["mastra"]["toolPayloadTransform"]
    assert {"display": {"input-available": {"transformed": "<input>"}}} == states
    # The tool and the model work with the real values.
    assert ["hunter2"] == known.seen  # type: ignore[attr-defined]
    assert "hunter2-token" in str(model.requests[1].prompt)


async def test_text_of_hidden_arguments_is_not_streamed(make_agent: MakeAgent) -> None:
    agent = make_agent(
        model=ScriptedModel([[calls_login(streamed=True)], [text("in")]]),
        tools=[login(transform={"display": hide("input")})],
    )

    found = await chunks_of(agent)

    assert {""} == {chunk["payload"]["argsTextDelta"] for chunk in found["tool-call-delta"]}
    mark = found["tool-call-delta"][0]["metadata"]["mastra"]["toolPayloadTransform"]
    assert {"display": {"input-delta": {"suppress": True}}} == mark


async def test_storage_keeps_what_the_tool_lets_it_keep(make_agent: MakeAgent, stored: Any) -> None:
    model = ScriptedModel([[calls_login()], [text("in")]])
    agent = make_agent(
        model=model, tools=[login(transform={"transcript": hide("input", "output")})]
    )

    found = await chunks_of(agent)

    assert "hunter2-token" == found["tool-result"][0]["payload"]["result"]["token"]
    assert "hunter2" not in str(model.requests[1].prompt)
    [part] = [
        part
        for row in await stored(agent)
        for part in row.content["parts"]
        if part["type"] == "tool-invocation"
    ]
    invocation = part["toolInvocation"]
    assert ("<input>", "<output>") == (invocation["args"], invocation["result"])
    states = part["providerMetadata"]["mastra"]["toolPayloadTransform"]["transcript"]
    assert {"input-available", "output-available"} == set(states)


async def test_the_policy_of_a_call_comes_before_that_of_the_tool(make_agent: MakeAgent) -> None:
    agent = make_agent(
        model=ScriptedModel([[calls_login()], [text("in")]]),
        tools=[login(transform={"display": {"output": lambda p: f"tool({p.value})"}})],
    )

    found = await chunks_of(
        agent,
        transform=lambda p: "call" if (p.target, p.phase) == ("display", "output") else p.value,
    )

    assert "tool(call)" == found["tool-result"][0]["payload"]["result"]
    assert {"password": "hunter2"} == found["tool-call"][0]["payload"]["args"]
    assert "metadata" not in found["tool-call"][0]


async def test_a_transform_that_fails_shows_nothing(make_agent: MakeAgent, stored: Any) -> None:
    def fail(_: ToolPayload) -> None:
        raise RuntimeError("no")

    model = ScriptedModel([[calls_login(streamed=True)], [text("in")]])
    agent = make_agent(model=model, tools=[login()])

    found = await chunks_of(agent, transform=fail)

    assert "hunter2" not in f"{found}{model.requests[1].prompt}{await stored(agent)}"
    state = found["tool-result"][0]["metadata"]["mastra"]["toolPayloadTransform"]["display"]
    assert state["output-available"]["failed"] is True
    delta = found["tool-call-delta"][0]
    mark = delta["metadata"]["mastra"]["toolPayloadTransform"]["display"]["input-delta"]
    assert {"suppress": True, "failed": True} == mark


async def test_errors_are_hidden_too(make_agent: MakeAgent, stored: Any) -> None:
    @tool(transform={"display": hide("error"), "transcript": hide("error")})
    async def login(password: str) -> None:
        """Log in."""
        raise RuntimeError(f"{password} is wrong")

    agent = make_agent(model=ScriptedModel([[calls_login()], [text("out")]]), tools=[login])
    found = await chunks_of(agent)

    assert "<error>" == found["tool-error"][0]["payload"]["error"]
    assert "hunter2 is wrong" not in str(await stored(agent))


async def test_what_waits_is_hidden_and_goes_on_with_the_real_values(
    make_agent: MakeAgent, stored: Any
) -> None:
    seen = []

    @tool(
        require_approval=True,
        suspend_schema=dict,
        transform={
            "display": hide("input", "suspend"),
            "transcript": hide("input", "approval", "suspend"),
        },
    )
    async def login(password: str, context: ToolContext) -> str:
        """Log in."""
        seen.append(password)
        if not context.is_resumed:
            await context.suspend({"ask": password})
        return "in"

    agent = make_agent(model=ScriptedModel([[calls_login()], [text("fine")]]), tools=[login])
    found = await chunks_of(agent)
    assert "<approval>" == found["tool-call-approval"][0]["payload"]["args"]
    assert "hunter2" not in f"{found}{await stored(agent)}"

    [run] = (await agent.list_suspended_runs()).runs
    output = await agent.approve_tool_call(run.run_id)
    shown = [chunk async for chunk in output.full_stream]
    assert "<suspend>" == (await output.suspend_payload)["suspendPayload"]
    assert "hunter2" not in f"{shown}{await stored(agent)}"

    output = await agent.resume_stream({}, run_id=run.run_id)
    assert ("fine", ["hunter2", "hunter2"]) == (await output.text, seen)


@pytest.mark.parametrize(
    "wrong", [{"screen": {}}, {"display": masked}, {"display": {"inputs": masked}}]
)
def test_an_unknown_target_or_phase_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="transform of tool 'login'"):
        FunctionTool(id="login", transform=wrong)
