"""Who looks at a tool call: hooks, observers, schemas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_core import Agent, ToolContext, tool
from mastra_core.contracts.tool_hooks import ToolHooks, ToolSkip
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

MakeAgent = Callable[..., Agent]
pytestmark = pytest.mark.anyio


@tool
async def double(n: int) -> int:
    """Twice as much."""
    return 2 * n


def asks(**arguments: Any) -> ScriptedModel:
    return ScriptedModel([[tool_call("double", arguments or {"n": 4})], [text("done")]])


async def result_of(agent: Agent, **options: Any) -> Any:
    output = await agent.stream("go", **options)
    results = [
        chunk["payload"]
        async for chunk in output.full_stream
        if chunk["type"] in ("tool-result", "tool-error")
    ]
    [payload] = results
    return payload.get("result", payload.get("error"))


# -- hooks ----------------------------------------------------------------------------------------


async def test_hooks_see_the_call_and_its_end(make_agent: MakeAgent) -> None:
    seen: list[Any] = []
    agent = make_agent(model=asks(), tools=[double])

    result = await result_of(
        agent,
        hooks=ToolHooks(
            before=lambda start: seen.append((start.tool_name, start.input.n)),
            after=lambda end: seen.append(end.output),
        ),
    )

    assert (8, [("double", 4), 8]) == (result, seen)


async def test_a_hook_answers_in_place_of_the_tool(make_agent: MakeAgent) -> None:
    async def before(start: Any) -> ToolSkip:
        return ToolSkip(output="cached")

    @tool
    async def double(n: int) -> int:
        """Twice as much."""
        raise AssertionError("was skipped")

    agent = make_agent(model=asks(), tools=[double])

    assert "cached" == await result_of(agent, hooks=ToolHooks(before=before))


async def test_a_hook_of_the_agent_holds_for_every_run(make_agent: MakeAgent) -> None:
    hooks = ToolHooks(before=lambda start: ToolSkip(output="never"))
    agent = make_agent(model=asks(), tools=[double], default_options={"hooks": hooks})

    assert "never" == await result_of(agent)


@pytest.mark.parametrize("verdict", ["yes", {"proceed": False}])
async def test_a_hook_that_returns_something_else_fails_the_call(
    make_agent: MakeAgent, verdict: Any
) -> None:
    agent = make_agent(model=asks(), tools=[double])

    result = await result_of(agent, hooks=ToolHooks(before=lambda start: verdict))

    assert "ToolSkip" in result["message"]


async def test_a_start_hook_that_fails_fails_the_call_and_an_end_hook_nothing(
    make_agent: MakeAgent,
) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("broken hook")

    agent = make_agent(model=asks(), tools=[double])
    assert "broken hook" in (await result_of(agent, hooks=ToolHooks(before=fail)))["message"]

    agent = make_agent(model=asks(), tools=[double])
    assert 8 == await result_of(agent, hooks=ToolHooks(after=fail))


async def test_an_end_hook_sees_what_was_raised(make_agent: MakeAgent) -> None:
    @tool
    async def double(n: int) -> int:
        """Twice as much."""
        raise RuntimeError("overflow")

    seen: list[Any] = []
    agent = make_agent(model=asks(), tools=[double])
    await result_of(agent, hooks=ToolHooks(after=lambda end: seen.append(str(end.error))))

    assert ["overflow"] == seen


# -- observers ------------------------------------------------------------------------------------


async def test_a_tool_sees_its_arguments_arrive(make_agent: MakeAgent) -> None:
    seen: list[Any] = []

    @tool(
        on_input_start=lambda given: seen.append("start"),
        on_input_delta=lambda given: seen.append(given.delta),
        on_input_available=lambda given: seen.append(given.input),
        on_output=seen.append,
    )
    async def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    call = {"type": "tool-streamed", "id": "c", "name": "double", "input": {"n": 4}}
    agent = make_agent(model=ScriptedModel([[call], [text("done")]]), tools=[double])
    assert 8 == await result_of(agent)

    assert ("start", {"n": 4}, 8) == (seen[0], seen[-2], seen[-1])
    assert '{"n":4}' == "".join(seen[1:-2]).replace(" ", "")


async def test_an_observer_that_fails_changes_nothing(make_agent: MakeAgent) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("broken observer")

    @tool(on_input_available=fail, on_output=fail)
    async def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    assert 8 == await result_of(make_agent(model=asks(), tools=[double]))


# -- schemas --------------------------------------------------------------------------------------


async def test_a_result_that_does_not_fit_is_told(make_agent: MakeAgent) -> None:
    @tool(output_schema=int)
    async def double(n: int) -> str:
        """Twice as much."""
        return "eight"

    result = await result_of(make_agent(model=asks(), tools=[double]))

    assert (True, ["root"]) == (result["error"], list(result["validationErrors"]["fields"]))


async def test_a_context_that_lacks_something_is_told(make_agent: MakeAgent) -> None:
    schema = {"type": "object", "required": ["tenant"]}

    @tool(request_context_schema=schema)
    async def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    agent = make_agent(model=asks(), tools=[double])
    assert (await result_of(agent))["error"] is True
    agent = make_agent(model=asks(), tools=[double])
    assert 8 == await result_of(agent, request_context={"tenant": "a"})


async def test_a_payload_that_does_not_fit_does_not_suspend(make_agent: MakeAgent) -> None:
    @tool(suspend_schema={"type": "object", "required": ["question"]})
    async def double(n: int, context: ToolContext) -> None:
        """Twice as much."""
        await context.suspend({"answer": 1})

    result = await result_of(make_agent(model=asks(), tools=[double]))

    assert {"question": "is missing"} == result["validationErrors"]["fields"]


async def test_a_tool_that_suspends_owes_no_result(make_agent: MakeAgent) -> None:
    @tool(output_schema=int, suspend_schema=dict)
    async def double(n: int, context: ToolContext) -> int | None:
        """Twice as much."""
        if not context.is_resumed:
            await context.suspend({})
            return None
        return 2 * n

    agent = make_agent(model=asks(), tools=[double])
    output = await agent.stream("go")
    await output.wait()
    output = await agent.resume_stream({}, run_id=output.run_id)

    [result] = await output.tool_results
    assert 8 == result["payload"]["result"]


async def test_the_model_is_told_about_the_tool(make_agent: MakeAgent) -> None:
    @tool(strict=True, provider_options={"p": {"x": 1}}, input_examples=[{"n": 1}])
    async def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    model = asks()
    await result_of(make_agent(model=model, tools=[double]))

    [schema] = model.requests[0].tools
    assert (True, {"p": {"x": 1}}, ({"n": 1},)) == (
        schema.strict,
        schema.provider_options,
        schema.input_examples,
    )


async def test_people_see_the_title_of_a_tool(make_agent: MakeAgent, stored: Any) -> None:
    @tool(title="Doubling")
    async def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    call = {"type": "tool-streamed", "id": "c", "name": "double", "input": {"n": 4}}
    agent = make_agent(model=ScriptedModel([[call], [text("done")]]), tools=[double])
    output = await agent.stream("go", thread_id="t", resource_id="r")
    titles = [
        chunk["payload"].get("title")
        async for chunk in output
        if chunk["type"] in ("tool-call-input-streaming-start", "tool-call")
    ]

    assert ["Doubling", "Doubling"] == titles
    assert "Doubling" == (await stored(agent))[-1].content["parts"][0]["title"]


async def test_the_model_reads_what_the_tool_makes_of_its_result(
    make_agent: MakeAgent, stored: Any
) -> None:
    @tool(to_model_output=lambda n: {"type": "text", "value": f"about {n}"})
    async def double(n: int) -> int:
        """Twice as much."""
        return 2 * n

    model = asks()
    agent = make_agent(model=model, tools=[double])
    assert 8 == await result_of(agent, thread_id="t", resource_id="r")

    [shown] = [turn for turn in model.requests[1].prompt if turn["role"] == "tool"]
    assert {"type": "text", "value": "about 8"} == shown["content"][0]["output"]
    row = (await stored(agent))[-1].content["parts"][0]
    assert (8, {"type": "text", "value": "about 8"}) == (
        row["toolInvocation"]["result"],
        row["providerMetadata"]["mastra"]["modelOutput"],
    )


async def test_a_tool_stores_what_was_said_so_far(make_agent: MakeAgent, stored: Any) -> None:
    roles: list[str] = []

    @tool
    async def double(n: int, context: ToolContext) -> str:
        """Twice as much."""
        assert context.flush_messages is not None
        await context.flush_messages()
        roles.extend(row.role for row in await stored(agent))
        return f"for {context.actor}"

    agent = make_agent(model=asks(), tools=[double])
    result = await result_of(agent, thread_id="t", resource_id="r", actor="ann")

    assert ("for ann", ["user", "assistant"]) == (result, roles)
