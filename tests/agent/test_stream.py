"""What a caller of ``stream`` and ``generate`` gets (streaming.md 1-7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, ToolContext, tool
from mastra_core.errors import ModelError, RunArgumentError, RunTimeoutError
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

MakeAgent = Callable[..., Agent]
THREAD = {"thread_id": "t1", "resource_id": "u1"}


@tool
async def echo(words: str) -> dict[str, str]:
    """Say it again."""
    return {"echoed": words}


@tool
async def broken(words: str) -> None:
    """Always fails."""
    raise RuntimeError(f"can't {words}")


def _circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


async def types_of(output: Any) -> list[str]:
    return [chunk["type"] async for chunk in output.full_stream]


async def stored_messages(agent: Agent) -> list[dict[str, Any]]:
    assert agent.memory is not None
    page = await agent.memory.store.list_messages("t1")
    return [message.to_wire() for message in page.messages]


def model_of(agent: Agent) -> ScriptedModel:
    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    return model


# -- chunks ------------------------------------------------------------------------------------


@case("streaming", 1)
async def test_a_text_run_has_its_chunks_in_order(make_agent: MakeAgent) -> None:
    """start, step-start, text, step-finish, finish; nothing else."""
    output = await make_agent([text("two words")]).stream("hi")

    assert [
        "start",
        "step-start",
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "step-finish",
        "finish",
    ] == await types_of(output)


@case("streaming", 2)
async def test_every_chunk_has_an_envelope(make_agent: MakeAgent) -> None:
    """type, runId, from, payload."""
    agent = make_agent([tool_call("echo", {"words": "a"})], [text("b")], tools=[echo])
    output = await agent.stream("hi")

    chunks = [chunk async for chunk in output.full_stream]

    assert chunks
    for chunk in chunks:
        assert {"type", "runId", "from", "payload"} <= set(chunk)
        assert output.run_id == chunk["runId"]


@case("streaming", 3)
async def test_a_second_iteration_replays_from_the_first_chunk(make_agent: MakeAgent) -> None:
    """Late readers miss nothing."""
    output = await make_agent([text("hello there")]).stream("hi")

    first = [chunk async for chunk in output.full_stream]
    second = [chunk async for chunk in output.full_stream]

    assert ("start", "finish") == (first[0]["type"], first[-1]["type"])
    assert first == second


@case("streaming", 4)
async def test_a_reader_that_stops_early_does_not_disturb_another(make_agent: MakeAgent) -> None:
    """Stopping to iterate only detaches oneself."""
    output = await make_agent([text("one two three")]).stream("hi")

    async def first_only() -> str:
        async for chunk in output.full_stream:
            return str(chunk["type"])
        return ""

    first, all_types = await asyncio.gather(first_only(), types_of(output))

    assert "start" == first
    assert await types_of(output) == all_types
    assert ("start", "finish") == (all_types[0], all_types[-1])


@case("streaming", 5)
async def test_awaiting_text_alone_finishes_the_run(make_agent: MakeAgent) -> None:
    """Nobody has to read the stream."""
    output = await make_agent([text("hello")]).stream("hi")

    assert "hello" == await output.text
    assert "success" == output.status


# -- the loop ----------------------------------------------------------------------------------


@case("streaming", 6)
async def test_a_call_with_reason_stop_is_still_executed(make_agent: MakeAgent) -> None:
    """A pending call makes the loop go on."""
    agent = make_agent(
        [tool_call("echo", {"words": "a"}), {"type": "finish", "reason": "stop"}],
        [text("done")],
        tools=[echo],
    )

    output = await agent.stream("hi")

    assert "done" == await output.text
    assert len(model_of(agent).requests) == 2


@case("streaming", 7)
async def test_a_call_cut_off_by_length_is_not_executed(make_agent: MakeAgent) -> None:
    """The run ends with ``length``."""
    agent = make_agent(
        [tool_call("echo", {"words": "a"}), {"type": "finish", "reason": "length"}], tools=[echo]
    )

    output = await agent.stream("hi")

    assert "length" == await output.finish_reason
    assert [] == await output.tool_results
    assert len(model_of(agent).requests) == 1


@case("streaming", 8)
async def test_max_steps_bounds_the_requests(make_agent: MakeAgent) -> None:
    """Two requests, and the reason of the last step."""
    calls = [[tool_call("echo", {"words": "a"}, id=f"c{n}")] for n in range(7)]
    agent = make_agent(*calls, tools=[echo])

    output = await agent.stream("hi", max_steps=2)

    assert "tool-calls" == await output.finish_reason
    assert len(model_of(agent).requests) == 2


@case("streaming", 9)
async def test_five_steps_are_the_default(make_agent: MakeAgent) -> None:
    """Neither max_steps nor stop_when: five requests."""
    calls = [[tool_call("echo", {"words": "a"}, id=f"c{n}")] for n in range(9)]
    agent = make_agent(*calls, tools=[echo])

    await (await agent.stream("hi")).wait()

    assert len(model_of(agent).requests) == 5


@case("streaming", 10)
async def test_stop_when_is_not_asked_if_the_step_would_stop_anyway(
    make_agent: MakeAgent,
) -> None:
    """It decides only about going on."""
    asked: list[int] = []

    def stop(steps: Any) -> bool:
        asked.append(len(steps))
        return True

    await (await make_agent([text("bye")]).stream("hi", stop_when=stop)).wait()

    assert [] == asked


@case("streaming", 11)
async def test_an_empty_answer_is_an_error_and_not_a_loop(make_agent: MakeAgent) -> None:
    """Reason ``other`` without output ends the run."""
    agent = make_agent([{"type": "finish", "reason": "other"}])

    output = await agent.stream("hi")
    chunks = [chunk async for chunk in output.full_stream]

    errors = [chunk for chunk in chunks if chunk["type"] == "error"]
    assert ["AGENT_STREAM_ERROR"] == [c["payload"]["error"]["code"] for c in errors]
    assert len(model_of(agent).requests) == 1


# -- tools -------------------------------------------------------------------------------------


@case("streaming", 12)
async def test_an_unknown_tool_is_told_to_the_model(make_agent: MakeAgent) -> None:
    """It gets another step, and the names that exist."""
    agent = make_agent([tool_call("nope", {})], [text("sorry")], tools=[echo])

    output = await agent.stream("hi")

    assert "sorry" == await output.text
    results = model_of(agent).requests[1].prompt[-1]
    assert "echo" in results["content"][0]["output"]["value"]


@case("streaming", 13)
async def test_a_tool_that_raises_is_an_output_error(make_agent: MakeAgent) -> None:
    """The loop goes on and the stored call says so."""
    agent = make_agent([tool_call("broken", {"words": "x"})], [text("ok")], tools=[broken])

    output = await agent.stream("hi", **THREAD)
    types = await types_of(output)

    assert "tool-error" in types
    assert "ok" == await output.text
    answer = (await stored_messages(agent))[-1]
    invocation = answer["content"]["parts"][0]["toolInvocation"]
    assert "output-error" == invocation["state"]
    assert "can't x" in invocation["errorText"]


@pytest.mark.parametrize("value", [float("nan"), datetime(2026, 1, 1), object(), _circle()])  # noqa: DTZ001 - naive on purpose
async def test_a_result_that_has_no_json_is_the_tools_error(
    make_agent: MakeAgent, value: object
) -> None:
    """The model is told, and the turn is stored."""

    async def odd(args: Any, context: Any) -> object:
        return value

    agent = make_agent(
        [tool_call("odd", {})], [text("Noted")], tools=[FunctionTool(id="odd", execute=odd)]
    )
    output = await agent.stream("go", **THREAD)

    assert "Noted" == await output.text
    chunks = output.buffer.chunks
    [failed] = [chunk["payload"] for chunk in chunks if chunk["type"] == "tool-error"]
    assert "odd" == failed["toolName"]
    assert ["user", "assistant"] == [row["role"] for row in await stored_messages(agent)]


async def test_a_result_with_lone_surrogates_is_kept_and_shown(make_agent: MakeAgent) -> None:
    """In names and values; JavaScript has them, too."""
    odd_text = "k\ud800"

    async def odd(args: Any, context: Any) -> object:
        return {odd_text: odd_text}

    agent = make_agent(
        [tool_call("odd", {})], [text("Noted")], tools=[FunctionTool(id="odd", execute=odd)]
    )
    output = await agent.stream("go", **THREAD)

    assert "Noted" == await output.text
    shown = (await stored_messages(agent))[-1]
    assert {odd_text: odd_text} == shown["content"]["parts"][0]["toolInvocation"]["result"]
    assert shown["createdAt"].endswith("Z")


async def test_a_suspend_payload_that_has_no_json_is_the_tools_error(
    make_agent: MakeAgent,
) -> None:
    """Nothing is parked that could not be stored."""

    async def odd(args: Any, context: ToolContext) -> None:
        await context.suspend({"at": float("nan")})

    agent = make_agent(
        [tool_call("odd", {})], [text("Noted")], tools=[FunctionTool(id="odd", execute=odd)]
    )
    output = await agent.stream("go", **THREAD)

    assert ("Noted", "success") == (await output.text, output.status)


@case("streaming", 14)
async def test_arguments_that_do_not_fit_are_a_result(make_agent: MakeAgent) -> None:
    """The tool isn't executed; the model reads what is wrong."""
    ran: list[str] = []

    @tool
    async def strict(number: int) -> str:
        """Needs a number."""
        ran.append("ran")
        return "ok"

    agent = make_agent([tool_call("strict", {"number": "x"})], [text("ok")], tools=[strict])

    output = await agent.stream("hi")
    results = await output.tool_results

    assert [] == ran
    assert results[0]["payload"]["result"]["error"] is True
    assert "number" in results[0]["payload"]["result"]["validationErrors"]["fields"]


