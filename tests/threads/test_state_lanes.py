"""State lanes of processors: when they tell the model, and what they know (signals.md 13.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra, MemoryOptions
from mastra_core.agent.tools import FunctionTool
from mastra_core.errors import InvalidSignalError, ProcessorError
from mastra_core.processors.arguments import ProcessorArgs
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}

State = dict[str, Any] | None


class Lane:
    """Says what a list says, call by call; the last word stands for ever."""

    def __init__(self, *states: State, id: str = "lane") -> None:
        self.id = id
        self.states = states
        self.seen: list[ProcessorArgs] = []

    def compute_state_signal(self, args: ProcessorArgs) -> State:
        """The next word."""
        self.seen.append(args)
        return self.states[min(len(self.seen), len(self.states)) - 1]


class Step:
    """Does something before each request."""

    id = "step"

    def __init__(self, work: Callable[[ProcessorArgs], Any]) -> None:
        self._work = work

    async def process_input_step(self, args: ProcessorArgs) -> None:
        """The work."""
        await self._work(args)


def snapshot(key: str, contents: str = "all", **more: Any) -> dict[str, Any]:
    return {"cache_key": key, "contents": contents, **more}


def agent_with(mastra: Mastra, *processors: Any, calls: int = 4, **options: Any) -> Agent:
    """An agent of the application that looks at its threads with these."""
    model = ScriptedModel([[text("ok")]] * calls)
    agent = Agent(id="a", model=model, input_processors=processors, **options)
    mastra.add_agent(agent)
    return agent


async def say(agent: Agent, words: str = "hi", **options: Any) -> list[dict[str, Any]]:
    """One run to its end; the chunks of its stream."""
    output = await agent.stream(words, **{**T, **options})
    return [chunk async for chunk in output.full_stream]


async def states(mastra: Mastra) -> list[Any]:
    """The stored rows of state signals."""
    rows = (await mastra.storage.memory.list_messages("t")).messages
    return [
        row
        for row in rows
        if (row.content.get("metadata") or {}).get("signal", {}).get("type") == "state"
    ]


def version_of(row: Any) -> int:
    version = row.content["metadata"]["signal"]["metadata"]["state"]["version"]
    assert isinstance(version, int)
    return version


@case("processors", 42)
async def test_what_the_model_is_shown_already_is_not_told_again(mastra: Mastra) -> None:
    """An unchanged key with a copy in the window adds nothing."""
    agent = agent_with(mastra, Lane(snapshot("k")))

    await say(agent)
    again = await say(agent)

    assert 1 == len(await states(mastra))
    assert "data-signal" not in [chunk["type"] for chunk in again]


@case("processors", 43)
@case("signals", 106)
async def test_a_state_that_left_the_window_is_told_again_as_it_was(mastra: Mastra) -> None:
    """An unchanged key keeps its version; a new one gets the next."""
    lane = Lane(*[snapshot("k1")] * 3, snapshot("k2"))
    agent = agent_with(mastra, lane, memory=MemoryOptions(last_messages=2))

    told = []
    for _ in range(4):
        chunks = await say(agent)
        told.append("data-signal" in [chunk["type"] for chunk in chunks])

    assert [True, False, True, True] == told
    assert [1, 1, 2] == [version_of(row) for row in await states(mastra)]


async def test_a_new_key_gets_the_next_version(mastra: Mastra) -> None:
    """Each change of the state is told, and counted."""
    agent = agent_with(mastra, Lane(snapshot("k1"), snapshot("k2")))

    await say(agent)
    await say(agent)

    assert [1, 2] == [version_of(row) for row in await states(mastra)]


async def test_the_model_gets_the_state_of_this_step(mastra: Mastra) -> None:
    """It is in the request, echoed before it, and its value stays out of the prompt."""
    agent = agent_with(mastra, Lane(snapshot("k", "open", value={"secret": 1})))
    model: Any = agent.resolve_models(None)[0]

    chunks = await say(agent)

    types = [chunk["type"] for chunk in chunks]
    assert types.index("data-signal") < types.index("step-start")
    prompt = str(model.requests[0].prompt)
    assert "<state>open</state>" in prompt
    assert "secret" not in prompt


@case("signals", 107)
async def test_a_processor_sees_the_last_snapshot_and_the_deltas_after_it(mastra: Mastra) -> None:
    """In order; what came before the snapshot is among the active signals only."""
    lane = Lane(
        snapshot("k1", "first"),
        snapshot("k2", "one", mode="delta"),
        snapshot("k3", "two", mode="delta"),
        None,
    )
    agent = agent_with(mastra, lane)

    for _ in range(4):
        await say(agent)

    seen = lane.seen[-1]
    assert seen.last_snapshot is not None
    assert ("first", ["one", "two"]) == (
        seen.last_snapshot.contents,
        [delta.contents for delta in seen.deltas_since_snapshot],
    )
    assert ["first", "one", "two"] == [signal.contents for signal in seen.active_state_signals]


@case("signals", 109)
async def test_nothing_new_changes_nothing(mastra: Mastra) -> None:
    """None is no signal, and the thread's row isn't written for it."""
    agent = agent_with(mastra, Lane(None))

    chunks = await say(agent)

    thread = await mastra.storage.memory.get_thread_by_id("t")
    assert thread is not None
    assert (None, "data-signal" in [chunk["type"] for chunk in chunks]) == (thread.metadata, False)
    assert {} == await mastra.storage.thread_state.list_states("t")


@case("signals", 110)
@case("processors", 44)
async def test_without_a_thread_nothing_is_computed(mastra: Mastra) -> None:
    """A call without a thread runs as if there were no lane."""
    lane = Lane(snapshot("k"))
    agent = agent_with(mastra, lane)

    full = await agent.generate("hi")

    assert ("ok", []) == (full["text"], lane.seen)


@case("signals", 110)
async def test_without_memory_a_lane_is_an_error(mastra: Mastra) -> None:
    """An agent that remembers nothing can't keep a state; the error names the processor."""
    agent = agent_with(mastra, Lane(snapshot("k")), memory=False)

    with pytest.raises(ProcessorError, match=r"\[Processor:lane\] sendStateSignal requires"):
        await agent.generate("hi")


