"""Tool calls that run detached from their run (streaming.md 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.background import BackgroundTaskManager
from mastra_core.errors import (
    ForbiddenError,
    StorageConnectionError,
    StorageDataError,
    StorageError,
    TaskError,
    TaskLimitError,
    TaskNotFoundError,
)
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call
from mastra_core.wire.events import Event
from mastra_core.wire.tasks import BackgroundTask

pytestmark = pytest.mark.anyio

OpenApp = Callable[..., Any]
THREAD = {"thread_id": "t1", "resource_id": "u1"}
PLACEHOLDER = "Background task started. Task ID: "


class Body:
    """A tool body that waits at a gate and then does what it was told to."""

    def __init__(self, *endings: Any) -> None:
        self.gates = Gates()
        self.calls: list[Any] = []
        self.contexts: list[ToolContext] = []
        self._endings = list(endings) or ["found"]

    async def __call__(self, args: Any, context: ToolContext) -> Any:
        number = len(self.calls)
        self.calls.append(args)
        self.contexts.append(context)
        await self.gates.wait("end")
        ending = self._endings[min(number, len(self._endings) - 1)]
        if isinstance(ending, BaseException):
            raise ending
        return ending


def research(body: Callable[..., Any], **background: Any) -> FunctionTool:
    return FunctionTool(
        id="research", description="Look it up.", execute=body, background=background or True
    )


def helper(*calls: Any, tools: Any, id: str = "helper", **options: Any) -> Agent:
    return Agent(id=id, model=ScriptedModel(calls), tools=tools, **options)


def manager_of(app: Mastra) -> BackgroundTaskManager:
    assert app.background_tasks is not None
    return app.background_tasks


async def only_task(app: Mastra) -> BackgroundTask:
    found = await manager_of(app).list_tasks()
    assert found.total == 1
    return found.tasks[0]


async def ended(app: Mastra, *, number: int = 1) -> list[BackgroundTask]:
    """The tasks of the application, once so many have ended."""
    manager = manager_of(app)
    while True:
        found = await manager.list_tasks(
            status=["completed", "failed", "cancelled", "timed_out", "suspended"]
        )
        if found.total >= number:
            break
        running = await manager.list_tasks(status=["pending", "running"])
        await manager.wait_for_end([task.id for task in running.tasks], limit_ms=10_000)
    # What is told follows what is written.
    await app.pubsub.flush()
    return found.tasks


async def until(holds: Callable[[], bool]) -> None:
    """Let others run until it holds."""
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


async def invocations(app: Mastra) -> list[dict[str, Any]]:
    page = await app.storage.memory.list_messages("t1", per_page=False)
    return [
        part
        for message in page.messages
        for part in message.content["parts"]
        if part["type"] == "tool-invocation"
    ]


async def heard_of(app: Mastra, heard: list[Event]) -> None:
    async def hear(event: Event) -> None:
        heard.append(event)

    await app.pubsub.subscribe("background-tasks-result", hear, start_from="latest")


CALL = tool_call("research", {"topic": "tea"})


# -- handing over -------------------------------------------------------------------------------


@case("streaming", 39)
async def test_a_deferred_call_gives_a_placeholder_and_runs_on(open_app: OpenApp) -> None:
    """The model sees the placeholder, the chunk follows the call, the record runs."""
    body = Body()
    agent = helper([CALL], [text("started")], tools=[research(body)])
    app = await open_app(agent)

    output = await agent.stream("look up tea", **THREAD)
    chunks = [chunk async for chunk in output.full_stream]
    task = await only_task(app)

    kinds = [chunk["type"] for chunk in chunks]
    at = kinds.index("background-task-started")
    assert kinds[at - 1 : at + 2] == ["tool-call", "background-task-started", "tool-result"]
    assert chunks[at]["payload"] == {
        "taskId": task.id,
        "toolName": "research",
        "toolCallId": "call_1",
    }
    assert task.status == "running"
    assert (task.args, task.run_id, task.thread_id) == ({"topic": "tea"}, output.run_id, "t1")
    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    result = model.requests[1].prompt[-1]["content"][0]
    assert result["output"]["value"].startswith(PLACEHOLDER + task.id)
    assert chunks[-1]["payload"]["backgroundTaskPending"] is True
    body.gates.open("end")


@case("streaming", 40)
async def test_the_real_result_replaces_the_placeholder(open_app: OpenApp) -> None:
    """Also when the run ended long before; the stored call has the result and its times."""
    body = Body({"found": "leaves"})
    agent = helper([CALL], [text("started")], [text("next")], tools=[research(body)])
    app = await open_app(agent)
    await (await agent.stream("look up tea", **THREAD)).wait()
    body.gates.open("end")
    (task,) = await ended(app)

    (part,) = await invocations(app)

    assert part["toolInvocation"]["state"] == "result"
    assert part["toolInvocation"]["result"] == {"found": "leaves"}
    assert part["providerMetadata"]["mastra"]["backgroundTask"] == {
        "taskId": task.id,
        "status": "completed",
    }
    page = await app.storage.memory.list_messages("t1", per_page=False)
    times = page.messages[1].content["metadata"]["backgroundTasks"]["call_1"]
    assert set(times) == {"taskId", "startedAt", "completedAt"}
    # And the next turn's model reads it.
    await (await agent.stream("and now?", **THREAD)).wait()
    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    results = [turn for turn in model.requests[2].prompt if turn["role"] == "tool"]
    assert results[0]["content"][0]["output"] == {"type": "json", "value": {"found": "leaves"}}


@case("streaming", 41)
async def test_a_failure_is_the_end_of_the_stored_call(open_app: OpenApp) -> None:
    """State ``output-error`` with the reason."""
    body = Body(RuntimeError("no leaves left"))
    agent = helper([CALL], [text("started")], tools=[research(body)])
    app = await open_app(agent)
    await (await agent.stream("look up tea", **THREAD)).wait()
    body.gates.open("end")
    (task,) = await ended(app)

    (part,) = await invocations(app)

    assert task.status == "failed"
    assert task.error == {"message": "no leaves left"}
    assert part["toolInvocation"]["state"] == "output-error"
    assert part["toolInvocation"]["errorText"] == "Background task failed: no leaves left"


async def test_a_result_that_comes_during_the_run_is_seen_by_its_next_step(
    open_app: OpenApp,
) -> None:
    """It is stored once, streamed as a result, and not overwritten at the end of the run."""
    body = Body("leaves")
    model = ScriptedModel(
        [
            [CALL],
            [{"type": "gate", "name": "speak"}, tool_call("noop", {}, id="call_2")],
            [text("done")],
        ]
    )

    async def noop(args: Any, context: ToolContext) -> str:
        return "nothing"

    agent = Agent(
        id="helper", model=model, tools=[research(body), FunctionTool(id="noop", execute=noop)]
    )
    app = await open_app(agent)
    output = await agent.stream("look up tea", **THREAD)
    await model.gates.reached("speak")
    body.gates.open("end")
    await ended(app)
    model.gates.open("speak")
    chunks = [chunk async for chunk in output.full_stream]

    results = [c["payload"]["result"] for c in chunks if c["type"] == "tool-result"]
    assert results[0].startswith(PLACEHOLDER)
    assert results[1:] == ["leaves", "nothing"]
    told = [t for t in model.requests[2].prompt if t["role"] == "tool"]
    assert told[0]["content"][0]["output"] == {"type": "text", "value": "leaves"}
    first, _ = await invocations(app)
    assert first["toolInvocation"]["result"] == "leaves"


async def test_a_body_that_ends_at_once_loses_nothing(open_app: OpenApp) -> None:
    """The task may end before the run has noted that it started."""
    body = Body("leaves")
    body.gates.open("end")
    agent = helper([CALL], [text("done")], tools=[research(body)])
    app = await open_app(agent)

    await (await agent.stream("look up tea", **THREAD)).wait()
    await ended(app)

    (part,) = await invocations(app)
    assert part["toolInvocation"]["result"] == "leaves"


# -- limits -------------------------------------------------------------------------------------


@case("streaming", 42)
async def test_a_task_that_takes_too_long_is_timed_out(open_app: OpenApp) -> None:
    """No retry, the body is cancelled, the event says failed."""
    body = Body()
    clock = FakeClock()
    agent = helper([CALL], [text("started")], tools=[research(body, timeout_ms=500, max_retries=3)])
    app = await open_app(agent, clock=clock)
    heard: list[Event] = []
    await heard_of(app, heard)
    await (await agent.stream("look up tea", **THREAD)).wait()

    await clock.advance(1)
    await app.pubsub.flush()
    task = await only_task(app)

    assert (task.status, task.retry_count, len(body.calls)) == ("timed_out", 0, 1)
    assert [event.type for event in heard] == ["task.running", "task.failed"]
    abort = body.contexts[0].abort
    assert abort is not None
    assert abort.is_set()
    (part,) = await invocations(app)
    assert part["toolInvocation"]["errorText"].startswith("Background task failed:")


@case("streaming", 43)
async def test_a_failed_attempt_is_repeated_after_a_pause(open_app: OpenApp) -> None:
    """The body runs twice; the pause is that of the settings."""
    body = Body(RuntimeError("not yet"), "found")
    body.gates.open("end")
    clock = FakeClock()
    agent = helper([CALL], [text("started")], tools=[research(body, max_retries=1)])
    app = await open_app(
        agent, clock=clock, background_tasks={"default_retries": {"retry_delay_ms": 2000}}
    )
    await (await agent.stream("look up tea", **THREAD)).wait()
    await clock.settle()

    waiting = await only_task(app)
    await clock.advance(1.9)
    calls_before = len(body.calls)
    await clock.advance(0.2)
    task = await only_task(app)

    assert (waiting.status, waiting.retry_count, calls_before) == ("pending", 1, 1)
    assert (task.status, task.retry_count, len(body.calls)) == ("completed", 1, 2)
    (part,) = await invocations(app)
    assert part["toolInvocation"]["result"] == "found"


async def test_a_refusal_is_not_repeated(open_app: OpenApp) -> None:
    """Nor what the settings call not worth it."""
    body = Body(ForbiddenError("not yours"))
    body.gates.open("end")
    agent = helper([CALL], [text("started")], tools=[research(body, max_retries=5)])
    app = await open_app(agent)
    await (await agent.stream("look up tea", **THREAD)).wait()

    (task,) = await ended(app)

    assert (task.status, len(body.calls)) == ("failed", 1)


TWO = [CALL, tool_call("research", {"topic": "cake"}, id="call_2")]


@case("streaming", 45)
async def test_queued_calls_wait_for_a_place(open_app: OpenApp) -> None:
    """The second starts when the first has ended."""
    body = Body()
    agent = helper(TWO, [text("started")], tools=[research(body)])
    app = await open_app(agent, background_tasks={"per_agent_concurrency": 1})
    await (await agent.stream("both", **THREAD)).wait()

    before = [task.status for task in (await manager_of(app).list_tasks()).tasks]
    calls_before = len(body.calls)
    body.gates.open("end")
    tasks = await ended(app, number=2)

    assert (sorted(before), calls_before) == (["pending", "running"], 1)
    assert [task.status for task in tasks] == ["completed", "completed"]
    first, second = sorted(tasks, key=lambda task: task.started_at or task.created_at)
    assert first.completed_at is not None
    assert second.started_at is not None
    assert first.completed_at <= second.started_at


@case("streaming", 45)
async def test_calls_without_a_place_are_refused_if_so_wished(open_app: OpenApp) -> None:
    """The model gets an error for the second; there is no record of it."""
    body = Body()
    agent = helper(TWO, [text("hm")], tools=[research(body)])
    app = await open_app(
        agent, background_tasks={"per_agent_concurrency": 1, "backpressure": "reject"}
    )

    output = await agent.stream("both", **THREAD)
    chunks = [chunk async for chunk in output.full_stream]

    (error,) = [c["payload"]["error"] for c in chunks if c["type"] == "tool-error"]
    assert error["code"] == TaskLimitError.id
    assert (await only_task(app)).tool_call_id == "call_1"
    body.gates.open("end")


@case("streaming", 45)
async def test_calls_without_a_place_run_inline_if_so_wished(open_app: OpenApp) -> None:
    """The second gives its real result to its own step."""
    body = Body()
    agent = helper(TWO, [text("hm")], tools=[research(body)])
    app = await open_app(
        agent, background_tasks={"per_agent_concurrency": 1, "backpressure": "fallback-sync"}
    )

    output = await agent.stream("both", **THREAD)
    await until(lambda: len(body.calls) == 2)
    body.gates.open("end")
    results = [
        c["payload"]["result"] async for c in output.full_stream if c["type"] == "tool-result"
    ]

    assert results[0].startswith(PLACEHOLDER)
    assert "found" in results[1:]
    assert (await only_task(app)).tool_call_id == "call_1"


# -- who may run in the background --------------------------------------------------------------


@pytest.mark.parametrize(
    ("background", "agent_says", "model_says", "runs_detached"),
    [
        (None, None, None, False),
        (True, None, None, True),
        (True, None, {"disposition": "foreground"}, False),
        (True, None, {"enabled": False}, False),
        (None, None, {"enabled": True}, False),
        (None, {"tools": "all"}, None, True),
        (None, {"tools": {"research": True}}, None, True),
        (True, {"tools": {"research": False}}, None, False),
        (True, {"disabled": True}, None, False),
        ({"default_disposition": "foreground"}, None, None, False),
        ({"default_disposition": "foreground"}, None, {"disposition": "deferred"}, True),
    ],
)
async def test_the_first_word_that_fits_decides(
    open_app: OpenApp, background: Any, agent_says: Any, model_says: Any, *, runs_detached: bool
) -> None:
    """Agent over tool, the model over both for what is eligible at all (8.2)."""
    body = Body()
    body.gates.open("end")
    tool = FunctionTool(id="research", execute=body, background=background)
    arguments: dict[str, Any] = {"topic": "tea"}
    if model_says is not None:
        arguments["_background"] = model_says
    agent = helper(
        [tool_call("research", arguments)],
        [text("ok")],
        tools=[tool],
        background_tasks=agent_says,
    )
    app = await open_app(agent)

    await (await agent.stream("go", **THREAD)).wait()
    if runs_detached:
        await ended(app)

    assert (await manager_of(app).list_tasks()).total == int(runs_detached)
    assert body.calls == [{"topic": "tea"}]


async def test_the_model_may_shorten_and_repeat(open_app: OpenApp) -> None:
    """Its own limits stand in the record; the body doesn't see them (decisions.md 37)."""
    body = Body()
    given = {"topic": "tea", "_background": {"timeoutMs": 700, "maxRetries": 2}}
    agent = helper([tool_call("research", given)], [text("ok")], tools=[research(body)])
    app = await open_app(agent)

    await (await agent.stream("go", **THREAD)).wait()
    task = await only_task(app)

    assert (task.timeout_ms, task.max_retries, task.args) == (700, 2, {"topic": "tea"})
    (part,) = await invocations(app)
    assert part["toolInvocation"]["args"] == given
    body.gates.open("end")