@case("streaming", 15)
async def test_calls_run_side_by_side_up_to_the_limit(make_agent: MakeAgent) -> None:
    """At most two at once; results keep their ids."""
    at_work = 0
    most = 0
    pair = asyncio.Barrier(2)

    @tool
    async def slow(n: int) -> int:
        """Waits for a colleague, and lets all that may begin do so."""
        nonlocal at_work, most
        at_work += 1
        async with asyncio.timeout(60):
            await pair.wait()
        for _ in range(50):
            await asyncio.sleep(0)
        most = max(most, at_work)
        at_work -= 1
        return n

    calls = [tool_call("slow", {"n": n}, id=f"c{n}") for n in range(4)]
    agent = make_agent(calls, [text("ok")], tools=[slow])

    output = await agent.stream("hi", tool_call_concurrency=2)
    results = await output.tool_results

    assert 2 == most
    assert [(f"c{n}", n) for n in range(4)] == [
        (chunk["payload"]["toolCallId"], chunk["payload"]["result"]) for chunk in results
    ]


@case("streaming", 16)
async def test_a_tool_that_needs_approval_makes_all_calls_run_one_by_one(
    make_agent: MakeAgent,
) -> None:
    """Nothing runs beside a call that may park the run."""
    at_work = 0

    @tool
    async def busy(n: int) -> int:
        """Must be alone."""
        nonlocal at_work
        at_work += 1
        await asyncio.sleep(0)
        assert 1 == at_work
        at_work -= 1
        return n

    guarded = FunctionTool(id="guarded", require_approval=True, execute=None)
    calls = [tool_call("busy", {"n": n}, id=f"c{n}") for n in range(3)]
    agent = make_agent(calls, [text("ok")], tools=[busy, guarded])

    results = await (await agent.stream("hi")).tool_results

    assert [0, 1, 2] == [chunk["payload"]["result"] for chunk in results]


