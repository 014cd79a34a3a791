"""What a run tells whoever measures it (signals.md 16, snapshots.md 3.1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra, ToolContext, tool
from mastra_core.base.telemetry import Span, Tracer
from mastra_core.errors import ConfigError
from mastra_core.testing.recording_tracer import RecordedSpan, RecordingTracer
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

PLACE = {"thread_id": "t1", "resource_id": "ann"}


@tool
async def weather(city: str) -> str:
    """Look outside."""
    if city == "nowhere":
        raise ValueError("no such city")
    return f"sunny in {city}"


def agent_with(*calls: Any, **options: Any) -> Agent:
    return Agent(id="helper", model=ScriptedModel(calls), **options)


def assert_all_ended(tracer: RecordingTracer) -> None:
    assert [] == [span.name for span in tracer.spans if not span.is_ended]


async def test_a_run_is_a_tree_of_spans() -> None:
    """Steps below the run; requests and calls below their step."""
    tracer = RecordingTracer()
    agent = agent_with([tool_call("weather", {"city": "Rome"})], [text("Sunny.")], tools=[weather])

    async with Mastra(agents=[agent], telemetry=tracer):
        output = await agent.stream("weather?", **PLACE)
        await output.wait()

    assert tracer.tree() == [
        "agent run: 'helper'",
        "  step: 0",
        "    llm: 'mock-1'",
        "    tool: 'weather'",
        "  step: 1",
        "    llm: 'mock-1'",
    ]
    assert_all_ended(tracer)
    run = tracer.named("agent run: 'helper'")
    expected = {
        "agentId": "helper",
        "runId": output.run_id,
        "threadId": "t1",
        "resourceId": "ann",
        "status": "success",
        "finishReason": "stop",
        "steps": 2,
        "usage.totalTokens": 30,
    }
    assert expected == {name: run.attributes.get(name) for name in expected}
    assert "signal" not in run.attributes
    call = tracer.named("tool: 'weather'").attributes
    assert ("weather", True, "sunny in Rome") == (call["toolId"], call["success"], call["output"])
    asked = tracer.named("llm: 'mock-1'").attributes
    assert ("mock-1", "mock", 10) == (asked["model"], asked["provider"], asked["usage.inputTokens"])


async def test_an_output_says_where_it_is_in_the_trace() -> None:
    """At once, and in the full output."""
    tracer = RecordingTracer()
    agent = agent_with([text("Hi.")])

    async with Mastra(agents=[agent], telemetry=tracer):
        output = await agent.stream("hi")
        link = tracer.named("agent run: 'helper'").link
        assert (link.trace_id, link.span_id) == (output.trace_id, output.span_id)
        full = await output.get_full_output()

    assert (link.trace_id, link.span_id) == (full["traceId"], full["spanId"])


async def test_a_run_goes_on_in_the_trace_of_its_caller() -> None:
    """Whatever span of the application is active where the run is started."""
    tracer = RecordingTracer()
    agent = agent_with([text("Hi.")])

    async with Mastra(agents=[agent], telemetry=tracer):
        with tracer.span("request"):
            output = await agent.stream("hi")
        await output.wait()

    assert "  agent run: 'helper'" == tracer.tree()[1]


async def test_a_failed_call_marks_its_span_alone() -> None:
    """The run goes on."""
    tracer = RecordingTracer()
    agent = agent_with(
        [tool_call("weather", {"city": "nowhere"})], [text("Sorry.")], tools=[weather]
    )

    async with Mastra(agents=[agent], telemetry=tracer):
        await (await agent.stream("weather?")).wait()

    call = tracer.named("tool: 'weather'")
    assert ["no such city"] == [str(error) for error in call.errors]
    assert call.attributes["success"] is False
    assert [] == tracer.named("step: 0").errors
    assert [] == tracer.named("agent run: 'helper'").errors


async def test_a_failed_run_marks_request_step_and_run() -> None:
    """With the error that its caller gets."""
    tracer = RecordingTracer()
    agent = agent_with([{"type": "error", "message": "out of order"}])

    async with Mastra(agents=[agent], telemetry=tracer):
        output = await agent.stream("hi")
        await output.wait()

    names = ("agent run: 'helper'", "step: 0", "llm: 'mock-1'")
    assert all("out of order" in str(tracer.named(name).errors) for name in names)
    assert "failed" == tracer.named("agent run: 'helper'").attributes["status"]
    assert_all_ended(tracer)


async def test_a_fallback_is_a_second_request() -> None:
    """The first one failed, the step didn't."""
    tracer = RecordingTracer()
    broken = ScriptedModel([[{"type": "error", "message": "out of order"}]])
    agent = Agent(id="helper", model=[broken, ScriptedModel([[text("Hi.")]])])

    async with Mastra(agents=[agent], telemetry=tracer):
        await (await agent.stream("hi")).wait()

    asked = [span for span in tracer.spans if span.kind == "model_generation"]
    assert [1, 0] == [len(span.errors) for span in asked]
    assert [] == tracer.named("step: 0").errors


