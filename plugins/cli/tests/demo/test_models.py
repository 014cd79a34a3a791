"""The scripted and the guided model: three turns, told by the prompt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from mastra_cli.demo.guided import GuidedModel
from mastra_cli.demo.scripted import ScriptedTriage
from mastra_cli.demo.triage import ACTIONS, OVERVIEW_TOOL, PROPOSAL_TOOL, REASONS, triage_agent
from mastra_cli.demo.turns import Noted, Turn, due_turn, read_noted
from mastra_core.contracts.model import Model, ModelRequest, ToolSchema
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

SUBJECTS = ["Check lint is failure", "Security alert 3 (high) about semver is open"]
NOTES = "".join(
    f'<notification id="n" priority="{priority}" status="delivered">{summary}</notification>\n'
    for priority, summary in (
        ("medium", "Ann commented &amp; left"),
        ("high", SUBJECTS[0]),
        ("urgent", SUBJECTS[1]),
    )
)


def user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": words}]}


def called(name: str, arguments: dict[str, Any], result: Any) -> list[dict[str, Any]]:
    call = {"toolCallId": name, "toolName": name}
    output = {"type": "json", "value": result}
    return [
        {"role": "assistant", "content": [{"type": "tool-call", **call, "input": arguments}]},
        {"role": "tool", "content": [{"type": "tool-result", **call, "output": output}]},
    ]


LOOKED = [user(NOTES), *called(OVERVIEW_TOOL, {}, {"records": 3})]
PROPOSAL = {"subject": SUBJECTS[0], "action": "run_again", "reason": REASONS[0]}
DONE = [*LOOKED, *called(PROPOSAL_TOOL, PROPOSAL, {"done": True})]


def tools() -> list[ToolSchema]:
    agent = triage_agent(ScriptedModel([]), SUBJECTS)
    return [
        ToolSchema(name=name, description=item.description, input_schema=item.input_json_schema())
        for name, item in agent.tools.items()
    ]


async def ask(model: Model, prompt: list[dict[str, Any]]) -> list[dict[str, Any]]:
    request = ModelRequest(prompt=prompt, tools=tools())
    return [part async for part in model.stream(request)]


def said(parts: list[dict[str, Any]]) -> str:
    return "".join(part["delta"] for part in parts if part["type"] == "text-delta")


def call_in(parts: list[dict[str, Any]]) -> tuple[str, Any]:
    call = next(part for part in parts if part["type"] == "tool-call")
    return call["toolName"], json.loads(call["input"])


def settled() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def guided() -> GuidedModel:
    words = [
        [text("Two things are open.")],
        [tool_call(PROPOSAL_TOOL, PROPOSAL)],
    ]
    return GuidedModel(ScriptedModel(words), settled())


def scripted() -> ScriptedTriage:
    return ScriptedTriage(settled())


@pytest.mark.parametrize(
    ("prompt", "turn"), [([user("x")], Turn.LOOK), (LOOKED, Turn.PROPOSE), (DONE, Turn.CLOSE)]
)
def test_the_prompt_tells_the_turn(prompt: list[dict[str, Any]], turn: Turn) -> None:
    assert turn is due_turn(prompt)


def test_notifications_are_read_from_the_prompt_the_serious_ones_first() -> None:
    assert [
        Noted("high", SUBJECTS[0]),
        Noted("urgent", SUBJECTS[1]),
        Noted("medium", "Ann commented & left"),
    ] == read_noted([user(NOTES)])


@pytest.mark.parametrize("make", [guided, scripted])
async def test_the_first_turn_looks(make: Callable[[], Model]) -> None:
    parts = await ask(make(), [user(NOTES)])

    assert (OVERVIEW_TOOL, {}) == call_in(parts)


@pytest.mark.parametrize("make", [guided, scripted])
async def test_the_second_turn_speaks_and_proposes(make: Callable[[], Model]) -> None:
    parts = await ask(make(), LOOKED)

    name, arguments = call_in(parts)
    assert said(parts)
    assert PROPOSAL_TOOL == name
    assert arguments["subject"] in SUBJECTS
    assert arguments["action"] in ACTIONS
    assert arguments["reason"] in REASONS
    kinds = [part["type"] for part in parts]
    assert (1, 1) == (kinds.count("stream-start"), kinds.count("finish"))
    assert "tool-calls" == parts[-1]["finishReason"]


async def test_the_last_turn_closes() -> None:
    parts = await ask(scripted(), DONE)

    assert "Done as approved: run again. Nothing else is urgent." == said(parts)
    assert "stop" == parts[-1]["finishReason"]


async def test_a_guided_model_adds_up_what_both_questions_used() -> None:
    parts = await ask(guided(), LOOKED)

    assert {"inputTokens": 20, "outputTokens": 10, "totalTokens": 30} == parts[-1]["usage"]


async def test_a_guided_model_gets_a_short_prompt() -> None:
    inner = ScriptedModel([[text("ok")], [tool_call(PROPOSAL_TOOL, PROPOSAL)]])

    await ask(GuidedModel(inner, settled()), LOOKED)

    told, forced = inner.requests
    assert "Ann commented" not in str(told.prompt)
    assert () == tuple(told.tools)
    assert {"type": "tool", "toolName": PROPOSAL_TOOL} == forced.tool_choice
    assert [PROPOSAL_TOOL] == [item.name for item in forced.tools]


async def test_the_first_turn_waits_until_everything_is_in() -> None:
    is_settled = asyncio.Event()
    asking = asyncio.create_task(ask(ScriptedTriage(is_settled), [user(NOTES)]))
    await asyncio.sleep(0)
    assert not asking.done()

    is_settled.set()

    assert OVERVIEW_TOOL == call_in(await asking)[0]


async def test_a_quiet_inbox_is_said() -> None:
    quiet = '<notification id="n" priority="low">Ann pushed</notification>'

    parts = await ask(scripted(), [user(quiet), *called(OVERVIEW_TOOL, {}, {})])

    assert "Nothing is broken" in said(parts)