@case("streaming", 17)
async def test_a_policy_that_raises_asks_for_approval(make_agent: MakeAgent) -> None:
    """When in doubt, a person decides."""

    def policy(args: Any, context: ToolContext) -> bool:
        raise LookupError("no such rule")

    agent = make_agent([tool_call("echo", {"words": "a"})], tools=[echo])

    output = await agent.stream("hi", require_tool_approval=policy)

    assert "suspended" == await output.finish_reason


@case("streaming", 18)
async def test_a_run_that_waits_has_no_finish_and_is_stored(make_agent: MakeAgent) -> None:
    """Snapshot and message with the open call are there when the stream ends."""
    agent = make_agent([tool_call("echo", {"words": "a"})], tools=[echo])

    output = await agent.stream("hi", require_tool_approval=True, **THREAD)
    types = await types_of(output)

    assert "finish" not in types
    assert "tool-call-approval" == types[-1]
    assert "suspended" == await output.finish_reason
    assert 1 == (await agent.list_suspended_runs()).total
    parked = (await stored_messages(agent))[-1]["content"]
    assert "call" == parked["parts"][0]["toolInvocation"]["state"]
    assert ["call_1"] == list(parked["metadata"]["pendingToolApprovals"])


@case("streaming", 20, 21)
@pytest.mark.parametrize(
    ("reason", "shown"),
    [("not today", "not today"), (None, "Tool call was not approved by the user")],
)
async def test_a_refusal_reaches_stream_storage_and_model(
    make_agent: MakeAgent, reason: str | None, shown: str
) -> None:
    """All three carry the reason."""
    agent = make_agent([tool_call("echo", {"words": "a"})], [text("ok")], tools=[echo])
    output = await agent.stream("hi", require_tool_approval=True, **THREAD)
    await output.wait()

    resumed = await agent.decline_tool_call(output.run_id, "call_1", reason)
    chunks = [chunk async for chunk in resumed.full_stream]

    assert "tool-output-denied" == chunks[0]["type"]
    assert shown == chunks[0]["payload"]["approval"]["reason"]
    answer = (await stored_messages(agent))[1]["content"]["parts"][0]["toolInvocation"]
    assert {"id": "call_1", "approved": False, "reason": shown} == answer["approval"]
    assert shown in str(model_of(agent).requests[1].prompt)


