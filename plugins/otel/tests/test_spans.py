"""Runs, read from OpenTelemetry's in-memory exporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra, tool
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

MakeApp = Callable[..., tuple[Mastra, Agent]]
PLACE = {"thread_id": "t1", "resource_id": "ann"}


@tool
async def weather(city: str) -> str:
    """Look outside."""
    if city == "nowhere":
        raise ValueError("no such city")
    return f"sunny in {city}"


async def test_names_parents_and_attributes(measured: Any, make_app: MakeApp) -> None:
    """As the README's table says."""
    app, agent = make_app(
        [tool_call("weather", {"city": "Rome"})], [text("Sunny.")], tools=[weather]
    )

    async with app:
        output = await agent.stream("weather?", **PLACE)
        await output.wait()

    parents = [(s.name, measured.parent_name(s)) for s in measured.spans.get_finished_spans()]
    assert parents == [
        ("llm: 'mock-1'", "step: 0"),
        ("tool: 'weather'", "step: 0"),
        ("step: 0", "agent run: 'desk'"),
        ("llm: 'mock-1'", "step: 1"),
        ("step: 1", "agent run: 'desk'"),
        ("agent run: 'desk'", None),
    ]
    run = measured.named("agent run: 'desk'")
    assert run.attributes is not None
    expected = {
        "mastra.span.kind": "agent_run",
        "mastra.runId": output.run_id,
        "mastra.threadId": "t1",
        "mastra.resourceId": "ann",
        "mastra.status": "success",
        "mastra.finishReason": "stop",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": "desk",
        "gen_ai.conversation.id": "t1",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
    }
    assert expected == {name: run.attributes.get(name) for name in expected}
    assert output.trace_id == trace.format_trace_id(run.context.trace_id)
    assert output.span_id == trace.format_span_id(run.context.span_id)
    asked = measured.named("llm: 'mock-1'")
    assert SpanKind.CLIENT == asked.kind
    assert asked.attributes is not None
    assert ("chat", "mock", "mock-1") == tuple(
        asked.attributes[f"gen_ai.{name}"]
        for name in ("operation.name", "provider.name", "request.model")
    )
    assert ("tool-calls",) == asked.attributes["gen_ai.response.finish_reasons"]
    called = measured.named("tool: 'weather'").attributes
    assert called is not None
    assert ("weather", "call_1", True) == tuple(
        called[name] for name in ("gen_ai.tool.name", "gen_ai.tool.call.id", "mastra.success")
    )


async def test_what_was_said_is_sent_only_if_asked_for(measured: Any, make_app: MakeApp) -> None:
    """And cut to the length that was said."""
    calls = [[tool_call("weather", {"city": "Rome"})], [text("It is sunny in Rome.")]]
    app, agent = make_app(*calls, tools=[weather])
    async with app:
        await (await agent.stream("a secret question")).wait()
    silent = [dict(span.attributes or {}) for span in measured.spans.get_finished_spans()]
    measured.spans.clear()
    app, agent = make_app(
        *calls, tools=[weather], options={"capture_content": True, "max_content_length": 12}
    )
    async with app:
        await (await agent.stream("a secret question")).wait()
    run, called = measured.named("agent run: 'desk'"), measured.named("tool: 'weather'")

    assert not any("Rome" in str(one) or "secret" in str(one) for one in silent)
    assert run.attributes is not None
    assert called.attributes is not None
    assert "It is sunny " == run.attributes["mastra.output"]
    assert '{"city":"Rom' == called.attributes["mastra.input"]


async def test_errors_are_status_event_and_type(measured: Any, make_app: MakeApp) -> None:
    """Of the tool alone, since the run went on."""
    app, agent = make_app(
        [tool_call("weather", {"city": "nowhere"})], [text("Sorry.")], tools=[weather]
    )

    async with app:
        await (await agent.stream("weather?")).wait()

    called, run = measured.named("tool: 'weather'"), measured.named("agent run: 'desk'")
    assert (StatusCode.ERROR, "no such city") == (
        called.status.status_code,
        called.status.description,
    )
    assert ["exception"] == [event.name for event in called.events]
    assert called.attributes is not None
    assert "ValueError" == called.attributes["error.type"]
    assert StatusCode.UNSET == run.status.status_code


async def test_a_failed_run_is_an_error(measured: Any, make_app: MakeApp) -> None:
    """The same one on request, step and run."""
    app, agent = make_app([{"type": "error", "message": "out of order"}])

    async with app:
        await (await agent.stream("hi")).wait()

    for name in ("llm: 'mock-1'", "step: 0", "agent run: 'desk'"):
        span = measured.named(name)
        assert StatusCode.ERROR == span.status.status_code, name
        assert "out of order" in str(span.status.description)


