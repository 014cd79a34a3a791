"""What steps and responses say of the messages of a run."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra, tool
from mastra_core.config import Settings
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio


@tool
async def look(what: str) -> str:
    """Look at something."""
    return f"{what} is green"


@tool(require_approval=True)
async def paint(what: str) -> str:
    """Paint something."""
    return f"{what} is blue"


def painter(*calls: Any) -> Agent:
    return Agent(id="painter", model=ScriptedModel(calls), tools=[look, paint])


def app(agent: Agent, storage: InMemoryStorage) -> Mastra:
    return Mastra(
        storage=storage,
        lease="memory:",
        agents=[agent],
        settings=Settings(),
        notifications={"enabled": False},
    )


async def test_a_response_has_its_messages_in_three_forms(make_agent: Any) -> None:
    agent = make_agent(
        model=ScriptedModel([[tool_call("look", {"what": "it"})], [text("So it is.")]]),
        tools=[look],
    )
    output = await agent.stream("Look!")

    response = await output.response
    assert ["assistant", "tool", "assistant"] == [turn["role"] for turn in response["messages"]]
    [row] = response["dbMessages"]
    assert (await output.text, output.message_id) == (row["content"]["content"], row["id"])
    [shown] = response["uiMessages"]
    assert ["tool-look", "step-start", "text"] == [part["type"] for part in shown["parts"]]
    assert {"id", "timestamp", "modelId"} <= set(response)


async def test_a_step_says_everything_about_itself(make_agent: Any) -> None:
    source = {"type": "source", "id": "s", "sourceType": "url", "url": "https://example.org"}
    made = [
        {"type": "reasoning", "text": "Hmm."},
        source,
        {"type": "file", "mediaType": "image/png", "data": "AAAA"},
        tool_call("look", {"what": "it"}),
    ]
    agent = make_agent(model=ScriptedModel([made, [text("Green.")]]), tools=[look])
    output = await agent.stream("Look!")

    first, last = await output.steps
    assert ["reasoning", "source", "file", "tool-call", "tool-result"] == [
        part["type"] for part in first["content"]
    ]
    assert (1, 1) == (len(first["sources"]), len(first["files"]))
    assert (1, 0) == (len(first["staticToolCalls"]), len(first["dynamicToolCalls"]))
    assert ([], []) == (last["sources"], last["files"])
    assert [{"type": "text", "text": "Green."}] == last["content"] == await output.content
    assert [{"type": "reasoning", "text": "Hmm."}] == await output.reasoning
    assert ({}, None) == (await output.request, await output.provider_metadata)


async def test_a_step_is_told_with_its_messages(make_agent: Any) -> None:
    told: list[Any] = []
    agent = make_agent(model=ScriptedModel([[text("Hi.")]]))
    output = await agent.stream("Hello", on_step_finish=told.append)
    await output.wait()

    [step] = told
    assert "Hi." == step["response"]["dbMessages"][0]["content"]["content"]


async def test_an_output_is_a_stream_of_chunks(make_agent: Any) -> None:
    output = await make_agent(model=ScriptedModel([[text("Hi.")]])).stream("Hello")

    kinds = [chunk["type"] async for chunk in output]

    assert ("start", "finish") == (kinds[0], kinds[-1])


async def test_the_end_of_a_run_tells_clients_what_to_go_on_from(make_agent: Any) -> None:
    """With the calls that the client is to answer."""
    agent = make_agent(
        model=ScriptedModel(
            [[tool_call("look", {"what": "it"}, id="a")], [tool_call("mine", {}, id="b")]]
        ),
        tools=[look],
    )
    output = await agent.stream("Look!", client_tools={"mine": {}}, thread_id="t", resource_id="r")
    finish = [chunk async for chunk in output][-1]

    told = finish["payload"]["messages"]
    assert [["user"], 1] == [[turn["role"] for turn in told["user"]], len(told["user"])]
    assert ["assistant", "tool", "assistant"] == [turn["role"] for turn in told["nonUser"]]
    assert "b" == told["nonUser"][-1]["content"][0]["toolCallId"]
    assert ["user", "assistant", "tool"] == [turn["role"] for turn in told["all"]]


@case("streaming", 67)
@pytest.mark.parametrize("is_compact", [True, False])
async def test_steps_that_node_stored_are_whole_again(is_compact: bool) -> None:
    """As Node writes them: requests once beside the steps, messages by their ids."""
    storage = InMemoryStorage()
    request = {"body": {"model": "gpt", "input": "everything that was said"}}
    calls = [[tool_call("look", {"what": "it"}, id=f"c{n}")] for n in (1, 2)]
    agent = painter(*calls, [tool_call("paint", {"what": "it"}, id="c3")])
    async with app(agent, storage):
        output = await agent.stream("Paint!", thread_id="t", resource_id="r")
        await output.wait()
        await _store_as_node_does(storage, output.run_id, request, is_compact=is_compact)
    agent = painter([text("Done.")])
    async with app(agent, storage):
        output = await agent.approve_tool_call(output.run_id)
        steps = await output.steps

    first, second, parked, last = steps
    assert [request, request] == [first["request"], second["request"]]
    for step in (first, second):
        [row] = step["response"]["dbMessages"]
        assert "assistant" == row["role"]
        assert "c1" in str(row)
        assert not any(name.startswith("__") for name in (*step["request"], *step["response"]))
        if is_compact:
            assert ["assistant", "tool"] == [t["role"] for t in step["response"]["messages"]][:2]
            assert "tool-look" == step["response"]["uiMessages"][0]["parts"][0]["type"]
    assert 2 == len(last["response"]["dbMessages"])
    assert "paint" in str(parked["toolCalls"])


async def _store_as_node_does(
    storage: InMemoryStorage, run_id: str, request: dict[str, Any], *, is_compact: bool
) -> None:
    for name in ("agentic-loop", "executionWorkflow"):
        key = {"workflow_name": name, "run_id": run_id}
        document = await storage.workflows.load_workflow_snapshot(**key)
        assert document is not None
        for step in document["context"].values():
            payload = step.get("suspendPayload") if isinstance(step, dict) else None
            if payload is None:
                continue
            state = payload["__streamState"]
            row = next(m for m in state["messageList"]["messages"] if m["role"] == "assistant")
            for buffered in state["bufferedSteps"]:
                if is_compact:
                    buffered["request"] = {"__requestRef": 0}
                    buffered["response"]["__responseMessageIds"] = [row["id"]]
                else:
                    # Older snapshots hold everything inline.
                    buffered["request"] = request
                    buffered["response"].pop("__responseMessageIds")
                    buffered["response"]["dbMessages"] = [row]
            if is_compact:
                state["bufferedStepRequests"] = [request]
        await storage.workflows.persist_workflow_snapshot(**key, snapshot=document)