@case("streaming", 22)
async def test_the_model_can_not_approve_itself(make_agent: MakeAgent) -> None:
    """``resumeData`` among the arguments is just an argument."""
    loose = FunctionTool(id="loose", require_approval=True, execute=_unreachable)
    agent = make_agent([tool_call("loose", {"resumeData": {"approved": True}})], tools=[loose])

    output = await agent.stream("hi")

    assert "suspended" == await output.finish_reason


async def _unreachable(args: Any, context: ToolContext) -> Any:
    raise AssertionError("must not run")


@case("streaming", 23)
async def test_a_tool_suspends_and_gets_its_answer(make_agent: MakeAgent) -> None:
    """The payload goes out, the data comes back."""
    seen: list[Any] = []

    async def ask(args: Any, context: ToolContext) -> Any:
        if not context.is_resumed:
            await context.suspend({"question": "why"})
            return None
        seen.append((context.resume_data, context.suspend_payload))
        return "thanks"

    asking = FunctionTool(id="ask", execute=ask, resume_schema=dict[str, str])
    agent = make_agent([tool_call("ask", {})], [text("ok")], tools=[asking])
    output = await agent.stream("hi")
    payload = await output.suspend_payload
    [suspended] = [
        chunk["payload"]
        async for chunk in output.full_stream
        if chunk["type"] == "tool-call-suspended"
    ]

    resumed = await agent.resume_stream({"a": "b"}, run_id=output.run_id)
    await resumed.wait()

    assert {"question": "why"} == suspended["suspendPayload"] == payload["suspendPayload"]
    assert [({"a": "b"}, {"question": "why"})] == seen


class Answered(BaseModel):
    """What a person says."""

    amount: int


async def test_a_tool_gets_its_answer_as_its_schema_makes_it(make_agent: MakeAgent) -> None:
    """Validated data are handed over, not what came in."""
    seen: list[Any] = []

    async def ask(args: Any, context: ToolContext) -> str:
        if context.resume_data is None:
            await context.suspend({"how": "much"})
        seen.append(context.resume_data)
        return "ok"

    asking = FunctionTool(id="ask", execute=ask, resume_schema=Answered)
    agent = make_agent([tool_call("ask", {})], [text("Paid")], tools=[asking])
    output = await agent.stream("go", **THREAD)
    await output.wait()
    resumed = await agent.resume_stream({"amount": "7"}, run_id=output.run_id)

    assert "Paid" == await resumed.text
    assert [None, Answered(amount=7)] == seen


