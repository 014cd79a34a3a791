"""What a page is shown of a run (streaming.md 12.1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, ToolContext, tool, ui_messages
from mastra_core.errors import RunArgumentError, WireEncodeError
from mastra_core.streaming.ui_stream import (
    UI_STREAM_HEADERS,
    UiConverter,
    ui_frames,
    ui_stream,
)
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

CALL = {"toolCallId": "c1", "toolName": "deploy"}
ARGS = {"env": "prod"}


def chunk(kind: str, payload: Mapping[str, Any], sender: str = "AGENT") -> dict[str, Any]:
    return {"type": kind, "runId": "r1", "from": sender, "payload": dict(payload)}


def converted(*chunks: Mapping[str, Any], **options: Any) -> list[dict[str, Any]]:
    converter = UiConverter(**options)
    made = converter.begin()
    for one in chunks:
        made.extend(converter.convert(one))
    return [*made, *converter.end()]


async def stream_of(chunks: Sequence[Mapping[str, Any]]) -> AsyncIterator[Mapping[str, Any]]:
    for one in chunks:
        yield one


ROWS: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    (chunk("start", {"id": "a", "messageId": "m1"}), [{"type": "start", "messageId": "m1"}]),
    (chunk("step-start", {"messageId": "m1", "request": {}}), [{"type": "start-step"}]),
    (chunk("step-finish", {"messageId": "m1", "stepResult": {}}), [{"type": "finish-step"}]),
    (
        chunk("finish", {"stepResult": {"reason": "stop"}, "output": {}}),
        [{"type": "finish", "finishReason": "stop"}],
    ),
    (
        chunk("text-delta", {"id": "t", "text": "hi", "providerMetadata": {"p": {}}}),
        [{"type": "text-delta", "id": "t", "delta": "hi", "providerMetadata": {"p": {}}}],
    ),
    (chunk("text-start", {"id": "t"}), [{"type": "text-start", "id": "t"}]),
    (chunk("text-end", {"type": "text-end", "id": "t"}), [{"type": "text-end", "id": "t"}]),
    (
        chunk("file", {"data": "aGk=", "base64": "aGk=", "mimeType": "text/plain"}),
        [{"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,aGk="}],
    ),
    (
        chunk("tool-call-input-streaming-start", CALL),
        [{"type": "tool-input-start", **CALL}],
    ),
    (
        chunk("tool-call-delta", {**CALL, "argsTextDelta": '{"e'}),
        [{"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": '{"e'}],
    ),
    (chunk("tool-call-input-streaming-end", CALL), []),
    (
        chunk("tool-call", {**CALL, "args": ARGS, "providerExecuted": False, "dynamic": True}),
        [
            {
                "type": "tool-input-available",
                **CALL,
                "input": ARGS,
                "providerExecuted": False,
                "dynamic": True,
            }
        ],
    ),
    (
        chunk("tool-result", {**CALL, "args": ARGS, "result": {"ok": True}}),
        [{"type": "tool-output-available", "toolCallId": "c1", "output": {"ok": True}}],
    ),
    (
        chunk("tool-result", {**CALL, "result": None}),
        [{"type": "tool-output-available", "toolCallId": "c1", "output": None}],
    ),
    (
        chunk("tool-error", {**CALL, "error": {"name": "E", "message": "no disk", "stack": "x"}}),
        [{"type": "tool-output-error", "toolCallId": "c1", "errorText": "no disk"}],
    ),
    (
        chunk("tool-call-suspended", {**CALL, "suspendPayload": {"q": 1}, "resumeSchema": "{}"}),
        [
            {
                "type": "data-tool-call-suspended",
                "id": "c1",
                "data": {
                    "state": "data-tool-call-suspended",
                    "runId": "r1",
                    **CALL,
                    "suspendPayload": {"q": 1},
                    "resumeSchema": "{}",
                },
            }
        ],
    ),
    (
        {"type": "object-result", "runId": "r1", "from": "AGENT", "object": {"a": 1}},
        [{"type": "data-structured-output", "data": {"object": {"a": 1}}}],
    ),
    (
        {"type": "data-progress", "data": {"n": 1}, "id": "p", "transient": True},
        [{"type": "data-progress", "data": {"n": 1}, "id": "p", "transient": True}],
    ),
    (
        chunk("error", {"error": {"name": "E", "message": "boom"}}),
        [{"type": "error", "errorText": "boom"}],
    ),
    (chunk("abort", {}), [{"type": "abort"}]),
]


@pytest.mark.parametrize(("given", "expected"), ROWS, ids=[row[0]["type"] for row in ROWS])
@pytest.mark.parametrize("version", ["v5", "v6", "v7"])
def test_each_chunk_becomes_what_the_table_says(
    given: dict[str, Any], expected: list[dict[str, Any]], version: str
) -> None:
    """The rows that are the same in every version."""
    assert expected == converted(given, version=version)


@pytest.mark.parametrize(
    "kind",
    [
        *("raw", "response-metadata", "reasoning-signature", "redacted-reasoning", "object"),
        *("watch", "background-task-started", "background-task-completed", "goal"),
        *("is-task-complete", "step-output", "made-up"),
    ],
)
def test_what_is_for_programs_is_not_shown(kind: str) -> None:
    """Chunks that no page has a use for, and those that we don't know."""
    assert converted(chunk(kind, {"id": "x", "data": "y", "toolCallId": "c1"})) == []