async def test_the_model_is_told_what_may_run_in_the_background(open_app: OpenApp) -> None:
    """At the end of the first system message, and in the schema of the eligible tool alone."""
    body = Body()
    plain = FunctionTool(id="plain", execute=body, input_schema={"type": "object"})
    agent = helper([text("hi")], tools=[research(body), plain], instructions="Help.")
    await open_app(agent)

    await (await agent.stream("hi", **THREAD)).wait()

    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    request = model.requests[0]
    said = request.prompt[0]["content"]
    assert said.startswith("Help.\n\n")
    assert "- research (default: background)" in said
    assert "plain" not in said
    eligible, other = request.tools
    assert "_background" in eligible.input_schema["properties"]
    assert "_background" not in other.input_schema.get("properties", {})


async def test_without_a_manager_nothing_is_said_and_all_runs_inline() -> None:
    """A standalone agent with the same tool."""
    body = Body()
    body.gates.open("end")
    agent = helper([CALL], [text("ok")], tools=[research(body)], instructions="Help.")

    output = await agent.stream("hi", **THREAD)
    results = [
        c["payload"]["result"] async for c in output.full_stream if c["type"] == "tool-result"
    ]
    await agent.aclose()

    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    assert results == ["found"]
    assert model.requests[0].prompt[0]["content"] == "Help."


