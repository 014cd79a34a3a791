"""The model without weights answers the same way every time."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.contracts.model import Model, ToolSchema
from mastra_core.errors import ToolNotFoundError
from mastra_models import EchoModel
from mastra_models.scripted import example_of

pytestmark = pytest.mark.anyio


def text_of(parts: list[dict[str, Any]]) -> str:
    return "".join(part["delta"] for part in parts if part["type"] == "text-delta")


def test_it_is_a_model() -> None:
    assert isinstance(EchoModel(), Model)


async def test_it_repeats_the_last_thing_it_was_told(ask: Callable[..., Any]) -> None:
    parts = await ask(EchoModel(), "one  two three")

    assert "one  two three" == text_of(parts)
    assert "stop" == parts[-1]["finishReason"]


async def test_a_forced_call_fits_the_schema(ask: Callable[..., Any], deploy: ToolSchema) -> None:
    parts = await ask(EchoModel(), tools=[deploy], tool_choice="required")

    call = next(part for part in parts if part["type"] == "tool-call")
    assert {"env": "staging", "reason": "x"} == json.loads(call["input"])
    assert "tool-calls" == parts[-1]["finishReason"]


async def test_after_the_tool_answered_it_repeats_the_answer(
    ask: Callable[..., Any], deploy: ToolSchema
) -> None:
    result = {"type": "tool-result", "toolCallId": "c", "toolName": "deploy"}
    output = {"output": {"type": "json", "value": {"done": True}}}
    prompt = [{"role": "tool", "content": [{**result, **output}]}]

    parts = await ask(EchoModel(), prompt=prompt, tools=[deploy], tool_choice="required")

    assert '{"done": true}' == text_of(parts)


async def test_a_tool_that_is_not_offered_cannot_be_forced(
    ask: Callable[..., Any], deploy: ToolSchema
) -> None:
    choice = {"type": "tool", "toolName": "nope"}

    with pytest.raises(ToolNotFoundError, match="deploy"):
        await ask(EchoModel(), tools=[deploy], tool_choice=choice)


async def test_a_structured_answer_fits_its_schema(ask: Callable[..., Any]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    parts = await ask(EchoModel(), response_format={"type": "json", "schema": schema})

    assert {"n": 1} == json.loads(text_of(parts))


@given(st.lists(st.sampled_from(["string", "integer", "boolean", "null", "array"]), max_size=5))
def test_examples_have_every_required_member(kinds: list[str]) -> None:
    members = {f"m{index}": {"type": kind} for index, kind in enumerate(kinds)}
    schema = {"type": "object", "properties": members, "required": list(members)}

    assert list(members) == list(example_of(schema))


def test_examples_follow_references_and_stop_at_cycles() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/node"}},
        "required": ["next"],
    }
    schema = {"$ref": "#/$defs/node", "$defs": {"node": node}}

    assert "next" in example_of(schema)