@pytest.mark.parametrize("kind", ["reasoning-start", "reasoning-delta", "reasoning-end"])
def test_reasoning_is_shown_if_asked_for(kind: str) -> None:
    """Off unless asked."""
    thought = chunk(kind, {"id": "r", "text": "hm"})

    assert converted(thought) == []
    assert converted(thought, send_reasoning=True) == [{"type": kind, "id": "r", "delta": "hm"}]


def test_sources_are_shown_if_asked_for() -> None:
    """Pages and documents, each in its form."""
    page = chunk("source", {"id": "s", "sourceType": "url", "url": "https://a", "title": "A"})
    paper = chunk(
        "source",
        {"id": "d", "sourceType": "document", "mimeType": "text/plain", "title": "D"},
    )

    assert converted(page, paper) == []
    assert converted(page, paper, send_sources=True) == [
        {"type": "source-url", "sourceId": "s", "url": "https://a", "title": "A"},
        {"type": "source-document", "sourceId": "d", "mediaType": "text/plain", "title": "D"},
    ]


@case("streaming", 65)
def test_an_approval_is_data_and_from_v6_on_a_request_too() -> None:
    """The data part carries the call's id; the request names run and call."""
    asked = chunk("tool-call-approval", {**CALL, "args": ARGS, "resumeSchema": "{}"})
    kind = "data-tool-call-approval"
    facts = {"state": kind, "runId": "r1", **CALL, "args": ARGS, "resumeSchema": "{}"}
    shown = {"type": kind, "id": "c1", "data": facts}
    request = {"type": "tool-approval-request", "approvalId": "r1::c1", "toolCallId": "c1"}

    assert converted(asked, version="v5") == [shown]
    assert converted(asked, version="v6") == [shown, request]
    assert converted(asked, version="v7") == [shown, request]


def test_a_denied_call_is_an_output_for_v5() -> None:
    """Version 5 knows no denials, so it reads the reason as the output."""
    denied = chunk(
        "tool-output-denied", {**CALL, "approval": {"id": "c1", "approved": False, "reason": "no"}}
    )

    assert converted(denied, version="v6") == [{"type": "tool-output-denied", "toolCallId": "c1"}]
    assert converted(denied) == [
        {"type": "tool-output-available", "toolCallId": "c1", "output": "no"}
    ]