async def test_one_call_may_switch_it_off(open_app: OpenApp) -> None:
    """``disable_background_tasks`` (8.2, rule 1)."""
    body = Body()
    body.gates.open("end")
    agent = helper([CALL], [text("ok")], tools=[research(body)])
    app = await open_app(agent)

    await (await agent.stream("hi", **THREAD, disable_background_tasks=True)).wait()

    assert (await manager_of(app).list_tasks()).total == 0


# -- waiting in the run -------------------------------------------------------------------------


async def test_an_awaited_call_gives_its_result_to_the_next_step(open_app: OpenApp) -> None:
    """A task of its own, but the run waits for it and says so."""
    body = Body("leaves")
    clock = FakeClock()
    agent = helper([CALL], [text("done")], tools=[research(body, default_disposition="awaited")])
    app = await open_app(agent, clock=clock)
    output = await agent.stream("go", **THREAD)
    await body.gates.reached("end")
    await clock.advance(3.5)
    body.gates.open("end")
    chunks = [chunk async for chunk in output.full_stream]

    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    told = [t for t in model.requests[1].prompt if t["role"] == "tool"]
    assert told[0]["content"][0]["output"] == {"type": "text", "value": "leaves"}
    (progress,) = [c["payload"] for c in chunks if c["type"] == "background-task-progress"]
    task = await only_task(app)
    assert progress == {"taskIds": [task.id], "runningCount": 1, "elapsedMs": 3000}


