"""Streams that go on until their thread is idle (streaming.md 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.errors import (
    ConfigError,
    MastraDeprecationWarning,
    RunArgumentError,
    StorageConnectionError,
)
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

OpenApp = Callable[..., Any]
THREAD = {"thread_id": "t1", "resource_id": "u1"}


def call(name: str = "research", *, id: str = "call_1") -> dict[str, Any]:
    return tool_call(name, {}, id=id)


def gated(gates: Gates, *names: str) -> list[FunctionTool]:
    """Tools that wait at the gate of their name and give it back."""

    def make(name: str) -> FunctionTool:
        async def body(args: Any, context: ToolContext) -> str:
            await gates.wait(name)
            return f"result of {name}"

        return FunctionTool(id=name, execute=body, background=True)

    return [make(name) for name in names]


def helper(*calls: Any, tools: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(calls)
    options.setdefault("instructions", "Help.")
    return Agent(id="helper", model=model, tools=tools, **options), model


async def until(holds: Callable[[], bool]) -> None:
    """Let others run until it holds."""
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


def directive(model: ScriptedModel, number: int) -> str:
    """What the model was told beside its instructions."""
    systems = [t["content"] for t in model.requests[number].prompt if t["role"] == "system"]
    return "\n".join(systems[1:])


@case("streaming", 47)
async def test_without_a_manager_the_chunks_are_those_of_stream() -> None:
    """No wrapper, no further chunks, also without a thread."""
    kinds = []
    for options in ({}, {"until_idle": True}, {"until_idle": {"max_idle_ms": 5}}):
        gates = Gates()
        gates.open("research")
        agent, _ = helper([call()], [text("hi")], tools=gated(gates, "research"))
        output = await agent.stream("go", **THREAD, **options)
        kinds.append([chunk["type"] async for chunk in output.full_stream])
        await agent.aclose()

    assert kinds[0] == kinds[1] == kinds[2]


async def test_without_a_thread_the_chunks_are_those_of_stream(open_app: OpenApp) -> None:
    """Rule 2: there is nothing to go on with."""
    gates = Gates()
    agent, model = helper([call()], [text("hi")], tools=gated(gates, "research"))
    await open_app(agent)

    output = await agent.stream("go", until_idle=True)
    kinds = [chunk["type"] async for chunk in output.full_stream]
    gates.open("research")

    assert kinds.count("finish") == 1
    assert len(model.requests) == 2


@case("streaming", 48)
async def test_a_task_that_ends_causes_a_turn(open_app: OpenApp) -> None:
    """Two ``finish`` with run ids of their own; the manager's chunks lie between."""
    gates = Gates()
    agent, model = helper([call()], [text("wait")], [text("here")], tools=gated(gates, "research"))
    await open_app(agent)

    output = await agent.stream("go", **THREAD, until_idle=True)
    await output.wait()
    gates.open("research")
    chunks = [chunk async for chunk in output.full_stream]

    finishes = [chunk["runId"] for chunk in chunks if chunk["type"] == "finish"]
    assert len(set(finishes)) == 2
    assert finishes[0] == output.run_id
    assert chunks[-1]["type"] == "finish"
    kinds = [chunk["type"] for chunk in chunks]
    assert kinds.index("finish") < kinds.index("background-task-completed")
    assert "call_1" in directive(model, 2)
    results = [turn for turn in model.requests[2].prompt if turn["role"] == "tool"]
    assert results[0]["content"][0]["output"]["value"] == "result of research"
    # Everybody who comes later sees the same (streaming.md 4).
    assert [chunk async for chunk in output.full_stream] == chunks
    await until(lambda: not agent.spans)