@case("streaming", 66)
def test_a_tripwire_ends_in_a_finish_of_its_own() -> None:
    """The run's stream may end without one."""
    tripped = chunk("tripwire", {"reason": "spam", "processorId": "p", "metadata": {"score": 1}})
    data = {"reason": "spam", "processorId": "p", "metadata": {"score": 1}}

    assert converted(tripped) == [
        {"type": "data-tripwire", "data": data},
        {"type": "finish", "finishReason": "other"},
    ]


def test_a_tripwire_before_a_finish_adds_none() -> None:
    """One end is enough."""
    finish = chunk("finish", {"stepResult": {"reason": "tripwire"}})
    shown = converted(chunk("tripwire", {"reason": "spam"}), finish)

    assert [{"type": "finish", "finishReason": "other"}] == shown[1:]


@pytest.mark.parametrize(
    ("reason", "version", "expected"),
    [
        ("tripwire", "v5", "other"),
        ("retry", "v5", "other"),
        ("abort", "v6", "other"),
        ("unknown", "v5", "unknown"),
        ("unknown", "v6", "other"),
        ("tool-calls", "v6", "tool-calls"),
    ],
)
def test_reasons_that_a_page_does_not_know_are_other(
    reason: str, version: str, expected: str
) -> None:
    """A reader would refuse the whole stream for an unknown one."""
    [shown] = converted(chunk("finish", {"stepResult": {"reason": reason}}), version=version)

    assert expected == shown["finishReason"]


def test_a_data_chunk_without_data_raises() -> None:
    """A fault of the program that wrote it."""
    with pytest.raises(WireEncodeError, match="data-nothing"):
        converted({"type": "data-nothing"})


def test_start_and_finish_can_be_left_out_and_carry_metadata() -> None:
    """For pages that put several streams into one message."""
    start = chunk("start", {"messageId": "m1"})
    finish = chunk("finish", {"stepResult": {"reason": "stop"}})

    assert converted(start, finish, send_start=False, send_finish=False) == []
    assert converted(
        start, finish, last_message_id="m0", message_metadata=lambda c: {"saw": c["type"]}
    ) == [
        {"type": "start", "messageId": "m0", "messageMetadata": {"saw": "start"}},
        {"type": "finish", "finishReason": "stop", "messageMetadata": {"saw": "finish"}},
    ]


def test_a_further_turn_goes_on_in_the_same_message() -> None:
    """A second start would rename the message on the page."""
    first, second = (chunk("start", {"messageId": m}) for m in ("m1", "m2"))
    end = chunk("finish", {"stepResult": {"reason": "stop"}})

    assert ["start", "finish", "finish"] == [c["type"] for c in converted(first, end, second, end)]


def test_unknown_versions_and_sources_are_refused() -> None:
    """Before anything is sent."""
    with pytest.raises(RunArgumentError, match="v5, v6, v7"):
        UiConverter(version="v4")  # type: ignore[arg-type]
    with pytest.raises(RunArgumentError, match="'robot'"):
        UiConverter(source="robot")  # type: ignore[arg-type]


# -- runs inside the run ------------------------------------------------------------------------


def nested(inner: Any) -> dict[str, Any]:
    return chunk("tool-output", {**CALL, "output": inner}, "USER")


def inner(kind: str, payload: Mapping[str, Any], sender: str = "AGENT") -> dict[str, Any]:
    return {"type": kind, "runId": "r2", "from": sender, "payload": dict(payload)}