async def test_a_run_that_waits_looks_again_when_a_task_has_ended(open_app: OpenApp) -> None:
    """With ``wait_timeout_ms`` the model gets the result in the same run, after its first step."""
    body = Body("leaves")
    agent = helper([CALL], [text("started")], [text("here it is")], tools=[research(body)])
    await open_app(agent, background_tasks={"wait_timeout_ms": 60_000})
    output = await agent.stream("go", **THREAD)
    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    await until(lambda: len(model.requests) == 2)
    body.gates.open("end")

    assert await output.text == "here it is"
    assert len(model.requests) == 3


async def test_a_run_goes_on_without_a_task_that_takes_too_long(open_app: OpenApp) -> None:
    """After ``wait_timeout_ms`` it ends as it would have."""
    body = Body("leaves")
    clock = FakeClock()
    agent = helper([CALL], [text("started")], tools=[research(body)])
    await open_app(agent, clock=clock, background_tasks={"wait_timeout_ms": 2000})
    output = await agent.stream("go", **THREAD)
    await clock.advance(2.5)

    assert output.status == "success"
    assert await output.text == "started"
    body.gates.open("end")


# -- events, observation, commands --------------------------------------------------------------


async def test_events_have_the_shapes_of_the_specification(open_app: OpenApp) -> None:
    """Topics and data of 8.4, read off the bus."""

    async def body(args: Any, context: ToolContext) -> str:
        await context.writer.write({"percent": 50})
        assert context.background is not None
        return context.background.task_id

    agent = helper([CALL], [text("ok")], tools=[research(body)])
    app = await open_app(agent)
    heard: list[Event] = []
    await heard_of(app, heard)

    output = await agent.stream("go", **THREAD)
    await output.wait()
    (task,) = await ended(app)

    assert [event.type for event in heard] == ["task.running", "task.output", "task.completed"]
    ids = {
        "taskId": task.id,
        "toolName": "research",
        "toolCallId": "call_1",
        "runId": output.run_id,
        "agentId": "helper",
        "threadId": "t1",
        "resourceId": "u1",
    }
    for event in heard:
        assert event.run_id == task.id
        assert ids.items() <= event.data.items()
    assert heard[1].data["chunk"]["payload"]["output"] == {"percent": 50}
    assert heard[2].data["result"] == task.id
    assert {"startedAt", "completedAt"} <= set(heard[2].data)