@case("streaming", 49)
async def test_turns_wait_for_all_tasks(open_app: OpenApp) -> None:
    """The first end starts nothing as long as the second runs."""
    gates = Gates()
    agent, model = helper(
        [call("one"), call("two", id="call_2")],
        [text("wait")],
        [text("both")],
        tools=gated(gates, "one", "two"),
    )
    app = await open_app(agent)
    output = await agent.stream("go", **THREAD, until_idle=True)
    await output.wait()

    gates.open("one")
    await until(
        lambda: any(c["type"] == "background-task-completed" for c in _outer_chunks(output))
    )
    await app.pubsub.flush()
    requests_between = len(model.requests)
    gates.open("two")
    chunks = [chunk async for chunk in output.full_stream]

    assert requests_between == 2
    assert [c["type"] for c in chunks].count("finish") == 2
    told = directive(model, 2)
    assert "call_1 (one" in told
    assert "call_2 (two" in told


def _outer_chunks(output: Any) -> list[dict[str, Any]]:
    return list(output._outer.buffer.chunks)


async def test_turns_come_one_by_one_if_so_wished(open_app: OpenApp) -> None:
    """``continue_on="each"``."""
    gates = Gates()
    agent, model = helper(
        [call("one"), call("two", id="call_2")],
        [text("wait")],
        [text("first")],
        [text("second")],
        tools=gated(gates, "one", "two"),
    )
    await open_app(agent)
    output = await agent.stream("go", **THREAD, until_idle={"continue_on": "each"})
    await output.wait()

    gates.open("one")
    await until(lambda: len(model.requests) == 3)
    gates.open("two")
    chunks = [chunk async for chunk in output.full_stream]

    assert [c["type"] for c in chunks].count("finish") == 3
    assert "call_2" not in directive(model, 2)
    assert "call_1" not in directive(model, 3)


@case("streaming", 50)
async def test_nobody_waits_for_ever(open_app: OpenApp) -> None:
    """After ``max_idle_ms`` the stream closes without an error; the task goes on."""
    gates = Gates()
    clock = FakeClock()
    agent, _ = helper([call()], [text("wait")], tools=gated(gates, "research"))
    app = await open_app(agent, clock=clock)
    output = await agent.stream("go", **THREAD, until_idle={"max_idle_ms": 20_000})
    await clock.advance(19)
    open_before = not _is_closed(output)
    await clock.advance(2)

    assert open_before
    kinds = [chunk["type"] async for chunk in output.full_stream]
    assert kinds.count("finish") == 1
    assert "error" not in kinds
    assert app.background_tasks is not None
    assert (await app.background_tasks.list_tasks()).tasks[0].status == "running"
    gates.open("research")


async def _kinds(output: Any) -> list[str]:
    return [chunk["type"] async for chunk in output.full_stream]


def _is_closed(output: Any) -> bool:
    return bool(output._outer.buffer.is_closed)


@case("streaming", 51)
async def test_the_object_is_that_of_the_first_turn(open_app: OpenApp) -> None:
    """Text, usage and callbacks too; the directive is not stored."""
    gates = Gates()
    finished: list[str] = []
    agent, _ = helper([call()], [text("wait")], [text("here")], tools=gated(gates, "research"))
    app = await open_app(agent)

    output = await agent.stream(
        "go", **THREAD, until_idle=True, on_finish=lambda full: finished.append(full["text"])
    )
    await output.wait()
    gates.open("research")
    async for _ in output.full_stream:
        pass

    assert await output.text == "wait"
    assert (await output.usage)["totalTokens"] == 30
    assert [piece async for piece in output.text_stream] == ["wait"]
    assert finished == ["wait"]
    page = await app.storage.memory.list_messages("t1", per_page=False)
    assert [message.role for message in page.messages] == ["user", "assistant", "assistant"]
    texts = [message.content.get("content") for message in page.messages]
    assert texts == ["go", "wait", "here"]
    assert "background" not in str([m.content["parts"][-1] for m in page.messages])


