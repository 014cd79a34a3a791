"""``memory-input-filter``: clients that send everything each time."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core import FunctionTool
from mastra_core.testing.scripted_model import text, tool_call
from mastra_processors import MemoryInputFilter

pytestmark = pytest.mark.anyio

THREAD = {"thread_id": "t1", "resource_id": "u1"}


def said(role: str, words: str, **members: Any) -> dict[str, Any]:
    return {"role": role, "content": words, **members}


async def stored(agent: Any) -> list[str]:
    page = await agent.memory.store.list_messages("t1")
    return [
        f"{m.role}:" + "".join(p.get("text", "") for p in m.content["parts"]) for m in page.messages
    ]


async def test_what_the_client_repeats_is_dropped(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent([text("b")], [text("d")], input_processors=[MemoryInputFilter()])
    await agent.generate("a", **THREAD)

    await agent.generate([said("user", "a"), said("assistant", "b "), said("user", "c")], **THREAD)

    assert "user:a assistant:b user:c" == prompt_of(agent)
    assert ["user:a", "assistant:b", "user:c", "assistant:d"] == await stored(agent)


async def test_all_that_the_user_says_at_the_end_is_new(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent([text("b")], [text("e")], input_processors=[MemoryInputFilter()])
    await agent.generate("a", **THREAD)

    await agent.generate([said("assistant", "b"), said("user", "c"), said("user", "d")], **THREAD)

    assert "user:a assistant:b user:c user:d" == prompt_of(agent)


async def test_a_new_thread_takes_all_but_what_providers_noted(
    make_agent: Any, prompt_of: Any
) -> None:
    agent = make_agent([text("d")], input_processors=[MemoryInputFilter()])
    noted = {"type": "text", "text": "b", "providerMetadata": {"openai": {"itemId": "msg_1"}}}
    history = [
        said("user", "a"),
        {"role": "assistant", "content": {"format": 2, "parts": [noted]}},
        said("user", "c"),
    ]
    await agent.generate(history, **THREAD)

    assert "user:a assistant:b user:c" == prompt_of(agent)
    assert "msg_1" not in str(agent.resolve_models(None)[0].requests[-1].prompt)


async def test_without_a_thread_nothing_is_filtered(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent([text("c")], input_processors=[MemoryInputFilter()])

    await agent.generate([said("user", "a"), said("assistant", "b"), said("user", "c")])

    assert "user:a assistant:b user:c" == prompt_of(agent)


async def test_all_of_the_input_is_taken_if_wanted(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent(
        [text("b")], [text("d")], input_processors=[MemoryInputFilter(retain_full_input=True)]
    )
    await agent.generate("a", **THREAD)

    await agent.generate([said("assistant", "x"), said("user", "c")], **THREAD)

    assert "user:a assistant:b assistant:x user:c" == prompt_of(agent)


@pytest.mark.parametrize("asks_more", [False, True])
async def test_the_outcome_of_a_waiting_call_is_taken(
    make_agent: Any, prompt_of: Any, asks_more: bool
) -> None:
    """A client returns its whole assistant message with the result that was missing."""
    ask = FunctionTool(id="ask", description="Ask the user.")
    agent = make_agent(
        [tool_call("ask", {"q": 1}, id="c1")],
        [text("thanks")],
        tools=[ask],
        input_processors=[MemoryInputFilter()],
    )
    await agent.generate("a", **THREAD)

    call = {
        "toolCallId": "c1",
        "toolName": "ask",
        "args": {"q": "changed"},
        "state": "result",
        "result": "yes",
    }
    echo = {
        "role": "assistant",
        "content": {
            "format": 2,
            "parts": [
                {"type": "text", "text": "repeated"},
                {"type": "tool-invocation", "toolInvocation": call},
            ],
        },
    }
    await agent.generate(
        [said("user", "a"), echo, *([said("user", "more")] if asks_more else [])], **THREAD
    )

    tail = " user:more" if asks_more else ""
    head = prompt_of(agent)
    assert head.startswith("user:a assistant:<ask> tool:[yes]")
    assert head.endswith(tail)
    request = agent.resolve_models(None)[0].requests[-1]
    assert "changed" not in str(request.prompt)
    page = await agent.memory.store.list_messages("t1")
    states = [
        p["toolInvocation"]["state"]
        for m in page.messages
        for p in m.content["parts"]
        if p["type"] == "tool-invocation"
    ]
    assert states[0] == "result"


async def test_instructions_in_the_assistants_name_are_kept(
    make_agent: Any, prompt_of: Any
) -> None:
    """An assistant message at the end that was never stored is the prompt of somebody else."""
    agent = make_agent([text("b")], [text("d")], input_processors=[MemoryInputFilter()])
    await agent.generate("a", **THREAD)

    await agent.generate([said("assistant", "do this")], **THREAD)
    assert "user:a assistant:b assistant:do this" == prompt_of(agent)


async def test_a_stored_message_at_the_end_is_not_repeated(make_agent: Any, prompt_of: Any) -> None:
    agent = make_agent([text("b")], [text("d")], input_processors=[MemoryInputFilter()])
    await agent.generate("a", **THREAD)
    page = await agent.memory.store.list_messages("t1")

    await agent.generate([said("assistant", "changed", id=page.messages[-1].id)], **THREAD)

    assert "user:a assistant:b" == prompt_of(agent)