async def test_observers_see_what_runs_and_what_becomes_of_it(open_app: OpenApp) -> None:
    """First the tasks at work, then live chunks, of the scope alone (8.8)."""
    body = Body()
    agent = helper([CALL], [text("ok")], tools=[research(body)])
    app = await open_app(agent)
    await (await agent.stream("go", **THREAD)).wait()
    manager = manager_of(app)
    stream = manager.stream(thread_id="t1")
    other = manager.stream(thread_id="another")

    running = await anext(stream)
    body.gates.open("end")
    completed = await anext(stream)
    await stream.aclose()
    await other.aclose()

    assert running["type"] == "background-task-running"
    assert set(running["payload"]) == {
        *("taskId", "toolName", "toolCallId", "runId", "agentId", "startedAt", "args")
    }
    assert completed["type"] == "background-task-completed"
    assert completed["payload"]["result"] == "found"
    assert "runId" not in completed
    assert [chunk async for chunk in stream] == []
    assert [chunk async for chunk in other] == []


async def test_a_cancelled_task_has_no_result(open_app: OpenApp) -> None:
    """Its body is told and stopped; the placeholder stays, one event is published (8.6, 8.8)."""
    body = Body()
    agent = helper(TWO, [text("ok")], tools=[research(body)])
    app = await open_app(agent, background_tasks={"per_agent_concurrency": 1})
    heard: list[Event] = []
    await heard_of(app, heard)
    await (await agent.stream("go", **THREAD)).wait()
    manager = manager_of(app)
    running, waiting = (await manager.list_tasks()).tasks
    if running.status != "running":
        running, waiting = waiting, running

    answers = [await manager.cancel(task.id) for task in (waiting, running, running)]
    await app.pubsub.flush()

    assert answers == [True, True, False]
    assert await manager.cancel("nobody") is False
    assert {task.status for task in (await manager.list_tasks()).tasks} == {"cancelled"}
    assert [e.type for e in heard] == ["task.running", "task.cancelled", "task.cancelled"]
    assert len(body.calls) == 1
    states = [part["toolInvocation"]["result"][:10] for part in await invocations(app)]
    assert states == [PLACEHOLDER[:10]] * 2


