"""``working-memory``: notes that stay, and who may change them."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.testing.scripted_model import text, tool_call
from mastra_processors import WorkingMemory

pytestmark = pytest.mark.anyio

ANN = {"thread_id": "t1", "resource_id": "ann"}


def writes(notes: Any) -> list[Any]:
    return [tool_call("updateWorkingMemory", {"memory": notes})]


def system(agent: Any, request: int = -1) -> str:
    prompt = agent.resolve_models(None)[0].requests[request].prompt
    return "\n".join(turn["content"] for turn in prompt if turn["role"] == "system")


def tools(agent: Any) -> list[str]:
    return [tool.name for tool in agent.resolve_models(None)[0].requests[-1].tools]


async def test_the_model_reads_and_replaces_the_notes(make_agent: Any) -> None:
    notes = WorkingMemory()
    agent = make_agent(
        writes("- Name: Ann"), [text("noted")], [text("hi Ann")], input_processors=[notes]
    )

    await agent.generate("I am Ann.", **ANN)

    assert "- Name:\n" in system(agent, 0)
    assert "- Name: Ann" in system(agent, 1)
    await agent.generate("Hello!", thread_id="t2", resource_id="ann")
    assert "- Name: Ann" in system(agent)
    resource = await agent.memory.store.get_resource_by_id("ann")
    assert "- Name: Ann" == resource.working_memory


async def test_others_have_other_notes(make_agent: Any) -> None:
    agent = make_agent(
        writes("Ann's"), [text("a")], [text("b")], input_processors=[WorkingMemory()]
    )
    await agent.generate("x", **ANN)
    await agent.generate("x", thread_id="t3", resource_id="bob")

    assert "Ann's" not in system(agent)


async def test_notes_may_belong_to_one_thread(make_agent: Any) -> None:
    notes = WorkingMemory(scope="thread")
    agent = make_agent(
        writes("for t1"), [text("a")], [text("b")], [text("c")], input_processors=[notes]
    )
    await agent.generate("x", thread_metadata={"kept": 1}, **ANN)
    await agent.generate("x", thread_id="t2", resource_id="ann")
    assert "for t1" not in system(agent)

    await agent.generate("x", **ANN)
    assert "for t1" in system(agent)
    thread = await agent.memory.store.get_thread_by_id("t1")
    assert {"kept": 1, "workingMemory": "for t1"} == thread.metadata


async def test_who_may_only_read_has_no_tool(make_agent: Any) -> None:
    agent = make_agent([text("a")], input_processors=[WorkingMemory(read_only=True)])
    await agent.memory.store.update_resource("ann", working_memory="known")

    await agent.generate("x", **ANN)

    assert "known" in system(agent)
    assert [] == tools(agent)


async def test_notes_may_be_json(make_agent: Any) -> None:
    notes = WorkingMemory(template={"format": "json", "content": {"name": ""}})
    agent = make_agent(writes({"name": "Ann"}), [text("a")], input_processors=[notes])

    await agent.generate("x", **ANN)

    assert '{"name":""}' in system(agent, 0)
    assert '{"name":"Ann"}' in system(agent, 1)


async def test_without_a_thread_there_are_no_notes(make_agent: Any) -> None:
    agent = make_agent([text("a")], input_processors=[WorkingMemory()])

    await agent.generate("x")

    assert ("", []) == (system(agent), tools(agent))


async def test_stored_messages_do_not_speak_of_the_notes(make_agent: Any) -> None:
    notes = WorkingMemory()
    agent = make_agent(
        writes("secret"),
        [text("done <working_memory>secret</working_memory>now")],
        input_processors=[notes],
        output_processors=[notes],
    )

    await agent.generate("x", **ANN)

    page = await agent.memory.store.list_messages("t1")
    assert "secret" not in str([message.content for message in page.messages])
    assert "done now" == page.messages[-1].content["parts"][-1]["text"]