@case("streaming", 52)
async def test_a_second_call_ends_the_first_stream(open_app: OpenApp) -> None:
    """Of the same agent, thread and resource; the run itself isn't aborted."""
    gates = Gates()
    agent, model = helper(
        [call()], [text("wait")], [text("hello again")], tools=gated(gates, "research")
    )
    await open_app(agent)
    first = await agent.stream("go", **THREAD, until_idle=True)
    await first.wait()

    second = await agent.stream("and?", **THREAD, until_idle=True)
    first_kinds = [chunk["type"] async for chunk in first.full_stream]
    await second.wait()
    gates.open("research")
    second_chunks = [chunk async for chunk in second.full_stream]

    assert first_kinds.count("finish") == 1
    assert first.status == "success"
    assert second_chunks[-1]["type"] == "finish"
    assert len(model.requests) >= 3


@case("streaming", 53)
async def test_a_suspended_task_is_told_by_its_call_alone(open_app: OpenApp) -> None:
    """The model never sees the payload."""

    async def body(args: Any, context: ToolContext) -> None:
        await context.suspend({"secret": "which account 4711?"})

    tool = FunctionTool(id="research", execute=body, background=True)
    agent, model = helper([call()], [text("wait")], [text("somebody has to answer")], tools=[tool])
    app = await open_app(agent)

    output = await agent.stream("go", **THREAD, until_idle=True)
    chunks = [chunk async for chunk in output.full_stream]

    (suspended,) = [c for c in chunks if c["type"] == "background-task-suspended"]
    assert suspended["payload"]["suspendPayload"] == {"secret": "which account 4711?"}
    assert "call_1" in directive(model, 2)
    assert "4711" not in str(model.requests[2].prompt)
    page = await app.storage.memory.list_messages("t1", per_page=False)
    assert "4711" not in str([message.content for message in page.messages])


async def test_aborting_ends_everything(open_app: OpenApp) -> None:
    """The turn that runs is aborted and none follows (rule 13)."""
    gates = Gates()
    agent, model = helper(
        [call()],
        [{"type": "gate", "name": "speak"}, text("never")],
        tools=gated(gates, "research"),
    )
    await open_app(agent)
    stop = asyncio.Event()
    output = await agent.stream("go", **THREAD, until_idle=True, abort_signal=stop)
    await model.gates.reached("speak")

    stop.set()
    kinds = [chunk["type"] async for chunk in output.full_stream]
    gates.open("research")

    assert kinds[-2:] == ["abort", "finish"]
    assert len(model.requests) == 2
    await until(lambda: not agent.spans)


async def test_aborting_between_turns_closes_the_stream(open_app: OpenApp) -> None:
    """``output.abort()`` while only a task runs."""
    gates = Gates()
    agent, model = helper([call()], [text("wait")], tools=gated(gates, "research"))
    await open_app(agent)
    output = await agent.stream("go", **THREAD, until_idle=True)
    await output.wait()

    output.abort()
    kinds = [chunk["type"] async for chunk in output.full_stream]

    assert kinds.count("finish") == 1
    assert len(model.requests) == 2
    gates.open("research")


async def test_a_reader_that_goes_away_takes_everything_along(open_app: OpenApp) -> None:
    """Cancelling the iterator is an abort, unless somebody else reads on (rules 13, 18)."""
    gates = Gates()
    agent, model = helper(
        [call()],
        [{"type": "gate", "name": "speak"}, text("never")],
        tools=gated(gates, "research"),
    )
    await open_app(agent)
    output = await agent.stream("go", **THREAD, until_idle=True)
    await model.gates.reached("speak")
    one, other = output.full_stream, output.full_stream
    await anext(one)
    await anext(other)

    await one.aclose()  # type: ignore[attr-defined] # an async generator
    still_running = output.is_running
    await other.aclose()  # type: ignore[attr-defined] # an async generator
    await output.wait()

    assert still_running
    assert output.status == "canceled"
    gates.open("research")