@case("streaming", 28)
async def test_streamed_arguments_make_one_call(make_agent: MakeAgent) -> None:
    """The provider's repetition is not a second call."""
    part = {"type": "tool-streamed", "id": "c", "name": "echo", "input": {"words": "abc"}}
    agent = make_agent([part], [text("ok")], tools=[echo])

    output = await agent.stream("hi")
    calls = await output.tool_calls

    assert [{"words": "abc"}] == [chunk["payload"]["args"] for chunk in calls]


@case("streaming", 29)
async def test_malformed_streamed_arguments_are_empty(make_agent: MakeAgent) -> None:
    """The tool then says what is missing."""
    parts = [
        {"type": "tool-input-start", "id": "c", "toolName": "echo"},
        {"type": "tool-input-delta", "id": "c", "delta": '{"words": '},
        {"type": "tool-input-end", "id": "c"},
        {"type": "finish", "reason": "tool-calls"},
    ]
    agent = make_agent(parts, [text("ok")], tools=[echo])

    calls = await (await agent.stream("hi")).tool_calls

    assert [{}] == [chunk["payload"]["args"] for chunk in calls]


@case("streaming", 34)
async def test_what_a_tool_writes_lies_between_call_and_result(make_agent: MakeAgent) -> None:
    """From USER, and nothing of it is stored."""

    @tool
    async def noisy(context: ToolContext) -> str:
        """Reports progress."""
        await context.writer.write({"progress": 0.5})
        return "ok"

    agent = make_agent([tool_call("noisy", {})], [text("done")], tools=[noisy])

    output = await agent.stream("hi", **THREAD)
    chunks = [chunk async for chunk in output.full_stream]

    types = [chunk["type"] for chunk in chunks]
    [written] = [chunk for chunk in chunks if chunk["type"] == "tool-output"]
    assert ("USER", {"progress": 0.5}) == (written["from"], written["payload"]["output"])
    assert types.index("tool-call") < types.index("tool-output") < types.index("tool-result")
    assert "progress" not in str(await stored_messages(agent))


@case("streaming", 35, 36)
@pytest.mark.parametrize("transient", [False, True])
async def test_data_parts_are_stored_unless_transient(
    make_agent: MakeAgent, transient: bool
) -> None:
    """Both stream, without a payload."""

    @tool
    async def noisy(context: ToolContext) -> str:
        """Reports progress."""
        chunk = {"type": "data-progress", "data": {"n": 1}}
        await context.writer.custom({**chunk, **({"transient": True} if transient else {})})
        return "ok"

    agent = make_agent([tool_call("noisy", {})], [text("done")], tools=[noisy])

    output = await agent.stream("hi", **THREAD)
    chunks = [chunk async for chunk in output.full_stream]

    streamed = [chunk for chunk in chunks if chunk["type"] == "data-progress"]
    assert len(streamed) == 1
    assert "payload" not in streamed[0]
    parts = (await stored_messages(agent))[-1]["content"]["parts"]
    stored = [part["data"] for part in parts if part["type"] == "data-progress"]
    assert ([] if transient else [{"n": 1}]) == stored


@case("streaming", 38)
async def test_a_client_tool_ends_the_run_and_is_completed_later(make_agent: MakeAgent) -> None:
    """The call stays open; a tool message with its id fills it in."""
    pick = FunctionTool(id="pick", description="on the client")
    agent = make_agent([tool_call("pick", {})], [text("nice")], tools=[pick])
    output = await agent.stream("hi", **THREAD)
    reason = await output.finish_reason
    open_call = (await stored_messages(agent))[-1]["content"]["parts"][0]["toolInvocation"]

    result = {
        "role": "tool",
        "content": [
            {"type": "tool-result", "toolCallId": "call_1", "toolName": "pick", "output": "red"}
        ],
    }
    again = await agent.stream([result], **THREAD)
    await again.wait()

    assert ("tool-calls", "call") == (reason, open_call["state"])
    filled = [
        part["toolInvocation"]
        for message in await stored_messages(agent)
        for part in message["content"]["parts"]
        if part["type"] == "tool-invocation"
    ]
    assert [("result", "red")] == [(call["state"], call["result"]) for call in filled]


