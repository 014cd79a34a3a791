"""Input that arrives before an answer has begun takes the place of the request (signals.md 10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool
from mastra_core.errors import RunArgumentError, RunTimeoutError
from mastra_core.loop.interrupt import RequestAttempt
from mastra_core.processors.arguments import ProcessorArgs
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_core.testing.thread_scene import ThreadScene

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}


def silent(gate: str = "g") -> list[dict[str, Any]]:
    """A call that waits before it says anything."""
    return [{"type": "gate-before", "name": gate}, text("too late")]


def reasoning(gate: str = "g", thought: str = "thinking") -> list[dict[str, Any]]:
    """A call that thinks and then waits."""
    return [
        {"type": "reasoning", "text": thought, "open": True},
        {"type": "gate", "name": gate},
        text("too late"),
    ]


async def asked(scene: ThreadScene, *calls: Any, gate: str = "g", **options: Any) -> Any:
    """A run whose first request stands at a gate; its agent and its output."""
    stream_options = options.pop("stream_options", {})
    agent = scene.agent(*calls, **options)
    accepted = await agent.send_message(
        "go", **T, if_idle={"stream_options": stream_options}
    ).accepted
    await scene.reached(gate)
    return agent, accepted.output


async def chunks_of(output: Any) -> list[dict[str, Any]]:
    return [chunk async for chunk in output.full_stream]


@case("signals", 78)
async def test_a_request_without_a_chunk_gives_way(scene: ThreadScene) -> None:
    """The same run asks again, and shows both messages."""
    agent, output = await asked(scene, silent(), [text("both")])

    accepted = await agent.send_message("more", **T).accepted
    await scene.idle()

    assert ("deliver", output.run_id) == (accepted.action, accepted.run_id)
    assert 2 == len(scene.models["a"].requests)
    assert all(words in scene.prompt(1) for words in ("go", "more"))
    assert ["both"] == await scene.answers()
    assert scene.models["a"].requests[0].abort.is_set()
    assert not scene.models["a"].requests[1].abort.is_set()


@case("signals", 79)
async def test_reasoning_that_gave_way_leaves_no_trace(scene: ThreadScene) -> None:
    """No prompt and no row has it; whoever saw it begin sees it end."""
    agent, output = await asked(scene, reasoning(), [text("both")])

    await agent.send_message("more", **T).accepted
    await scene.idle()

    chunks = await chunks_of(output)
    starts = [c["payload"]["id"] for c in chunks if c["type"] == "reasoning-start"]
    ends = [c["payload"]["id"] for c in chunks if c["type"] == "reasoning-end"]
    assert (1, starts) == (len(starts), ends)
    stored = str([row.content for row in await scene.rows()])
    assert not any("thinking" in shown for shown in (stored, scene.prompt(1)))


@case("signals", 80)
async def test_a_dropped_request_is_no_step(scene: ThreadScene) -> None:
    """With one step allowed the replacement still answers; both are step 0."""
    numbers: list[int] = []

    def note(args: ProcessorArgs) -> None:
        numbers.append(args.step_number)

    agent, output = await asked(
        scene,
        silent(),
        [text("answer")],
        stream_options={"max_steps": 1, "prepare_step": note},
    )

    await agent.send_message("more", **T).accepted
    await scene.idle()

    assert ("answer", [0, 0]) == (await output.text, numbers)
    assert 1 == len(await output.steps)


@case("signals", 81)
async def test_dropped_requests_cost_nothing(scene: ThreadScene) -> None:
    """The usage of the run is that of the request that was answered."""
    agent, output = await asked(
        scene, *[reasoning(f"g{n}") for n in range(5)], [text("done")], gate="g0"
    )

    for n in range(5):
        await scene.reached(f"g{n}")
        await agent.send_message(f"more {n}", **T).accepted
    await scene.idle()

    usage = await output.usage
    assert (10, 5, 6) == (
        usage["inputTokens"],
        usage["outputTokens"],
        len(scene.models["a"].requests),
    )


@case("signals", 82)
async def test_an_answer_that_has_begun_goes_on(scene: ThreadScene) -> None:
    """A text that only started is an answer."""
    agent, output = await asked(
        scene,
        [
            {"type": "text-start", "id": "1"},
            {"type": "gate", "name": "g"},
            {"type": "text-delta", "id": "1", "delta": "first"},
            {"type": "text-end", "id": "1"},
        ],
        [text("second")],
    )

    await agent.send_message("more", **T).accepted
    scene.gates.open("g")
    await scene.idle()

    assert (["first", "second"], 2) == (await scene.answers(), len(await output.steps))


@case("signals", 83)
async def test_a_call_whose_arguments_stream_goes_on(scene: ThreadScene) -> None:
    """Its tool runs once."""
    runs: list[Any] = []

    async def act(args: Any, context: Any) -> str:
        runs.append(args)
        return "acted"

    agent, _ = await asked(
        scene,
        [
            {"type": "tool-input-start", "id": "c1", "toolName": "act"},
            {"type": "gate", "name": "g"},
            {"type": "tool-input-delta", "id": "c1", "delta": "{}"},
            {"type": "tool-input-end", "id": "c1"},
            {"type": "finish", "reason": "tool-calls"},
        ],
        [text("done")],
        tools=[FunctionTool(id="act", execute=act)],
    )

    await agent.send_message("more", **T).accepted
    scene.gates.open("g")
    await scene.idle()

    assert (1, ["", "done"]) == (len(runs), await scene.answers())


class Slow:
    """Waits before each request until it may go on."""

    id = "slow"

    def __init__(self) -> None:
        self.calls = 0
        self.at_work = asyncio.Event()
        self.go_on = asyncio.Event()

    async def process_input_step(self, args: ProcessorArgs) -> None:
        """The wait."""
        self.calls += 1
        self.at_work.set()
        await self.go_on.wait()


@case("signals", 84)
async def test_input_hooks_finish_and_the_model_is_not_asked(scene: ThreadScene) -> None:
    """The next attempt runs them again."""
    slow = Slow()
    agent = scene.agent([text("both")], input_processors=[slow])
    await agent.send_message("go", **T).accepted
    async with asyncio.timeout(60):
        await slow.at_work.wait()

    await agent.send_message("more", **T).accepted
    slow.go_on.set()
    await scene.idle()

    assert (2, 1) == (slow.calls, len(scene.models["a"].requests))
    assert "more" in scene.prompt(0)


@case("signals", 85)
async def test_an_output_hook_settles_before_the_next_request(scene: ThreadScene) -> None:
    """What it does with the reasoning is awaited."""
    log: list[str] = []
    holding, go_on = asyncio.Event(), asyncio.Event()

    class Holder:
        id = "holder"

        async def process_output_stream(self, args: ProcessorArgs) -> Any:
            assert args.part is not None
            if args.part["type"] == "reasoning-delta":
                holding.set()
                await go_on.wait()
                log.append("settled")
            return args.part

    def noted(request: Any) -> Any:
        log.append("asked")
        return [{"type": "reasoning", "text": "hm"}, text("late")]

    def again(request: Any) -> Any:
        log.append("asked")
        return [text("both")]

    agent = scene.agent(noted, again, output_processors=[Holder()])
    await agent.send_message("go", **T).accepted
    async with asyncio.timeout(60):
        await holding.wait()

    await agent.send_message("more", **T).accepted
    go_on.set()
    await scene.idle()

    assert (["asked", "settled", "asked"], ["both"]) == (log, await scene.answers())


@case("signals", 86)
async def test_the_total_limit_goes_on_through_interruptions(scene: ThreadScene) -> None:
    """A run that is interrupted again and again ends with the error of its limit."""
    agent, output = await asked(
        scene,
        silent("g0"),
        silent("g1"),
        gate="g0",
        stream_options={"model_settings": {"timeout": {"totalMs": 3000}}},
    )
    await agent.send_message("more", **T).accepted
    await scene.reached("g1")

    await scene.idle()

    assert isinstance(await output.error, RunTimeoutError)
    assert "abort" not in [chunk["type"] for chunk in await chunks_of(output)]


@case("signals", 87)
@pytest.mark.parametrize("first", ["abort", "signal"])
async def test_an_abort_wins_over_input_of_the_same_moment(scene: ThreadScene, first: str) -> None:
    """The run ends aborted; the input is answered by a run of its own."""
    agent, output = await asked(scene, silent(), [text("later")])

    if first == "abort":
        agent.abort_thread_stream(**T)
    sent = agent.send_message("more", **T)
    if first == "signal":
        agent.abort_thread_stream(**T)
    await sent.accepted
    await scene.idle()

    assert "aborted" == await output.finish_reason
    assert ["later"] == await scene.answers()
    assert "more" in scene.prompt(1)


@case("signals", 88)
async def test_a_queued_message_interrupts_nobody(scene: ThreadScene) -> None:
    """It waits for its own run."""
    agent, _ = await asked(scene, reasoning(), [text("queued")])

    await agent.queue_message("later", **T).accepted
    scene.gates.open("g")
    await scene.idle()

    assert ["too late", "queued"] == await scene.answers()
    assert "later" not in scene.prompt(0)


@case("signals", 89)
async def test_a_processors_own_signal_interrupts_nobody(scene: ThreadScene) -> None:
    """It is in the request that it was sent for, and that one is answered."""

    class Adder:
        id = "adder"

        async def process_input_step(self, args: ProcessorArgs) -> None:
            assert args.send_signal is not None
            await args.send_signal({"type": "reactive", "contents": "mind"})

    agent = scene.agent([text("ok")], input_processors=[Adder()])

    await agent.send_message("go", **T).accepted
    await scene.idle()

    assert 1 == len(scene.models["a"].requests)
    assert "mind" in scene.prompt(0)


@case("signals", 90)
async def test_no_other_model_is_tried_for_a_dropped_request(scene: ThreadScene) -> None:
    """A provider that fails at the moment of the interruption isn't asked for its reasons."""
    failing = ScriptedModel(
        [
            [{"type": "gate-before", "name": "g"}, {"type": "throw", "message": "down"}],
            [text("first model")],
        ],
        gates=scene.gates,
    )
    other = ScriptedModel([[text("second model")]])
    agent = Agent(id="a", model=[failing, other])
    scene.mastra.add_agent(agent)
    await agent.send_message("go", **T).accepted
    await scene.reached("g")

    scene.gates.open("g")
    await agent.send_message("more", **T).accepted
    await scene.idle()

    assert ([], ["first model"]) == (other.requests, await scene.answers())