async def test_a_turn_that_cannot_start_errors_the_stream(open_app: OpenApp) -> None:
    """Rule 14; what was seen before stays."""
    gates = Gates()
    agent, model = helper([call()], [text("wait")], tools=gated(gates, "research"))
    await open_app(agent)
    output = await agent.stream("go", **THREAD, until_idle=True)
    await output.wait()

    def broken() -> str:
        raise ConfigError("no instructions today")

    agent.instructions = broken
    gates.open("research")
    with pytest.raises(ConfigError, match="no instructions"):
        await _kinds(output)

    assert "background-task-completed" in [c["type"] for c in _outer_chunks(output)]
    assert await output.text == "wait"
    assert len(model.requests) == 2


async def test_a_forced_call_is_forced_once(open_app: OpenApp) -> None:
    """Or the further turn would start the same work, and so on for ever."""
    gates = Gates()
    gates.open("research")
    agent, model = helper([call()], [text("wait")], [text("here")], tools=gated(gates, "research"))
    await open_app(agent)

    output = await agent.stream("go", **THREAD, until_idle=True, tool_choice="required")
    async for _ in output.full_stream:
        pass

    assert [request.tool_choice for request in model.requests] == ["required", "required", "auto"]


async def test_a_lost_event_is_made_good_by_the_record(open_app: OpenApp) -> None:
    """The bus fails when the end is told; the stream goes on nevertheless (R128)."""
    gates = Gates()
    clock = FakeClock()
    agent, model = helper([call()], [text("wait")], [text("here")], tools=gated(gates, "research"))
    app: Mastra = await open_app(agent, clock=clock)
    output = await agent.stream("go", **THREAD, until_idle=True)
    await clock.settle()
    manager = app.background_tasks
    assert manager is not None

    async def lose(*args: Any, **options: Any) -> None:
        return

    manager.tell = lose  # type: ignore[method-assign] # an event that never arrives
    gates.open("research")
    await clock.advance(6)

    kinds = [chunk["type"] async for chunk in output.full_stream]
    assert kinds.count("finish") == 2
    assert "call_1" in directive(model, 2)


async def test_a_look_that_fails_ends_nothing(open_app: OpenApp) -> None:
    """The store is away when the records are looked at; there is a next look."""
    gates = Gates()
    clock = FakeClock()
    agent, _ = helper([call()], [text("wait")], [text("here")], tools=gated(gates, "research"))
    app: Mastra = await open_app(agent, clock=clock)
    output = await agent.stream("go", **THREAD, until_idle=True)
    await clock.settle()
    manager = app.background_tasks
    assert manager is not None
    get_task, failures = manager.store.get_task, [1, 1]

    async def fail_first(task_id: str) -> Any:
        if failures:
            failures.pop()
            raise StorageConnectionError("The line is cut.")
        return await get_task(task_id)

    manager.store.get_task = fail_first  # type: ignore[method-assign] # a store that is away
    await clock.advance(11)
    gates.open("research")
    await clock.advance(6)

    kinds = [chunk["type"] async for chunk in output.full_stream]
    assert [] == failures
    assert kinds.count("finish") == 2


async def test_a_woken_run_goes_on_by_itself(open_app: OpenApp) -> None:
    """A message to an idle thread spans the tasks that it causes (rule 19)."""
    gates = Gates()
    agent, model = helper([call()], [text("wait")], [text("here")], tools=gated(gates, "research"))
    await open_app(agent)
    subscription = agent.subscribe_to_thread(**THREAD)
    seen: list[str] = []

    async def read() -> None:
        seen.extend([chunk["type"] async for chunk in subscription.stream])

    reading = asyncio.create_task(read())
    sent = agent.send_message("go", **THREAD)
    accepted = await sent.accepted
    await accepted.output.wait()
    gates.open("research")
    async for _ in accepted.output.full_stream:
        pass
    await until(lambda: not agent.spans)
    subscription.unsubscribe()
    await reading

    assert len(model.requests) == 3
    assert seen.count("finish") == 2
    assert "background-task-completed" not in seen