# -- ends --------------------------------------------------------------------------------------


@case("streaming", 24)
async def test_an_abort_in_mid_text_keeps_what_streamed(make_agent: MakeAgent) -> None:
    """``abort``, then ``finish``; the partial text is stored."""
    gates = Gates()
    script = [
        {"type": "text", "text": "Partial answer", "open": True},
        {"type": "gate", "name": "g"},
    ]
    agent = make_agent(model=ScriptedModel([script], gates=gates))
    stop = asyncio.Event()

    output = await agent.stream("hi", abort_signal=stop, **THREAD)
    await gates.reached("g")
    stop.set()
    types = await types_of(output)

    assert ["abort", "finish"] == types[-2:]
    assert "aborted" == await output.finish_reason
    assert "canceled" == output.status
    answer = (await stored_messages(agent))[-1]
    assert (output.message_id, "Partial answer") == (answer["id"], answer["content"]["content"])


async def test_a_signal_that_is_set_already_aborts_before_anything_is_asked(
    make_agent: MakeAgent,
) -> None:
    asked = ScriptedModel([[text("never")]])
    agent = make_agent(model=asked)
    stop = asyncio.Event()
    stop.set()

    output = await agent.stream("hi", abort_signal=stop, **THREAD)

    assert ["abort", "finish"] == (await types_of(output))[-2:]
    assert ("aborted", []) == (await output.finish_reason, asked.requests)


async def test_a_generated_answer_ends_with_whoever_waits_for_it(make_agent: MakeAgent) -> None:
    """Nobody else could ever see it (http.md 2.4); what was said is kept, as by any abort."""
    gates = Gates()
    said = [text("half "), {"type": "gate", "name": "g"}, text("whole")]
    agent = make_agent(model=ScriptedModel([said], gates=gates))
    waiting = asyncio.create_task(agent.generate("hi", **THREAD))
    await gates.reached("g")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(30):
        await agent.host.runs.join()

    assert "half " == (await stored_messages(agent))[-1]["content"]["content"]


@case("streaming", 25)
async def test_a_failed_run_raises_for_whoever_waits_for_its_text(make_agent: MakeAgent) -> None:
    """Nobody mistakes a failure for an empty answer (decisions.md 7)."""
    agent = make_agent([{"type": "throw", "message": "model down"}])

    output = await agent.stream("hi")

    with pytest.raises(ModelError, match="model down"):
        await output.text
    with pytest.raises(ModelError):
        await output.get_full_output()
    assert "error" == await output.finish_reason
    assert isinstance(await output.error, ModelError)
    assert "model down" in output.full_output()["error"]["message"]
    with pytest.raises(ModelError):
        await agent.generate("hi", model=ScriptedModel([[{"type": "throw", "message": "x"}]]))


async def test_whoever_read_the_error_chunk_gets_partial_values(make_agent: MakeAgent) -> None:
    """They have seen it (decisions.md 7)."""
    agent = make_agent([text("some"), {"type": "error", "message": "cut"}])

    output = await agent.stream("hi")
    types = await types_of(output)

    assert ["error", "step-finish", "finish"] == types[-3:]
    assert "some" == await output.text


@case("streaming", 26)
async def test_the_next_model_answers_if_the_first_fails(make_agent: MakeAgent) -> None:
    """No error chunk is seen."""
    first = ScriptedModel([[text("half"), {"type": "error", "message": "down"}]])
    second = ScriptedModel([[text("whole")]], model_id="mock-2")
    agent = make_agent(model=[first, second])

    output = await agent.stream("hi", **THREAD)
    types = await types_of(output)

    assert "error" not in types
    assert "whole" == await output.text
    answer = (await stored_messages(agent))[-1]["content"]
    assert "whole" == answer["content"]


