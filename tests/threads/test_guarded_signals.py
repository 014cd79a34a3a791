"""Guardrails see what arrives in mid-run (signals.md G19)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_core import Mastra
from mastra_core.errors import RunArgumentError
from mastra_core.processors.arguments import ProcessorArgs
from mastra_core.testing.recording_tracer import RecordingTracer
from mastra_core.testing.scripted_model import text
from mastra_core.testing.thread_scene import ThreadScene, waiting

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}


class Guard:
    """Stops what is rude, and blots out numbers."""

    id = "guard"

    def __init__(self) -> None:
        self.looks: list[list[str]] = []
        self.violations: list[Any] = []

    def on_violation(self, violation: Any) -> None:
        self.violations.append(violation)

    async def process_input(self, args: ProcessorArgs) -> Any:
        texts = [part["text"] for m in args.messages for part in m.parts if "text" in part]
        self.looks.append(texts)
        args.state["looks"] = args.state.get("looks", 0) + 1
        if any("rude" in one for one in texts):
            args.abort("no manners", metadata={"looks": args.state["looks"]})
        for message in args.messages:
            for part in message.parts:
                if "text" in part:
                    part["text"] = part["text"].replace("4711", "####")


async def _busy(scene: ThreadScene, guard: Any, **options: Any) -> tuple[Any, Any, list[Any]]:
    """An agent whose run stands in the middle of a text, and what readers see."""
    agent = scene.agent(
        waiting("g"), [text("rest")], memory=True, input_processors=[guard], **options
    )
    subscription = agent.subscribe_to_thread(**T)
    accepted = await agent.send_message("go", **T).accepted
    await scene.reached("g")
    seen: list[Any] = []

    async def read() -> None:
        async for chunk in subscription.stream:
            seen.append(chunk)
            if chunk["type"] == "finish":
                return

    return agent, (accepted.output, asyncio.create_task(read())), seen


async def test_what_a_guardrail_stops_never_reaches_the_model(scene: ThreadScene) -> None:
    """Readers are told without its words; the rest goes on."""
    guard = Guard()
    agent, (output, reading), seen = await _busy(scene, guard)
    rude = agent.send_message("rude words", **T)
    await rude.accepted
    await agent.send_message("my number is 4711", **T).accepted

    scene.gates.open("g")
    await scene.idle()
    async with asyncio.timeout(60):
        await reading

    rows = [str(row.content) for row in await scene.rows()]
    assert [["go"], ["rude words"], ["my number is 4711"]] == guard.looks
    assert not any("rude" in row for row in rows)
    assert any("my number is ####" in row for row in rows)
    assert "####" in scene.prompt(1)
    assert "rude" not in scene.prompt(1)
    rejected = [chunk for chunk in seen if chunk["type"] == "data-signal-rejected"]
    assert [
        {
            "id": rude.signal.id,
            "type": "user",
            "tagName": "user",
            "reason": "no manners",
            "processorId": "guard",
            "metadata": {"looks": 2},
        }
    ] == [chunk["data"] for chunk in rejected]
    assert "rude" not in str(seen)
    assert [rejected[0]["data"]] == output.rejected_signals
    assert "success" == output.status
    assert 1 == len(guard.violations)


async def test_a_run_goes_on_as_if_nothing_had_come(scene: ThreadScene) -> None:
    """No further request is made for a signal that was dropped."""
    guard = Guard()
    agent, (_, reading), _ = await _busy(scene, guard)
    await agent.send_message("rude", **T).accepted

    scene.gates.open("g")
    await scene.idle()
    async with asyncio.timeout(60):
        await reading

    assert 1 == len(scene.models["a"].requests)
    assert ["Busy still"] == await scene.answers()


@pytest.mark.parametrize(
    ("policy", "looks"),
    [
        ({}, [["go"], ["a"], ["c"]]),
        ({"guard_signals": False}, [["go"]]),
        ({"guard_signals": True}, [["go"], ["a"], ["b"], ["c"]]),
        ({"guard_signals": ["reactive"]}, [["go"], ["b"]]),
    ],
)
async def test_the_policy_says_which_are_shown(
    scene: ThreadScene, policy: dict[str, Any], looks: list[list[str]]
) -> None:
    """Unless it says otherwise: what people and the outside say."""
    guard = Guard()
    agent, (_, reading), _ = await _busy(scene, guard, default_options=policy)
    await agent.send_message("a", **T).accepted
    await agent.send_signal({"type": "reactive", "contents": "b"}, **T).accepted
    await agent.send_signal({"type": "notification", "contents": "c"}, **T).accepted

    scene.gates.open("g")
    await scene.idle()
    async with asyncio.timeout(60):
        await reading

    assert looks == guard.looks


async def test_a_policy_that_is_none_is_refused(scene: ThreadScene) -> None:
    """Before anything starts."""
    with pytest.raises(RunArgumentError, match="guard_signals"):
        await scene.agent().stream("hi", **T, guard_signals=["people"])


class Slow:
    """Takes its time over what arrives in mid-run."""

    id = "slow"

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def process_input(self, args: ProcessorArgs) -> None:
        if "later" in str([m.parts for m in args.messages]) and not self.go_on.is_set():
            self.begun.set()
            await self.go_on.wait()


async def test_an_abort_while_it_looks_leaves_the_signal_for_the_next_run(
    scene: ThreadScene,
) -> None:
    """It had not entered the transcript, so it isn't lost with the run."""
    slow = Slow()
    agent, (output, reading), _ = await _busy(scene, slow)
    await agent.send_message("later one", **T).accepted
    await agent.send_message("later two", **T).accepted
    scene.gates.open("g")
    async with asyncio.timeout(60):
        await slow.begun.wait()

    agent.abort_thread_stream(**T)
    slow.go_on.set()
    await scene.idle()
    reading.cancel()

    assert "rest" == (await scene.answers())[-1]
    assert ["go", "later one", "later two"] == [
        row.content["parts"][0]["text"] for row in await scene.rows() if row.role == "signal"
    ]
    assert output.rejected_signals == []


async def test_the_span_of_the_run_says_what_was_dropped() -> None:
    """With the reason, without the words."""
    tracer = RecordingTracer()
    async with Mastra(storage="memory:", telemetry=tracer) as mastra:
        scene = ThreadScene(mastra)
        agent, (_, reading), _ = await _busy(scene, Guard())
        await agent.send_message("rude", **T).accepted
        scene.gates.open("g")
        await scene.idle()
        async with asyncio.timeout(60):
            await reading

    attributes = next(s.attributes for s in tracer.spans if s.name.startswith("agent run"))
    assert ["no manners"] == [one["reason"] for one in attributes["rejectedSignals"]]