async def test_an_aborted_run_ends_its_spans() -> None:
    """It isn't a failure."""
    tracer = RecordingTracer()
    started = asyncio.Event()

    async def wait(args: Any, context: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    agent = agent_with([tool_call("wait", {})], tools=[FunctionTool(id="wait", execute=wait)])

    async with Mastra(agents=[agent], telemetry=tracer):
        output = await agent.stream("hi")
        await started.wait()
        output.abort()
        await output.wait()
        async for _ in output.full_stream:
            pass

    assert_all_ended(tracer)
    run = tracer.named("agent run: 'helper'")
    assert ("canceled", []) == (run.attributes["status"], run.errors)


async def test_a_resumed_run_goes_on_in_the_same_trace() -> None:
    """Below the run that was suspended, also in another application on the same store."""
    tracer = RecordingTracer()
    guarded = FunctionTool(id="deploy", execute=_deploy, require_approval=True)

    def again(*calls: Any) -> Agent:
        return agent_with(*calls, tools=[guarded])

    first = again([tool_call("deploy", {})])
    async with Mastra(storage="memory:traces", agents=[first], telemetry=tracer) as held:
        output = await first.stream("go", **PLACE)
        await output.wait()
        second = again([text("Done.")])
        async with Mastra(storage=held.storage, agents=[second], telemetry=tracer):
            resumed = await second.approve_tool_call(output.run_id)
            await resumed.wait()

    assert output.trace_id == resumed.trace_id
    assert tracer.tree() == [
        "agent run: 'helper'",
        "  step: 0",
        "    llm: 'mock-1'",
        "    tool: 'deploy'",
        "  agent run: 'helper' (resumed)",
        "    tool: 'deploy'",
        "    step: 1",
        "      llm: 'mock-1'",
    ]
    asked = tracer.named("tool: 'deploy'").attributes
    assert (True, True) == (asked["suspended"], asked["needsApproval"])


async def _deploy(args: Any, context: Any) -> str:
    return "deployed"


@case("signals", 119)
async def test_a_run_that_a_signal_started_says_which() -> None:
    """Id, type, tag and attributes; other runs have none of it."""
    tracer = RecordingTracer()
    agent = agent_with([text("Seen.")])
    signal = {
        "id": "s1",
        "type": "reactive",
        "tagName": "build-failed",
        "contents": "look",
        "attributes": {"branch": "main"},
    }

    async with Mastra(agents=[agent], telemetry=tracer):
        sent = await agent.send_signal(signal, **PLACE).accepted
        assert sent.output is not None
        await sent.output.wait()

    assert tracer.named("agent run: 'helper'").attributes["signal"] == {
        "id": "s1",
        "type": "reactive",
        "tagName": "build-failed",
        "attributes": {"branch": "main"},
    }


# -- processors ---------------------------------------------------------------------------------


class Lane:
    """Says once what is the case."""

    id = "weather-lane"
    state_id = "weather"
    span_attributes: Mapping[str, Any] = {"own": 1}

    def compute_state_signal(self, args: Any) -> dict[str, Any]:
        return {
            "cache_key": "sunny",
            "contents": "It is sunny.",
            "attributes": {"sky": "blue"},
            "tag_name": "weather",
        }


async def test_a_computed_state_is_a_moment_below_its_processor() -> None:
    """Only when it was really added: the second run has nothing new to say."""
    tracer = RecordingTracer()
    agent = agent_with([text("Hi.")], [text("Again.")], input_processors=[Lane()])

    async with Mastra(agents=[agent], telemetry=tracer):
        await (await agent.stream("hi", **PLACE)).wait()
        await (await agent.stream("again", **PLACE)).wait()

    [signal] = [span for span in tracer.spans if span.kind == "agent_signal"]
    processor = next(span for span in tracer.spans if span.link == signal.parent)
    assert "signal: weather" == signal.name
    assert ("processor_run", 1) == (processor.kind, processor.attributes["own"])
    assert signal.attributes == {
        "stateId": "weather",
        "mode": "snapshot",
        "tagName": "weather",
        "processorId": "weather-lane",
        "output": {"attributes": {"sky": "blue"}, "hasDelta": False},
    }


@case("signals", 109)
async def test_nothing_computed_is_no_signal_no_span_and_no_save() -> None:
    """The thread's row stays as the run made it."""
    tracer = RecordingTracer()
    lane = Lane()
    lane.compute_state_signal = lambda args: None  # type: ignore[method-assign]
    agent = agent_with([text("Hi.")], input_processors=[lane])

    async with Mastra(agents=[agent], telemetry=tracer) as app:
        output = await agent.stream("hi", **PLACE)
        kinds = [chunk["type"] async for chunk in output.full_stream]
        thread = await app.storage.memory.get_thread_by_id("t1")

    assert "data-signal" not in kinds
    assert "agent_signal" not in {span.kind for span in tracer.spans}
    assert thread is not None
    assert "mastra" not in (thread.metadata or {})


class Named:
    """Names its spans itself, and raises while it does."""

    id = "named"
    span_type = "generic"

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def span_name(self, phase: str) -> str:
        if self._fails:
            raise ValueError("no name")
        return f"my {phase}"

    def process_input(self, args: Any) -> None:
        return None


async def test_processors_may_name_their_spans() -> None:
    """One that can't gets the usual name; the run doesn't notice."""
    tracer = RecordingTracer()
    processors = [Named(fails=False)]
    agent = agent_with([text("Hi.")], [text("Hi.")], input_processors=processors)

    async with Mastra(agents=[agent], telemetry=tracer):
        await (await agent.stream("hi")).wait()
        processors[0]._fails = True
        output = await agent.stream("hi")
        assert "Hi." == await output.text

    kinds = {span.name: span.kind for span in tracer.spans}
    assert "generic" == kinds["my process_input"] == kinds["input processor: named"]


# -- tracers that fail, and none ----------------------------------------------------------------


class Broken:
    """Raises whatever is asked of it."""

    def start(self, *args: Any, **members: Any) -> NoReturn:
        raise RuntimeError("no tracer today")

    def span(self, *args: Any, **members: Any) -> NoReturn:
        raise RuntimeError("no tracer today")


class HalfBroken(RecordingTracer):
    """Its spans raise."""

    def start(self, *args: Any, **members: Any) -> Span:
        span = super().start(*args, **members)
        return _BrokenSpan(span)  # type: ignore[return-value]


class _BrokenSpan:
    def __init__(self, span: Span) -> None:
        self._span = span

    link = None
    is_recording = True

    def active(self) -> AbstractContextManager[None]:
        raise RuntimeError("not active")

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(f"no {name}")


@pytest.mark.parametrize("tracer", [Broken(), HalfBroken()])
async def test_a_tracer_that_raises_does_not_disturb_the_run(
    tracer: Tracer, caplog: pytest.LogCaptureFixture
) -> None:
    """It is switched off with one warning."""
    caplog.set_level(logging.WARNING)
    calls = [[tool_call("weather", {"city": "Rome"})]] * 9
    agent = agent_with(*calls, [text("Sunny.")], tools=[weather])

    async with Mastra(agents=[agent], telemetry=tracer):
        output = await agent.stream("weather?", max_steps=10)
        assert "Sunny." == await output.text

    assert 1 == sum(record.message == "tracer switched off" for record in caplog.records)


async def test_without_a_tracer_nothing_is_said() -> None:
    """No ids, and nothing in the snapshot."""
    guarded = FunctionTool(id="deploy", execute=_deploy, require_approval=True)
    agent = agent_with([tool_call("deploy", {})], tools=[guarded])

    async with Mastra(agents=[agent], telemetry=False) as app:
        output = await agent.stream("go", **PLACE)
        await output.wait()
        snapshot = await app.storage.workflows.load_workflow_snapshot(
            workflow_name="agentic-loop", run_id=output.run_id
        )

    assert (None, None) == (output.trace_id, output.span_id)
    assert snapshot is not None
    assert {} == snapshot["tracingContext"]


async def test_options_for_an_exporter_that_nobody_offers_are_refused() -> None:
    """Somebody counts on it."""
    with pytest.raises(ConfigError, match="'made-up'"):
        async with Mastra(telemetry={"made-up": {}}):
            pass


def test_recorded_spans_are_spans() -> None:
    """As the protocol wants them."""
    tracer = RecordingTracer()
    assert isinstance(tracer, Tracer)
    span = tracer.start("x")
    assert isinstance(span, Span)
    assert isinstance(span, RecordedSpan)
    with pytest.raises(LookupError, match="Known"):
        tracer.named("y")


# -- around runs --------------------------------------------------------------------------------


async def test_an_event_that_wakes_a_thread_is_one_trace() -> None:
    """From the inbox to the answer."""
    tracer = RecordingTracer()
    agent = agent_with([text("On it.")])
    event = {"source": "ci", "kind": "failed", "priority": "urgent", "summary": "main is red"}

    async with Mastra(agents=[agent], telemetry=tracer):
        subscription = agent.subscribe_to_thread(**PLACE)
        with tracer.span("webhook"):
            result = await agent.send_notification_signal(event, **PLACE)
        async for chunk in subscription.stream:
            if chunk["type"] == "finish":
                break

    ingest, run = tracer.named("notification ingest"), tracer.named("agent run: 'helper'")
    assert [result.record.id] == ingest.attributes["notificationIds"]
    assert tracer.named("webhook").link.trace_id == ingest.link.trace_id == run.link.trace_id
    assert "notification" == run.attributes["signal"]["type"]


async def test_a_dispatched_event_says_which_it_was() -> None:
    """One span per signal that is sent; this one is a summary."""
    tracer = RecordingTracer()
    agent = agent_with([text("On it.")])
    event = {"source": "ci", "kind": "passed", "priority": "low", "summary": "main is green"}
    later = datetime.now(UTC) + timedelta(days=2)

    async with Mastra(agents=[agent], telemetry=tracer, notifications={"enabled": False}) as app:
        result = await agent.send_notification_signal(event, **PLACE)
        await app.dispatch_due_notifications(now=later)

    said = tracer.named("notification dispatch").attributes
    assert ([result.record.id], "t1", True) == (
        said["notificationIds"],
        said["threadId"],
        said["isSummary"],
    )


async def test_a_task_in_the_background_is_measured_by_itself() -> None:
    """Its body has a span, and its failure is that of the task."""
    tracer = RecordingTracer()

    async def fail(args: Any, context: Any) -> None:
        raise ValueError("no luck")

    slow = FunctionTool(id="slow", execute=fail, background=True)
    agent = agent_with([tool_call("slow", {})], [text("Started.")], tools=[slow])

    async with Mastra(agents=[agent], telemetry=tracer, background_tasks=True) as app:
        assert app.background_tasks is not None
        tasks = app.background_tasks.stream(agent_id="helper", include_existing=False)
        output = await agent.stream("go", **PLACE)
        await output.wait()
        async with asyncio.timeout(30):
            async for chunk in tasks:
                if chunk["type"] == "background-task-failed":
                    break
        tasks.close()

    task = tracer.named("background task: 'slow'")
    assert ["no luck"] == [str(error) for error in task.errors]
    assert (output.run_id, 1) == (task.attributes["runId"], task.attributes["attempt"])


async def test_tools_and_processors_measure_and_note_for_themselves() -> None:
    """Below the call and below the hook."""
    tracer = RecordingTracer()

    async def look(args: Any, context: ToolContext) -> str:
        with context.observe.span("parse", {"rows": 2}):
            context.observe.log("parsed", {"rows": 2}, level="warning")
        return "seen"

    class Measuring:
        id = "measuring"

        def process_input(self, args: Any) -> None:
            args.tracing_context.current_span.set_attribute("mine", 1)
            with args.tracing_context.tracer.span("inside"):
                pass

    agent = agent_with(
        [tool_call("look", {})],
        [text("Hi.")],
        tools=[FunctionTool(id="look", execute=look)],
        input_processors=[Measuring()],
    )

    async with Mastra(agents=[agent], telemetry=tracer):
        await (await agent.stream("hi")).wait()

    call, hook = tracer.named("tool: 'look'"), tracer.named("input processor: measuring")
    assert (call.link, hook.link) == (tracer.named("parse").parent, tracer.named("inside").parent)
    assert (["parsed"], 1) == (call.events, hook.attributes["mine"])


async def test_tools_without_a_tracer_measure_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """What they note is in the log all the same."""
    caplog.set_level(logging.INFO)

    async def look(args: Any, context: ToolContext) -> str:
        with context.observe.span("parse"):
            context.observe.log("parsed", {"rows": 2})
        return "seen"

    agent = agent_with(
        [tool_call("look", {})], [text("Hi.")], tools=[FunctionTool(id="look", execute=look)]
    )

    output = await agent.stream("hi")
    assert "Hi." == await output.text
    await agent.aclose()

    assert "parsed" in [record.message for record in caplog.records]