@pytest.mark.parametrize(
    "wrong", [{"contents": "x"}, {"cache_key": "k"}, {"cache_key": "k", "contents": 1}, "text"]
)
async def test_a_malformed_state_fails_the_run(mastra: Mastra, wrong: Any) -> None:
    """The error names processor and hook; nothing is tracked."""
    agent = agent_with(mastra, Lane(wrong))

    with pytest.raises(ProcessorError, match="lane"):
        await agent.generate("hi", **T)

    thread = await mastra.storage.memory.get_thread_by_id("t")
    assert thread is not None
    assert thread.metadata is None


@case("signals", 111)
async def test_two_lanes_of_one_step_are_both_tracked(mastra: Mastra) -> None:
    """Each lane has its own version, and what others keep in the row stays."""
    agent = agent_with(mastra, Lane(snapshot("k")), Lane(snapshot("k"), snapshot("l"), id="second"))
    await say(agent, thread_metadata={"mine": 1})

    await say(agent)

    thread = await mastra.storage.memory.get_thread_by_id("t")
    assert thread is not None
    assert thread.metadata is not None
    lanes = thread.metadata["mastra"]["stateSignals"]
    assert {"lane": 1, "second": 2} == {name: lane["version"] for name, lane in lanes.items()}
    assert 1 == thread.metadata["mine"]


async def test_a_lane_may_be_named_otherwise_than_its_processor(mastra: Mastra) -> None:
    """``state_id`` names it."""
    lane = Lane(snapshot("k"))
    lane.state_id = "browser"  # type: ignore[attr-defined]  # an optional member of processors
    agent = agent_with(mastra, lane)

    await say(agent)

    thread = await mastra.storage.memory.get_thread_by_id("t")
    assert thread is not None
    assert thread.metadata is not None
    assert ["browser"] == list(thread.metadata["mastra"]["stateSignals"])


async def test_an_input_step_tells_its_lane(mastra: Mastra) -> None:
    """The second time the state is known; both answers say so (decisions.md 6)."""
    answers: list[Any] = []

    async def work(args: ProcessorArgs) -> None:
        assert args.send_state_signal is not None
        answers.append(await args.send_state_signal(snapshot("k", "told")))
        answers.append(await args.send_state_signal(snapshot("k", "told")))

    agent = agent_with(mastra, Step(work))

    await say(agent)

    first, second = answers
    assert ("told", True, "unchanged") == (first.contents, second.skipped, second.reason)
    assert 1 == len(await states(mastra))