async def test_a_wake_may_say_no(open_app: OpenApp) -> None:
    """``stream_options`` of the caller come first."""
    gates = Gates()
    agent, model = helper([call()], [text("wait")], tools=gated(gates, "research"))
    app = await open_app(agent)
    options = {"stream_options": {"until_idle": False}}
    accepted = await agent.send_message("go", **THREAD, if_idle=options).accepted
    await accepted.output.wait()
    gates.open("research")
    await app.pubsub.flush()

    assert [c["type"] async for c in accepted.output.full_stream][-1] == "finish"
    assert len(model.requests) == 2


async def test_an_answered_run_goes_on_too(open_app: OpenApp) -> None:
    """``until_idle`` of an approval: the approved call itself runs in the background."""
    gates = Gates()

    async def body(args: Any, context: ToolContext) -> str:
        await gates.wait("research")
        return "found"

    tool = FunctionTool(id="research", execute=body, background=True, require_approval=True)
    agent, model = helper([call()], [text("wait")], [text("here")], tools=[tool])
    app = await open_app(agent)
    parked = await agent.stream("go", **THREAD)
    await parked.wait()

    output = await agent.approve_tool_call(parked.run_id, until_idle=True)
    await output.wait()
    gates.open("research")
    kinds = [chunk["type"] async for chunk in output.full_stream]

    assert kinds.count("finish") == 2
    assert len(model.requests) == 3
    page = await app.storage.memory.list_messages("t1", per_page=False)
    invocation = page.messages[1].content["parts"][0]["toolInvocation"]
    assert (invocation["state"], invocation["result"]) == ("result", "found")


async def test_the_old_name_still_works(open_app: OpenApp) -> None:
    """With a warning; the limit is an argument of its own there."""
    gates = Gates()
    gates.open("research")
    agent, _ = helper([call()], [text("wait")], [text("here")], tools=gated(gates, "research"))
    await open_app(agent)

    with pytest.warns(MastraDeprecationWarning, match="until_idle=True"):
        output = await agent.stream_until_idle("go", max_idle_ms=5000, **THREAD)
    kinds = [chunk["type"] async for chunk in output.full_stream]

    assert kinds.count("finish") == 2


@pytest.mark.parametrize(
    "value", ["yes", 5, {"max_idle_ms": 0}, {"continue_on": "some"}, {"maxIdle": 1}]
)
async def test_what_is_no_wish_is_refused(value: Any) -> None:
    """Before anything is done."""
    agent, model = helper([text("hi")], tools=[])

    with pytest.raises(RunArgumentError, match="until_idle"):
        await agent.stream("go", **THREAD, until_idle=value)
    await agent.aclose()

    assert model.requests == []


async def test_a_closing_application_ends_the_stream_as_it_ends_the_run(open_app: OpenApp) -> None:
    """With the last chunks of the turn that it cuts off."""
    gates = Gates()
    model = ScriptedModel([[text("half "), {"type": "gate", "name": "g"}]], gates=gates)
    agent = Agent(id="helper", model=model, tools=gated(Gates(), "research"))
    app = await open_app(agent)
    output = await agent.stream("go", **THREAD, until_idle=True)
    await gates.reached("g")
    await app.aclose()
    async with asyncio.timeout(30):
        kinds = [chunk["type"] async for chunk in output.full_stream]

    assert ["abort", "finish"] == kinds[-2:]
    assert (1, 1) == (kinds.count("start"), kinds.count("finish"))


async def test_a_run_that_has_hardly_begun_ends_when_its_application_closes(
    open_app: OpenApp,
) -> None:
    agent, _ = helper([text("never")], tools=gated(Gates(), "research"))
    app = await open_app(agent)
    output = await agent.stream("go", **THREAD)
    await app.aclose()
    async with asyncio.timeout(30):
        kinds = [chunk["type"] async for chunk in output.full_stream]

    assert "finish" == kinds[-1]