async def test_interruptions_can_be_limited(scene: ThreadScene) -> None:
    """After so many, input waits for the end of the step (G20)."""
    agent, _ = await asked(
        scene,
        silent("g0"),
        silent("g1"),
        [text("rest")],
        gate="g0",
        stream_options={"max_interruptions": 1},
    )
    await agent.send_message("one", **T).accepted
    await scene.reached("g1")
    await agent.send_message("two", **T).accepted

    scene.gates.open("g1")
    await scene.idle()

    assert ["too late", "rest"] == await scene.answers()


async def test_a_limit_of_interruptions_is_a_count(scene: ThreadScene) -> None:
    """Others are refused before anything starts."""
    agent = scene.agent()

    with pytest.raises(RunArgumentError):
        await agent.stream("hi", **T, max_interruptions=-1)


async def test_a_rejected_answers_reason_is_told_again(scene: ThreadScene) -> None:
    """The request that asks for a better answer gave way; the next one still says why."""

    class Judge:
        id = "judge"

        async def process_output_step(self, args: ProcessorArgs) -> None:
            if args.text == "bad":
                args.abort("be nicer", retry=True)

    agent = scene.agent(
        [text("bad")],
        silent(),
        [text("good")],
        output_processors=[Judge()],
        max_processor_retries=1,
    )
    await agent.send_message("go", **T).accepted
    await scene.reached("g")

    await agent.send_message("more", **T).accepted
    await scene.idle()

    assert "be nicer" in scene.prompt(2)
    assert ["good"] == await scene.answers()