async def test_a_suspended_task_goes_on_with_data(open_app: OpenApp) -> None:
    """It holds no place while it waits; its payload is in the record."""

    async def body(args: Any, context: ToolContext) -> Any:
        if not context.is_resumed:
            await context.suspend({"ask": "which tea?"})
            return None
        return [context.resume_data, context.suspend_payload]

    agent = helper([CALL], [text("ok")], tools=[research(body)])
    app = await open_app(agent)
    heard: list[Event] = []
    await heard_of(app, heard)
    await (await agent.stream("go", **THREAD)).wait()
    (waiting,) = await ended(app)
    manager = manager_of(app)

    resumed = await manager.resume(waiting.id, "green")
    (task,) = await ended(app)
    assert resumed.status == "running"

    assert (waiting.status, waiting.suspend_payload) == ("suspended", {"ask": "which tea?"})
    assert task.result == ["green", {"ask": "which tea?"}]
    kinds = ["task.running", "task.suspended", "task.resumed", "task.completed"]
    assert [event.type for event in heard] == kinds
    with pytest.raises(TaskError, match="not suspended"):
        await manager.resume(task.id, "black")
    with pytest.raises(TaskNotFoundError):
        await manager.resume("nobody")


async def test_a_body_may_hand_over_work_of_its_own(open_app: OpenApp) -> None:
    """``adopt``: the task ends as that work does, and cancels it (8.2)."""

    class Work:
        def __init__(self) -> None:
            self.completion = asyncio.get_running_loop().create_future()
            self.was_cancelled = False

        def cancel(self) -> None:
            self.was_cancelled = True

    works: list[Work] = []

    async def body(args: Any, context: ToolContext) -> None:
        works.append(Work())
        assert context.background is not None
        context.background.adopt(works[-1])

    agent = helper(TWO, [text("ok")], tools=[research(body)])
    app = await open_app(agent)
    await (await agent.stream("go", **THREAD)).wait()
    await until(lambda: len(works) == 2)

    works[0].completion.set_result("by hand")
    (done,) = await ended(app)
    (left,) = (await manager_of(app).list_tasks(status="running")).tasks
    await manager_of(app).cancel(left.id)
    await until(lambda: works[1].was_cancelled)

    assert done.result == "by hand"