def test_a_nested_agent_is_one_part_that_grows() -> None:
    """Same id, replaced with every change; a step keeps what belongs to it."""
    usage = {"inputTokens": 1}
    shown = converted(
        nested(inner("start", {"id": "sub", "messageId": "m9"})),
        nested(inner("text-delta", {"id": "t", "text": "one "})),
        nested(inner("text-delta", {"id": "t", "text": "two"})),
        nested(inner("raw", {})),
        nested(inner("tool-call", {"toolCallId": "k", "toolName": "n", "args": {}})),
        nested(inner("step-finish", {"stepResult": {"reason": "tool-calls"}, "output": {}})),
        nested(inner("text-delta", {"id": "t", "text": "bye"})),
        nested(inner("step-finish", {"stepResult": {"reason": "stop"}, "output": {}})),
        nested(inner("finish", {"stepResult": {"reason": "stop"}, "output": {"usage": usage}})),
    )

    assert {("data-tool-agent", "r2")} == {(part["type"], part["id"]) for part in shown}
    assert ["", "one ", "one two", "one two"] == [part["data"]["text"] for part in shown[:4]]
    last = shown[-1]["data"]
    assert ("finished", "stop", usage) == (last["status"], last["finishReason"], last["usage"])
    assert ["one two", "bye"] == [step["text"] for step in last["steps"]]
    assert [1, 0] == [len(step["toolCalls"]) for step in last["steps"]]


def test_what_a_tool_writes_is_shown_only_as_data() -> None:
    """Plain values aren't for pages; those of a nested tool's data parts are."""
    data = {"type": "data-note", "data": 1}

    assert converted(nested("words"), nested({"any": "thing"})) == []
    assert converted(nested(data)) == [data]
    assert converted(nested(nested(data))) == [data]


def test_a_nested_workflow_is_one_part_that_grows() -> None:
    """Steps by id, the output at the end."""
    flow = [
        inner("workflow-start", {"workflowId": "wf"}, "WORKFLOW"),
        inner("workflow-step-start", {"id": "a", "payload": 1, "status": "running"}, "WORKFLOW"),
        inner("workflow-step-result", {"id": "a", "status": "success", "output": 2}, "WORKFLOW"),
        inner("workflow-finish", {"workflowStatus": "success"}, "WORKFLOW"),
    ]

    inside = converted(*(nested(one) for one in flow))
    alone = converted(*flow, source="workflow")

    assert ["data-tool-workflow"] * 4 == [part["type"] for part in inside]
    assert ["start", *["data-workflow"] * 4, "finish"] == [part["type"] for part in alone]
    last = alone[-2]["data"]
    assert ("wf", "success") == (last["name"], last["status"])
    step = last["steps"]["a"]
    assert ("success", 1, 2) == (step["status"], step["input"], step["output"])


def test_a_suspended_workflow_says_which_step_waits() -> None:
    """The payload stands at the step."""
    waits = {"id": "b", "status": "suspended", "suspendPayload": {"q": 1}}
    shown = converted(
        inner("workflow-start", {"workflowId": "wf"}, "WORKFLOW"),
        inner("workflow-step-suspended", waits, "WORKFLOW"),
        source="workflow",
    )

    last = shown[-2]["data"]
    assert ("suspended", {"q": 1}) == (last["status"], last["steps"]["b"]["suspendPayload"])


def test_a_network_is_one_part_that_grows() -> None:
    """A step per piece of work, the last result as output."""
    told = [
        inner("routing-agent-start", {"agentId": "net"}, "NETWORK"),
        inner("agent-execution-start", {"agentId": "sub", "args": {"a": 1}}, "NETWORK"),
        inner("agent-execution-event-data-x", {"type": "data-x", "data": 1}, "NETWORK"),
        inner("agent-execution-end", {"agentId": "sub", "result": "R"}, "NETWORK"),
        inner("network-execution-event-finish", {"result": "end", "usage": {}}, "NETWORK"),
    ]

    alone = converted(*told, source="network")
    inside = converted(*(nested(one) for one in told if "event-data" not in one["type"]))

    assert {"type": "data-x", "data": 1} in alone
    last = alone[-2]["data"]
    assert ("net", "finished", "end") == (last["name"], last["status"], last["output"])
    [step] = last["steps"]
    assert ("sub", "success", "R") == (step["name"], step["status"], step["output"])
    assert {"data-tool-network"} == {part["type"] for part in inside}


# -- with real runs -----------------------------------------------------------------------------