async def test_a_tool_is_not_repeated_by_an_interruption_after_it(scene: ThreadScene) -> None:
    """The request behind a tool gives way; the tool's result stays."""
    runs: list[Any] = []

    async def act(args: Any, context: Any) -> str:
        runs.append(args)
        return "acted"

    agent, _ = await asked(
        scene,
        [tool_call("act", {})],
        silent(),
        [text("done")],
        tools=[FunctionTool(id="act", execute=act)],
    )

    await agent.send_message("more", **T).accepted
    await scene.idle()

    assert 1 == len(runs)
    assert all(words in scene.prompt(2) for words in ("acted", "more"))


async def test_a_burst_of_input_takes_the_place_of_one_request() -> None:
    """With a debounce: only when nothing came for so long is the request dropped (G20)."""
    clock = FakeClock()
    attempt = RequestAttempt(clock, debounce=0.2)
    attempt.arm()

    for _ in range(3):
        attempt.preempt()
        await clock.advance(0.15)
        assert not attempt.is_preempted
    await clock.advance(0.1)

    assert attempt.is_preempted
    assert attempt.abort.is_set()


async def test_an_answer_that_begins_before_the_debounce_ends_is_kept(scene: ThreadScene) -> None:
    """Its input waits for the end of the step."""
    agent, output = await asked(
        scene,
        silent(),
        [text("rest")],
        stream_options={"interruption_debounce_ms": 600_000},
    )
    await agent.send_message("more", **T).accepted

    scene.gates.open("g")
    await scene.idle()

    assert ["too late", "rest"] == await scene.answers()
    assert 0 == output.interruptions


async def test_a_run_says_how_often_it_was_interrupted(scene: ThreadScene) -> None:
    """While it goes on and afterwards, at its output and in its span."""
    agent, output = await asked(
        scene,
        silent("g0"),
        silent("g1"),
        [text("rest")],
        gate="g0",
        stream_options={"interruption_debounce_ms": 1},
    )
    await agent.send_message("one", **T).accepted
    await scene.reached("g1")
    await agent.send_message("two", **T).accepted
    await scene.idle()

    assert ["rest"] == await scene.answers()
    assert 2 == output.interruptions