async def test_callbacks_are_told_of_ends(open_app: OpenApp) -> None:
    """Those of the tool and of the application; what they raise changes nothing."""
    told: list[str] = []

    def complete(task: BackgroundTask) -> None:
        told.append(f"tool {task.status}")
        raise RuntimeError("never mind")

    body = Body()
    body.gates.open("end")
    agent = helper([CALL], [text("ok")], tools=[research(body, on_complete=complete)])
    app = await open_app(
        agent, background_tasks={"on_task_complete": lambda task: told.append(f"app {task.status}")}
    )
    await (await agent.stream("go", **THREAD)).wait()
    await ended(app)
    await until(lambda: len(told) == 2)

    assert sorted(told) == ["app completed", "tool completed"]


async def test_old_records_are_deleted(open_app: OpenApp) -> None:
    """Completed ones after an hour by default (8.3)."""
    body = Body()
    body.gates.open("end")
    clock = FakeClock()
    agent = helper([CALL], [text("ok")], tools=[research(body)])
    app = await open_app(agent, clock=clock)
    await (await agent.stream("go", **THREAD)).wait()
    await clock.advance(10)
    assert (await only_task(app)).status == "completed"

    await clock.advance(3700)

    assert (await manager_of(app).list_tasks()).total == 0


async def test_outputs_may_be_thinned_out(open_app: OpenApp) -> None:
    """At most one in so many milliseconds, and the last one in any case."""

    async def body(args: Any, context: ToolContext) -> str:
        for number in range(5):
            await context.writer.write(number)
        return "done"

    clock = FakeClock()
    agent = helper([CALL], [text("ok")], tools=[research(body)])
    app = await open_app(agent, clock=clock, background_tasks={"progress_throttle_ms": 1000})
    heard: list[Event] = []
    await heard_of(app, heard)
    await (await agent.stream("go", **THREAD)).wait()
    await clock.settle()
    await app.pubsub.flush()

    outputs = [e.data["chunk"]["payload"]["output"] for e in heard if e.type == "task.output"]
    assert outputs == [0, 4]


async def test_a_result_that_cannot_be_stored_fails_the_task(open_app: OpenApp) -> None:
    """It isn't lost without a word."""
    circle: list[Any] = []
    circle.append(circle)
    body = Body(circle, "second")
    body.gates.open("end")
    agent = helper([CALL], [text("ok")], tools=[research(body)])
    app = await open_app(agent)
    await (await agent.stream("go", **THREAD)).wait()

    (task,) = await ended(app)

    assert task.status in ("failed", "completed")
    (part,) = await invocations(app)
    assert not str(part["toolInvocation"].get("result")).startswith(PLACEHOLDER)


class OdderError(BaseException):
    """No ``Exception``, as nothing that a program means to raise."""