async def test_a_run_lies_below_the_span_of_its_caller(measured: Any, make_app: MakeApp) -> None:
    """And what a tool measures lies below the tool."""
    own = measured.tracer_provider.get_tracer("shop")

    async def look(args: Any, context: Any) -> str:
        with own.start_as_current_span("query"):
            return "seen"

    app, agent = make_app(
        [tool_call("look", {})], [text("Hi.")], tools=[FunctionTool(id="look", execute=look)]
    )

    async with app:
        with own.start_as_current_span("request"):
            output = await agent.stream("hi")
        await output.wait()

    assert "request" == measured.parent_name(measured.named("agent run: 'desk'"))
    assert "tool: 'look'" == measured.parent_name(measured.named("query"))


async def test_suspension_and_resume_are_one_trace(measured: Any) -> None:
    """Through the snapshot, so in any process."""

    async def deploy(args: Any, context: Any) -> str:
        return "deployed"

    guarded = FunctionTool(id="deploy", execute=deploy, require_approval=True)

    def desk(*calls: Any) -> Agent:
        return Agent(id="desk", model=ScriptedModel(calls), tools=[guarded])

    first, second = desk([tool_call("deploy", {})]), desk([text("Done.")])
    async with Mastra(agents=[first], telemetry=measured.options()) as held:
        output = await first.stream("go", **PLACE)
        await output.wait()
        async with Mastra(agents=[second], storage=held.storage, telemetry=measured.options()):
            resumed = await second.approve_tool_call(output.run_id)
            await resumed.wait()

    again = measured.named("agent run: 'desk' (resumed)")
    assert "agent run: 'desk'" == measured.parent_name(again)
    assert 1 == len({span.context.trace_id for span in measured.spans.get_finished_spans()})
    assert output.trace_id == resumed.trace_id


@case("signals", 119)
async def test_a_signal_that_started_a_run(measured: Any, make_app: MakeApp) -> None:
    """Its identity under ``mastra.signal``."""
    app, agent = make_app([text("Seen.")])
    signal = {
        "id": "s1",
        "type": "reactive",
        "tagName": "build-failed",
        "contents": "look",
        "attributes": {"branch": "main", "tries": 2},
    }

    async with app:
        sent = await agent.send_signal(signal, **PLACE).accepted
        assert sent.output is not None
        await sent.output.wait()

    said = measured.named("agent run: 'desk'").attributes
    assert said is not None
    assert {name: value for name, value in said.items() if "signal" in name} == {
        "mastra.signal.id": "s1",
        "mastra.signal.type": "reactive",
        "mastra.signal.tagName": "build-failed",
        "mastra.signal.attributes.branch": "main",
        "mastra.signal.attributes.tries": 2,
    }


class Lane:
    """Says what is the case."""

    id = "sky"

    def compute_state_signal(self, args: Any) -> dict[str, Any]:
        return {"cache_key": "blue", "contents": "blue", "attributes": {"sky": "blue"}}


async def test_a_computed_state_is_an_event_span(measured: Any, make_app: MakeApp) -> None:
    """Below the span of its processor."""
    app, agent = make_app([text("Hi.")], input_processors=[Lane()])

    async with app:
        await (await agent.stream("hi", **PLACE)).wait()

    span = measured.named("signal: sky")
    assert "state signal processor: sky" == measured.parent_name(span)
    assert span.attributes is not None
    expected = {
        "mastra.stateId": "sky",
        "mastra.mode": "snapshot",
        "mastra.processorId": "sky",
        "mastra.output.attributes.sky": "blue",
        "mastra.output.hasDelta": False,
    }
    assert expected == {name: span.attributes.get(name) for name in expected}


async def test_durations_and_tokens(measured: Any, make_app: MakeApp) -> None:
    """One point per request, run and call, and one per kind of token."""
    app, agent = make_app(
        [tool_call("weather", {"city": "Rome"})], [text("Sunny.")], tools=[weather]
    )

    async with app:
        await (await agent.stream("weather?")).wait()

    [requests] = measured.points("gen_ai.client.operation.duration")
    assert (2, "mock-1") == (requests.count, requests.attributes["gen_ai.request.model"])
    tokens = measured.points("gen_ai.client.token.usage")
    assert {("input", 20), ("output", 10)} == {
        (point.attributes["gen_ai.token.type"], point.sum) for point in tokens
    }
    assert [1, 1] == [measured.points(f"mastra.{n}.duration")[0].count for n in ("run", "tool")]
