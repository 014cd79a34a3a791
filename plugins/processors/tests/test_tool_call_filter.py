"""``tool-call-filter``: which calls the model sees again."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core import tool
from mastra_core.testing.scripted_model import text, tool_call
from mastra_processors import ToolCallFilter

pytestmark = pytest.mark.anyio

THREAD = {"thread_id": "t1", "resource_id": "u1"}


@tool
async def look(what: str) -> str:
    """Look at something."""
    return f"seen {what}"


@tool
async def find(what: str) -> str:
    """Find something."""
    return f"found {what}"


def calls(*names: str) -> list[Any]:
    """One step per call, then a text."""
    steps = [[tool_call(name, {"what": str(n)}, id=f"c{n}")] for n, name in enumerate(names)]
    return [*steps, [text("done")]]


async def after(make_agent: Any, *names: str, **options: Any) -> Any:
    """An agent that has done these calls in a run, and was asked once more."""
    agent = make_agent(
        *calls(*names),
        [text("again")],
        tools=[look, find],
        input_processors=[ToolCallFilter(**options)],
    )
    await agent.generate("first", **THREAD)
    await agent.generate("second", **THREAD)
    return agent


async def test_calls_of_earlier_runs_go(make_agent: Any, prompt_of: Any) -> None:
    agent = await after(make_agent, "look", "find")

    assert "user:first assistant:done user:second" == prompt_of(agent)
    page = await agent.memory.store.list_messages("t1")
    assert any(p["type"] == "tool-invocation" for m in page.messages for p in m.content["parts"])


async def test_calls_of_this_run_stay(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent(
        *calls("look"), *calls("look"), tools=[look], input_processors=[ToolCallFilter()]
    )
    await agent.generate("first", **THREAD)
    await agent.generate("second", **THREAD)

    # Both runs have a call with the same id.
    assert "user:first assistant:done user:second assistant:<look> tool:[seen 0]" == prompt_of(
        agent
    )


async def test_only_named_tools_are_filtered(make_agent: Any, prompt_of: Any) -> None:
    agent = await after(make_agent, "look", "find", exclude=("look",))

    assert "user:first assistant:<find> tool:[found 1] assistant:done user:second" == prompt_of(
        agent
    )


async def test_the_newest_steps_with_calls_may_stay(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent(
        *calls("look", "look", "find"),
        tools=[look, find],
        input_processors=[ToolCallFilter(filter_after_tool_steps=1)],
    )
    await agent.generate("go")

    assert "user:go assistant:<find> tool:[found 2]" == prompt_of(agent)


async def test_no_step_with_calls_need_stay(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent(
        *calls("look"), tools=[look], input_processors=[ToolCallFilter(filter_after_tool_steps=0)]
    )
    await agent.generate("go")

    assert "user:go" == prompt_of(agent)


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("short", "short"),
        ({"type": "text", "value": "short"}, "short"),
        ({"type": "json", "value": {"n": 1}}, '{"n":1}'),
        ({"type": "content", "value": [{"type": "text", "text": "a"}, {"type": "media"}]}, "a"),
        ({"type": "content", "value": [{"type": "media"}]}, None),
    ],
)
async def test_the_short_output_for_the_model_may_stay(
    make_agent: Any, prompt_of: Any, output: Any, shown: str | None
) -> None:
    agent = make_agent([text("ok")], input_processors=[ToolCallFilter(preserve_model_output=True)])
    call = {"state": "result", "toolCallId": "1", "toolName": "look", "args": {}, "result": "long"}
    part = {
        "type": "tool-invocation",
        "toolInvocation": call,
        "providerMetadata": {"mastra": {"modelOutput": output}},
    }
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": {"format": 2, "parts": [part]}},
        {"role": "user", "content": "b"},
    ]
    await agent.generate(history)

    middle = "" if shown is None else f" assistant:{shown}"
    assert f"user:a{middle} user:b" == prompt_of(agent)


async def test_a_prompt_without_calls_stays_as_it_is(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent([text("ok")], input_processors=[ToolCallFilter()])

    await agent.generate("go")

    assert "user:go" == prompt_of(agent)