class UnspeakableError(Exception):
    """Doesn't even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (OdderError("odd"), "The task raised OdderError: odd"),
        (SystemExit(3), "The task raised SystemExit: 3"),
        (BaseExceptionGroup("all", [OdderError()]), "The task raised BaseExceptionGroup: all"),
        (UnspeakableError(), "UnspeakableError"),
    ],
)
async def test_whatever_a_body_raises_its_task_fails_and_says_so(
    open_app: OpenApp, raised: BaseException, told: str
) -> None:
    """Nobody waits for it for ever, and nobody else fails with it."""
    body = Body(raised)
    body.gates.open("end")
    agent = helper([tool_call("research", {})], [text("placed")], tools=[research(body)])
    app = await open_app(agent)
    output = await agent.stream("go", **THREAD, until_idle=True)
    async with asyncio.timeout(30):
        kinds = [chunk["type"] async for chunk in output.full_stream]

    task = await only_task(app)
    assert "failed" == task.status
    assert task.error is not None
    assert task.error["message"].startswith(told)
    assert ("background-task-failed" in kinds, "finish") == (True, kinds[-1])


async def test_a_parked_run_does_not_overwrite_what_came_meanwhile(open_app: OpenApp) -> None:
    """The snapshot holds the placeholder; the answered run goes on with the real result."""
    body = Body("leaves")

    async def ask(args: Any, context: ToolContext) -> Any:
        if not context.is_resumed:
            await context.suspend("which?")
            return None
        return context.resume_data

    asking = FunctionTool(id="ask", execute=ask, resume_schema=str)
    calls = [CALL, tool_call("ask", {}, id="call_2")]
    agent = helper(calls, [text("done")], tools=[research(body), asking])
    app = await open_app(agent)
    parked = await agent.stream("go", **THREAD)
    await parked.wait()
    body.gates.open("end")
    await ended(app)

    resumed = await agent.resume_stream("green", run_id=parked.run_id)
    await resumed.wait()

    states = [
        (p["toolInvocation"]["state"], p["toolInvocation"]["result"])
        for p in await invocations(app)
    ]
    assert states == [("result", "leaves"), ("result", "green")]
    model = agent.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    told = [turn for turn in model.requests[1].prompt if turn["role"] == "tool"]
    outputs = [part["output"]["value"] for turn in told for part in turn["content"]]
    assert outputs == ["leaves", "green"]


class Refusing:
    """Records whose ends a store doesn't take for a while, or not at all."""

    def __init__(self, store: Any, error: StorageError, *, times: int, status: str = "") -> None:
        self._store = store
        self._error = error
        self._status = status
        self.times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def update_task(self, task_id: str, patch: Any, **options: Any) -> bool:
        if patch["status"] in (self._status or patch["status"]) and self.times > 0:
            self.times -= 1
            raise self._error
        won: bool = await self._store.update_task(task_id, patch, **options)
        return won


async def test_a_result_waits_for_a_store_that_is_away(open_app: OpenApp) -> None:
    """Nobody else has it; so long as the task is ours, it is written as soon as it can be."""
    body = Body("found")
    clock = FakeClock()
    agent = helper([CALL], [text("started")], tools=[research(body)])
    app = await open_app(agent, clock=clock)
    await (await agent.stream("look up tea", **THREAD)).wait()
    await body.gates.reached("end")
    manager = manager_of(app)
    store: Any = Refusing(manager.store, StorageConnectionError("The line is cut."), times=12)
    manager.store = store
    body.gates.open("end")
    await clock.settle()
    for _ in range(40):
        await clock.advance(0.5)

    assert 0 == store.times
    task = await only_task(app)
    assert ("completed", "found") == (task.status, task.result)


async def test_a_result_that_the_store_refuses_fails_the_task(open_app: OpenApp) -> None:
    """It says why, instead of waiting until its process is taken for dead."""
    body = Body("found")
    clock = FakeClock()
    agent = helper([CALL], [text("started")], tools=[research(body)])
    app = await open_app(agent, clock=clock)
    await (await agent.stream("look up tea", **THREAD)).wait()
    await body.gates.reached("end")
    manager = manager_of(app)
    store: Any = Refusing(
        manager.store, StorageDataError("It is too large."), times=99, status="completed"
    )
    manager.store = store
    body.gates.open("end")
    await clock.settle()
    for _ in range(20):
        await clock.advance(0.5)

    task = await only_task(app)
    assert "failed" == task.status
    assert task.error is not None
    assert "What the task came to can't be stored: It is too large." == task.error["message"]