@case("streaming", 27)
async def test_the_total_time_is_bounded(make_agent: MakeAgent) -> None:
    """An error chunk ends the stream; no snapshot is left."""
    agent = make_agent([{"type": "gate", "name": "never"}])

    output = await agent.stream("hi", model_settings={"timeout": {"totalMs": 20}})
    chunks = [chunk async for chunk in output.full_stream]

    errors = [chunk["payload"]["error"] for chunk in chunks if chunk["type"] == "error"]
    assert ["RunTimeoutError"] == [error["name"] for error in errors]
    assert isinstance(await output.error, RunTimeoutError)
    assert "error" in [chunk["type"] for chunk in chunks[-3:]]
    assert 0 == (await agent.host.storage.workflows.list_workflow_runs()).total


@case("streaming", 30)
async def test_text_is_that_of_the_last_step_and_full_output_has_all(
    make_agent: MakeAgent,
) -> None:
    """With tools, the property is the answer; everything is in the full output."""
    agent = make_agent(
        [text("Let me look"), tool_call("echo", {"words": "a"})], [text("It says a")], tools=[echo]
    )

    output = await agent.stream("hi")

    assert "It says a" == await output.text
    assert "Let me lookIt says a" == (await output.get_full_output())["text"]


@case("streaming", 64)
async def test_a_failure_without_output_stores_one_error_part(make_agent: MakeAgent) -> None:
    """The user's message, and one assistant message with name and text only."""
    agent = make_agent([{"type": "throw", "message": "model down"}])

    await (await agent.stream("hi", **THREAD)).wait()
    stored = await stored_messages(agent)

    assert ["user", "assistant"] == [message["role"] for message in stored]
    parts = stored[1]["content"]["parts"]
    assert [{"name": "ModelError", "message": "model down"}] == [p["error"] for p in parts]


# -- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error_id"),
    [
        ({"max_step": 3}, "AGENT_UNKNOWN_OPTION"),
        ({"max_steps": 0}, "AGENT_INVALID_OPTION"),
        ({"max_steps": True}, "AGENT_INVALID_OPTION"),
        ({"thread_id": "t"}, "AGENT_MEMORY_MISSING_RESOURCE_ID"),
        ({"active_tools": ["nope"]}, "AGENT_INVALID_OPTION"),
    ],
)
async def test_wrong_options_start_nothing(
    make_agent: MakeAgent, options: dict[str, Any], error_id: str
) -> None:
    """The model isn't asked."""
    agent = make_agent([text("never")])

    with pytest.raises(RunArgumentError) as raised:
        await agent.stream("hi", **options)

    assert error_id == raised.value.id
    assert [] == model_of(agent).requests


async def test_a_thread_of_another_resource_is_refused(make_agent: MakeAgent) -> None:
    """Nothing of it is read or written."""
    agent = make_agent([text("mine")])
    await (await agent.stream("hi", **THREAD)).wait()

    with pytest.raises(RunArgumentError) as raised:
        await agent.stream("hi", thread_id="t1", resource_id="stranger")

    assert "AGENT_MEMORY_THREAD_RESOURCE_MISMATCH" == raised.value.id


async def test_a_run_remembers_the_thread(make_agent: MakeAgent) -> None:
    """The second prompt holds the first turn."""
    agent = make_agent([text("hello")], [text("again")])
    await (await agent.stream("hi", **THREAD)).wait()

    await (await agent.stream("and you", **THREAD)).wait()

    prompt = model_of(agent).requests[1].prompt
    assert ["user", "assistant", "user"] == [turn["role"] for turn in prompt]


async def test_generate_returns_everything(make_agent: MakeAgent) -> None:
    """Wire names, and the text of all steps."""
    full = await make_agent([text("hello")]).generate("hi")

    assert ("hello", "stop") == (full["text"], full["finishReason"])
    assert 15 == full["totalUsage"]["totalTokens"]