async def test_an_input_step_without_a_thread_can_tell_nothing(mastra: Mastra) -> None:
    """The error names the processor."""

    async def work(args: ProcessorArgs) -> None:
        assert args.send_state_signal is not None
        await args.send_state_signal(snapshot("k"))

    agent = agent_with(mastra, Step(work))

    with pytest.raises(ProcessorError, match=r"\[Processor:step\] sendStateSignal requires"):
        await agent.generate("hi")


@case("processors", 41)
async def test_a_state_is_never_transient(mastra: Mastra) -> None:
    """It would be tracked, and gone."""
    errors: list[InvalidSignalError] = []

    async def work(args: ProcessorArgs) -> None:
        assert args.send_signal is not None
        assert args.send_state_signal is not None
        for send, value in (
            (args.send_signal, {"type": "state", "contents": "x", "transient": True}),
            (args.send_state_signal, snapshot("k", transient=True)),
        ):
            with pytest.raises(InvalidSignalError) as caught:
                await send(value)
            errors.append(caught.value)

    agent = agent_with(mastra, Step(work))

    await say(agent)

    assert ["state signals cannot be transient"] * 2 == [error.message for error in errors]


async def test_a_run_that_stores_nothing_tracks_nothing(mastra: Mastra) -> None:
    """A read-only run shows the state to its model and leaves the thread alone."""
    agent = agent_with(mastra, Lane(snapshot("k", "seen")))
    model: Any = agent.resolve_models(None)[0]
    assert agent.memory is not None
    await agent.memory.open_thread("t", "r")

    await say(agent, read_only=True)

    thread = await mastra.storage.memory.get_thread_by_id("t")
    assert thread is not None
    assert "<state>seen</state>" in str(model.requests[0].prompt)
    assert thread.metadata is None


@case("signals", 115)
async def test_a_hook_that_cant_rotate_leaves_call_and_result_together(mastra: Mastra) -> None:
    """A signal sent while an answer is judged doesn't part a call from its result."""

    class Judge:
        id = "judge"

        async def process_output_step(self, args: ProcessorArgs) -> None:
            assert args.send_signal is not None
            if args.tool_calls:
                await args.send_signal({"type": "reactive", "contents": "noted"})

    async def look(args: Any, context: Any) -> str:
        return "seen"

    tool = FunctionTool(id="look", description="", execute=look)
    model = ScriptedModel([[tool_call("look", {})], [text("done")]])
    agent = Agent(id="a", model=model, tools=[tool], output_processors=[Judge()])
    mastra.add_agent(agent)

    await say(agent)

    rows = (await mastra.storage.memory.list_messages("t")).messages
    holders = [
        [
            part["toolInvocation"]["state"]
            for part in row.content["parts"]
            if "toolInvocation" in part
        ]
        for row in rows
        if row.role == "assistant"
    ]
    assert ["result"] in holders
    assert 1 == sum(map(len, holders))
    assert "noted" in str(model.requests[1].prompt)


@case("signals", 114)
async def test_what_a_processor_writes_after_a_signal_follows_its_echo(mastra: Mastra) -> None:
    """Awaiting the signal fixes its place in the stream."""

    async def work(args: ProcessorArgs) -> None:
        assert args.send_signal is not None
        assert args.write is not None
        await args.send_signal({"type": "reactive", "contents": "first"})
        await args.write({"type": "data-note", "data": 1})

    chunks = await say(agent_with(mastra, Step(work)))

    types = [chunk["type"] for chunk in chunks]
    assert types.index("data-signal") < types.index("data-note") < types.index("step-start")


async def test_a_signal_of_an_input_hook_is_echoed_behind_the_start(mastra: Mastra) -> None:
    """The stream begins with ``start``; what entered before is shown then."""

    class Early:
        id = "early"

        async def process_input(self, args: ProcessorArgs) -> None:
            assert args.send_signal is not None
            await args.send_signal({"type": "reactive", "contents": "early"})

    chunks = await say(agent_with(mastra, Early()))

    assert ["start", "data-signal", "step-start"] == [chunk["type"] for chunk in chunks][:3]
