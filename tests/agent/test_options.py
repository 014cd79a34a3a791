"""What may be said about one run, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, ToolContext, tool
from mastra_core.contracts.completion import CheckResult, IterationState, TaskCheck
from mastra_core.errors import MastraError, RunArgumentError
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

MakeAgent = Callable[..., Agent]
pytestmark = pytest.mark.anyio

SCOPE = {"thread_id": "t", "resource_id": "r"}


@tool
async def look() -> str:
    """Look."""
    return "seen"


def looks(id: str = "c") -> list[dict[str, Any]]:
    return [tool_call("look", {}, id=id)]


# -- tools of a call ------------------------------------------------------------------------------


async def test_a_client_runs_its_tools(make_agent: MakeAgent) -> None:
    """The call stays open; what the client found is given with the next run."""
    model = ScriptedModel([[tool_call("where", {"exact": True}, id="c")], [text("There!")]])
    agent = make_agent(model=model)
    described = {"where": {"description": "Find me.", "input_schema": {"type": "object"}}}

    output = await agent.stream("Where?", client_tools=described, **SCOPE)
    assert "tool-calls" == await output.finish_reason
    assert "Find me." == model.requests[0].tools[0].description
    found = {
        "role": "tool",
        "content": [
            {"type": "tool-result", "toolCallId": "c", "toolName": "where", "result": "here"}
        ],
    }
    output = await agent.stream([found], client_tools=described, **SCOPE)

    assert "There!" == await output.text
    [row, _] = [m for m in await rows_of(agent) if m.role == "assistant"]
    assert "here" == row.content["parts"][0]["toolInvocation"]["result"]


async def rows_of(agent: Agent) -> Any:
    assert agent.memory is not None
    return (await agent.memory.store.list_messages("t")).messages


async def test_a_client_tool_has_no_body_here(make_agent: MakeAgent) -> None:
    agent = make_agent(model=ScriptedModel([looks()]))

    output = await agent.stream("go", client_tools=[look])

    assert ("tool-calls", []) == (await output.finish_reason, await output.tool_results)


async def test_tools_come_in_sets(make_agent: MakeAgent) -> None:
    model = ScriptedModel([looks(), [text("done")]])
    agent = make_agent(model=model)

    output = await agent.stream("go", toolsets={"eyes": [look], "ears": {"hear": look}})

    assert "done" == await output.text
    assert ["look", "hear"] == [schema.name for schema in model.requests[0].tools]


async def test_only_called_tools_decide_how_many_run_at_once(make_agent: MakeAgent) -> None:
    together = 0
    most = 0

    @tool
    async def busy() -> None:
        """Work."""
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.02)
        together -= 1

    async def most_with(concurrency: Any) -> int:
        nonlocal most
        most = 0
        calls = [tool_call("busy", {}, id=f"c{n}") for n in range(4)]
        agent = make_agent(
            model=ScriptedModel([calls, [text("done")]]),
            tools=[busy, FunctionTool(id="risky", require_approval=True)],
        )
        await (await agent.stream("go", tool_call_concurrency=concurrency)).text
        return most

    assert 1 == await most_with(4)
    assert 1 == await most_with({"limit": 4})
    assert 2 == await most_with({"limit": 2, "strategy": "called"})


# -- settings -------------------------------------------------------------------------------------


async def test_settings_of_the_call_are_laid_over_those_of_the_agent(
    make_agent: MakeAgent,
) -> None:
    model = ScriptedModel([[text("hi")]])
    agent = make_agent(
        model=model,
        default_options={
            "model_settings": {"temperature": 0, "seed": 1},
            "provider_options": {"p": {"a": 1, "b": 1}},
        },
    )

    output = await agent.stream("go", model_settings={"seed": 2}, provider_options={"p": {"b": 2}})
    await output.text

    [request] = model.requests
    assert {"temperature": 0, "seed": 2} == request.settings
    assert {"p": {"a": 1, "b": 2}} == request.provider_options


async def test_the_context_names_thread_and_resource(make_agent: MakeAgent) -> None:
    agent = make_agent(model=ScriptedModel([[text("hi")]]))
    context = {"mastra__threadId": "theirs", "mastra__resourceId": "them"}

    output = await agent.stream("go", **SCOPE, request_context=context)
    await output.text

    assert ("theirs", "them") == (
        output.message_list.thread_id,
        output.message_list.resource_id,
    )
    with pytest.raises(RunArgumentError):
        await agent.stream("go", request_context={"mastra__threadId": 7})


async def test_whoever_answers_is_held_to_the_resource_of_the_context(
    make_agent: MakeAgent,
) -> None:
    @tool(require_approval=True)
    async def look() -> str:
        """Look."""
        return "seen"

    agent = make_agent(model=ScriptedModel([looks(), [text("done")]]), tools=[look])
    output = await agent.stream("go", **SCOPE)
    await output.wait()

    with pytest.raises(MastraError) as caught:
        await agent.approve_tool_call(
            output.run_id, request_context={"mastra__resourceId": "other"}
        )
    assert "AGENT_RESUME_FOREIGN_RUN" == caught.value.id
    output = await agent.approve_tool_call(
        output.run_id, request_context={"mastra__resourceId": "r"}
    )
    assert "done" == await output.text


async def test_an_agent_says_what_context_it_needs(make_agent: MakeAgent) -> None:
    schema = {"type": "object", "required": ["tenant"]}
    agent = make_agent(model=ScriptedModel([[text("hi")]]), request_context_schema=schema)

    with pytest.raises(RunArgumentError) as caught:
        await agent.stream("go", **SCOPE)

    assert "AGENT_REQUEST_CONTEXT_VALIDATION_FAILED" == caught.value.id
    assert {"tenant": "is missing"} == caught.value.details["fields"]
    assert [] == await rows_of(agent)
    assert "hi" == await (await agent.stream("go", request_context={"tenant": "a"})).text


async def test_raw_chunks_come_only_when_asked_for(make_agent: MakeAgent) -> None:
    said = [{"type": "raw", "rawValue": {"x": 1}}, text("hi")]
    agent = make_agent(model=ScriptedModel([said, said]))

    counts = []
    for wanted in (False, True):
        output = await agent.stream("go", include_raw_chunks=wanted)
        counts.append([c["type"] async for c in output.full_stream].count("raw"))

    assert [0, 1] == counts


async def test_steps_are_stored_one_by_one(make_agent: MakeAgent) -> None:
    kept: list[int] = []

    async def note(step: Any) -> None:
        kept.append(len(await rows_of(agent)))

    agent = make_agent(model=ScriptedModel([looks(), looks("d"), [text("x")]]), tools=[look])
    output = await agent.stream("go", **SCOPE, save_per_step=True, on_step_finish=note)
    await output.wait()

    assert [0, 2, 2] == kept


# -- going on and stopping ------------------------------------------------------------------------


async def test_a_caller_ends_a_run_after_a_step(make_agent: MakeAgent) -> None:
    seen: list[IterationState] = []

    def enough(state: IterationState) -> dict[str, Any]:
        seen.append(state)
        return {"continue": False}

    agent = make_agent(model=ScriptedModel([looks(), [text("more")]]), tools=[look])
    output = await agent.stream("go", on_iteration_complete=enough)

    assert "tool-calls" == await output.finish_reason
    [state] = seen
    assert (1, False, 1, 1) == (
        state.iteration,
        state.is_final,
        len(state.tool_calls),
        len(state.tool_results),
    )


async def test_a_caller_has_a_run_go_on_with_a_word_to_the_model(make_agent: MakeAgent) -> None:
    model = ScriptedModel([[text("short")], [text("long enough")]])
    agent = make_agent(model=model)

    output = await agent.stream(
        "go",
        on_iteration_complete=lambda state: (
            {"continue": True, "feedback": "Say more."} if state.iteration == 1 else None
        ),
    )

    assert "shortlong enough" == await output.text
    assert "Say more." in str(model.requests[1].prompt)
    assert "Say more." not in str(await output.response)


async def test_a_caller_can_not_go_beyond_the_last_step(make_agent: MakeAgent) -> None:
    model = ScriptedModel()
    agent = make_agent(model=model)

    output = await agent.stream(
        "go", max_steps=3, on_iteration_complete=lambda state: {"continue": True}
    )
    await output.wait()

    assert 3 == len(model.requests)


async def test_a_callback_that_fails_changes_nothing(make_agent: MakeAgent) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("broken")

    agent = make_agent(model=ScriptedModel([[text("fine")]]))
    assert "fine" == await (await agent.stream("go", on_iteration_complete=fail)).text


async def test_a_run_goes_on_until_its_checks_pass(make_agent: MakeAgent) -> None:
    model = ScriptedModel([[text("draft")], [text("final")]])
    agent = make_agent(model=model)

    output = await agent.stream(
        "go",
        is_task_complete=TaskCheck(
            checks=[
                lambda state: CheckResult(passed=state.text == "final", reason="Not final."),
                lambda state: 1.0,
            ]
        ),
    )
    checked = [
        chunk["payload"]
        async for chunk in output.full_stream
        if chunk["type"] == "is-task-complete"
    ]

    assert [False, True] == [payload["passed"] for payload in checked]
    assert "Not final." == checked[0]["reason"]
    assert [{"check": 0, "passed": False, "reason": "Not final."}, 1.0] == [
        checked[0]["results"][0],
        checked[0]["results"][1]["score"],
    ]
    assert "Not final." in str(model.requests[1].prompt)


@pytest.mark.parametrize(("strategy", "steps"), [("any", 1), ("all", 2)])
async def test_one_check_or_all_have_to_pass(
    make_agent: MakeAgent, strategy: Any, steps: int
) -> None:
    model = ScriptedModel()
    agent = make_agent(model=model)
    check = TaskCheck(checks=[lambda s: True, lambda s: s.iteration > 1], strategy=strategy)

    await (await agent.stream("go", is_task_complete=check)).text

    assert steps == len(model.requests)


async def test_checks_that_fail_hang_or_say_nothing_have_not_passed(
    make_agent: MakeAgent,
) -> None:
    async def hang(_: Any) -> bool:
        await asyncio.Event().wait()
        return True

    def fail(_: Any) -> bool:
        raise RuntimeError("broken check")

    check = TaskCheck(
        checks=[hang, fail, lambda state: None],  # type: ignore[list-item,return-value]
        timeout_ms=20,
        suppress_feedback=True,
    )
    model = ScriptedModel()
    agent = make_agent(model=model)
    output = await agent.stream("go", max_steps=2, is_task_complete=check)
    payloads = [
        chunk["payload"]
        async for chunk in output.full_stream
        if chunk["type"] == "is-task-complete"
    ]

    assert [(False, True, False), (False, True, True)] == [
        (p["passed"], p["timedOut"], p["maxIterationReached"]) for p in payloads
    ]
    assert 2 == len(model.requests)
    assert "not complete" not in str(model.requests[1].prompt)


# -- other doors ----------------------------------------------------------------------------------


async def test_old_doors_say_where_the_new_ones_are(make_agent: MakeAgent) -> None:
    agent = make_agent()
    for door, other in ((agent.stream_legacy, "stream("), (agent.generate_legacy, "generate(")):
        with pytest.raises(RunArgumentError) as caught:
            await door("go")
        assert "AGENT_STREAM_LEGACY_NOT_SUPPORTED" == caught.value.id
        assert other in str(caught.value.hint)


async def test_a_model_of_the_oldest_kind_is_refused(make_agent: MakeAgent) -> None:
    model = ScriptedModel()
    model.specification = "v1"
    agent = make_agent(model=model)

    with pytest.raises(RunArgumentError) as caught:
        await agent.stream("go")

    assert "AGENT_STREAM_V1_MODEL_NOT_SUPPORTED" == caught.value.id


async def test_a_parked_run_is_answered_through_its_thread(make_agent: MakeAgent) -> None:
    @tool(resume_schema=int)
    async def count(context: ToolContext) -> str:
        """Count."""
        if not context.is_resumed:
            await context.suspend({"how": "many"})
            return ""
        return str(context.resume_data)

    agent = make_agent(
        model=ScriptedModel([[tool_call("count", {}, id="c")], [text("three")]]),
        tools=[count],
    )
    output = await agent.stream("go", **SCOPE)
    await output.wait()
    subscription = agent.subscribe_to_thread(**SCOPE)
    named = {**SCOPE, "run_id": output.run_id}
    for missing in named:
        with pytest.raises(RunArgumentError) as wrong:
            await agent.send_stream_resume(**{**named, missing: ""}, resume_data=3)
        assert "AGENT_SEND_STREAM_RESUME_MISSING_TARGET" == wrong.value.id
    with pytest.raises(MastraError) as lost:
        await agent.send_stream_resume(**{**named, "run_id": "other"}, resume_data=3)
    assert "AGENT_SEND_STREAM_RESUME_NO_SUSPENDED_THREAD_RUN" == lost.value.id

    accepted = await agent.send_stream_resume(**named, resume_data=3, tool_call_id="c")

    assert {"accepted": True, "runId": output.run_id, "toolCallId": "c"} == accepted
    async with asyncio.timeout(60):
        async for chunk in subscription.stream:
            if chunk["type"] == "finish":
                break
    subscription.unsubscribe()


async def test_an_approval_comes_with_a_message(make_agent: MakeAgent) -> None:
    @tool(require_approval=True)
    async def look() -> str:
        """Look."""
        return "seen"

    model = ScriptedModel([looks(), [text("done")]])
    agent = make_agent(model=model, tools=[look])
    output = await agent.stream("go", **SCOPE)
    await output.wait()
    subscription = agent.subscribe_to_thread(**SCOPE)

    await agent.send_tool_approval(**SCOPE, messages=["But be quick."])

    async with asyncio.timeout(60):
        async for chunk in subscription.stream:
            if chunk["type"] == "finish":
                break
    subscription.unsubscribe()
    assert "But be quick." in str(model.requests[-1].prompt)


# -- memory ---------------------------------------------------------------------------------------


async def test_memory_may_be_said_in_one(make_agent: MakeAgent) -> None:
    """As the other language and the HTTP interface group it."""
    model = ScriptedModel()
    agent = make_agent(model=model)
    thread = {"id": "t", "title": "Boats", "metadata": {"a": 1}}

    for _ in range(2):
        await (await agent.stream("go", memory={"thread": thread, "resource": "r"})).text
    output = await agent.stream(
        "again",
        memory={
            "thread": "t",
            "resource": "r",
            "readOnly": True,
            "options": {"lastMessages": 1},
        },
    )
    await output.text

    assert agent.memory is not None
    stored = await agent.memory.store.get_thread_by_id("t")
    assert stored is not None
    assert ("Boats", {"a": 1}, "r") == (stored.title, stored.metadata, stored.resource_id)
    assert 4 == len(await rows_of(agent))
    # The one that is remembered, and the question.
    spoken = [turn["role"] for turn in model.requests[-1].prompt]
    assert ["user", "assistant", "user"] == spoken
    assert "." == model.requests[-1].prompt[0]["content"][0]["text"]


@pytest.mark.parametrize(
    "memory",
    [
        "t",
        {"thread": "t", "resources": "r"},
        {"thread": "t", "resource": 7},
        {"thread": {"name": "t"}, "resource": "r", "options": {"lastMessages": -1}},
        {"thread": "t", "resource": "r", "options": {"semanticRecall": True}},
    ],
)
async def test_a_memory_that_can_not_be_starts_nothing(make_agent: MakeAgent, memory: Any) -> None:
    agent = make_agent()

    with pytest.raises(RunArgumentError) as caught:
        await agent.stream("go", memory=memory)

    assert "AGENT_INVALID_OPTION" == caught.value.id
    assert [] == await rows_of(agent)


async def test_an_agent_remembers_by_default_where_it_was_told(make_agent: MakeAgent) -> None:
    agent = make_agent(default_options={"memory": {"thread": "t", "resource": "r"}})

    await (await agent.stream("go")).text

    assert 2 == len(await rows_of(agent))


async def test_a_thread_is_named_once(make_agent: MakeAgent) -> None:
    with pytest.raises(RunArgumentError, match="thread_id is given beside memory"):
        await make_agent().stream("go", thread_id="t", memory={"thread": "u", "resource": "r"})
