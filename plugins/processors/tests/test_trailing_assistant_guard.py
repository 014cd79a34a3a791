"""``trailing-assistant-guard``: who ends with whose words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mastra_core import tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_processors import TrailingAssistantGuard
from mastra_processors.trailing_assistant_guard import wants_user_turn

pytestmark = pytest.mark.anyio

DIALOGUE = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


@tool
async def look() -> str:
    """Look."""
    return "seen"


def gemini(*calls: Any) -> ScriptedModel:
    return ScriptedModel(calls, provider="google", model_id="gemini-3-pro")


async def test_a_user_turn_is_added_for_the_model_only(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent(model=gemini([text("c")]), input_processors=[TrailingAssistantGuard()])

    await agent.generate(DIALOGUE, thread_id="t1", resource_id="u1")

    assert "user:a assistant:b user:Continue." == prompt_of(agent)
    page = await agent.memory.store.list_messages("t1")
    assert "Continue." not in str([message.content for message in page.messages])


async def test_nothing_is_added_where_the_prompt_ends_well(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent(
        model=gemini([tool_call("look", {})], [text("done")]),
        tools=[look],
        input_processors=[TrailingAssistantGuard()],
    )
    await agent.generate("a")

    assert "user:a assistant:<look> tool:[seen]" == prompt_of(agent)


async def test_other_models_may_go_on_from_their_own_words(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent([text("c")], input_processors=[TrailingAssistantGuard()])
    await agent.generate(DIALOGUE)
    assert "user:a assistant:b" == prompt_of(agent)

    guard = TrailingAssistantGuard(when="always", text="Go on!")
    agent = make_agent([text("c")], input_processors=[guard])
    await agent.generate(DIALOGUE)
    assert "user:a assistant:b user:Go on!" == prompt_of(agent)


async def test_structured_output_counts_for_anthropic(make_agent: Any, prompt_of: Any) -> None:
    def claude() -> ScriptedModel:
        return ScriptedModel([[text("1")]], provider="anthropic", model_id="claude")

    guard = TrailingAssistantGuard()
    agent = make_agent(model=claude(), input_processors=[guard])
    await agent.generate(DIALOGUE)
    assert "user:a assistant:b" == prompt_of(agent)

    agent = make_agent(model=claude(), input_processors=[guard])
    await agent.generate(DIALOGUE, structured_output=int)
    assert "user:a assistant:b user:Continue." == prompt_of(agent)


@pytest.mark.parametrize(
    ("provider", "model_id", "expected"),
    [
        ("google", "gemini-2.5-pro", False),
        ("google", "gemini-3-flash", True),
        ("openrouter", "google/gemini-10", True),
        ("openai", "gpt-5", False),
    ],
)
def test_models_are_known_by_their_names(provider: str, model_id: str, expected: bool) -> None:
    model = SimpleNamespace(provider=provider, model_id=model_id)

    assert expected == wants_user_turn(model, is_structured=False)