async def test_a_run_with_a_tool_is_a_message_with_two_steps() -> None:
    """Every chunk of a real run, as a page gets it."""

    @tool
    async def weather(city: str, context: ToolContext) -> str:
        """Look outside."""
        await context.writer.custom({"type": "data-progress", "data": {"percent": 50}})
        return f"sun in {city}"

    agent = Agent(
        id="helper",
        model=ScriptedModel([[tool_call("weather", {"city": "Rome"})], [text("It is sunny.")]]),
        tools=[weather],
    )

    output = await agent.stream("weather?")
    shown = [one async for one in ui_stream(output.full_stream, version="v6")]
    await agent.aclose()

    kinds = [one["type"] for one in shown]
    assert ["start", "start-step", "tool-input-available", "data-progress"] == kinds[:4]
    assert ["tool-output-available", "finish-step", "start-step", "text-start"] == kinds[4:8]
    assert ["text-end", "finish-step", "finish"] == kinds[-3:]


async def test_frames_are_events_with_a_last_one() -> None:
    """Exactly the framing that the page's reader wants."""
    chunks = [chunk("start", {"messageId": "m1"}), chunk("text-delta", {"id": "t", "text": "ü\n"})]

    frames = [frame async for frame in ui_frames(stream_of(chunks))]

    assert "data: [DONE]\n\n" == frames[-1]
    bodies = [frame.removeprefix("data: ").removesuffix("\n\n") for frame in frames[:-1]]
    assert all("\n" not in body for body in bodies)
    assert ["start", "text-delta"] == [json.loads(body)["type"] for body in bodies]
    assert "v1" == UI_STREAM_HEADERS["x-vercel-ai-ui-message-stream"]


async def test_a_stream_that_breaks_off_ends_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The response has begun; a page must not wait for ever."""
    frames = [frame async for frame in ui_frames(stream_of([{"type": "data-nothing"}]))]

    assert "data: [DONE]\n\n" == frames[-1]
    assert "error" == json.loads(frames[0].removeprefix("data: "))["type"]
    assert "UI stream broke off" in caplog.text


async def test_a_reader_that_leaves_does_not_end_the_run() -> None:
    """The page was closed; the thread still gets its answer."""
    agent = Agent(id="helper", model=ScriptedModel([[text("one two three")]]))
    output = await agent.stream("go")

    reader = ui_stream(output.full_stream)
    await anext(reader)
    await reader.aclose()

    async with asyncio.timeout(30):
        assert "one two three" == await output.text
    await agent.aclose()


async def test_a_page_may_send_the_whole_thread_each_time() -> None:
    """What memory has counts; only what the page knows better is taken."""
    model = ScriptedModel([[tool_call("locate", {})], [text("Rome, then.")], [text("Bye.")]])
    agent = Agent(id="helper", model=model, tools=[FunctionTool(id="locate")])
    place = {"thread_id": "t1", "resource_id": "ann"}

    async def said() -> list[dict[str, Any]]:
        memory = agent.host.storage.memory
        page = await memory.list_messages("t1", resource_id="ann", per_page=False)
        return ui_messages(page.messages)

    await (await agent.stream("Where am I?", **place)).wait()
    thread = await said()
    thread[1]["parts"][0] |= {"state": "output-available", "output": "Rome"}
    thread[0]["parts"][0]["text"] = "something else"
    await (await agent.stream(thread, **place)).wait()
    question = {"id": "m9", "role": "user", "parts": [{"type": "text", "text": "Thanks"}]}
    await (await agent.stream([*await said(), question], **place)).wait()
    await agent.aclose()

    prompt = [turn for turn in model.requests[-1].prompt if turn["role"] != "system"]
    roles = ["user", "assistant", "tool", "assistant", "user"]
    assert roles == [turn["role"] for turn in prompt]
    assert "Where am I?" == prompt[0]["content"][0]["text"]
    assert "Rome" == prompt[2]["content"][0]["output"]["value"]
