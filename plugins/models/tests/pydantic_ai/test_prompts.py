"""Prompts as pydantic-ai's messages."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from mastra_core.errors import ModelError
from mastra_models.pydantic_ai.prompts import messages_from_prompt

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Deploy."}]},
    {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "hm", "providerOptions": {"acme": {"signature": "s"}}},
            {"type": "text", "text": "I will."},
            {
                "type": "tool-call",
                "toolCallId": "c1",
                "toolName": "deploy",
                "input": {"env": "prod"},
            },
        ],
    },
    {
        "role": "tool",
        "content": [
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "toolName": "deploy",
                "output": {"type": "json", "value": {"deployed": "prod"}},
            }
        ],
    },
    {"role": "user", "content": "Thanks."},
]


def test_a_conversation_becomes_requests_and_responses() -> None:
    asked, answered, again = messages_from_prompt(CONVERSATION, system="acme")

    assert isinstance(asked, ModelRequest)
    assert [SystemPromptPart, UserPromptPart] == [type(part) for part in asked.parts]
    assert isinstance(answered, ModelResponse)
    assert [ThinkingPart, TextPart, ToolCallPart] == [type(part) for part in answered.parts]
    assert isinstance(again, ModelRequest)
    assert [ToolReturnPart, UserPromptPart] == [type(part) for part in again.parts]


def test_ids_arguments_and_results_are_kept() -> None:
    _, answered, again = messages_from_prompt(CONVERSATION, system="acme")

    call, result = answered.parts[2], again.parts[0]
    assert isinstance(call, ToolCallPart)
    assert isinstance(result, ToolReturnPart)
    assert ("c1", "deploy", {"env": "prod"}) == (call.tool_call_id, call.tool_name, call.args)
    assert ("c1", {"deployed": "prod"}) == (result.tool_call_id, result.content)


@pytest.mark.parametrize(("system", "signature"), [("acme", "s"), ("other", None)])
def test_a_signature_goes_back_only_to_the_provider_that_made_it(
    system: str, signature: str | None
) -> None:
    thinking = messages_from_prompt(CONVERSATION, system=system)[1].parts[0]

    assert isinstance(thinking, ThinkingPart)
    assert signature == thinking.signature


@pytest.mark.parametrize(
    ("output", "content", "outcome"),
    [
        ({"type": "text", "value": "ok"}, "ok", "success"),
        ({"type": "error-text", "value": "no"}, "no", "failed"),
        ({"type": "error-json", "value": {"a": 1}}, {"a": 1}, "failed"),
        ({"type": "execution-denied", "reason": "too risky"}, "too risky", "failed"),
        ({"type": "content", "value": [{"type": "text", "text": "a"}]}, ["a"], "success"),
        ({"plain": 1}, {"plain": 1}, "success"),
    ],
)
def test_outputs_of_tools(output: Any, content: Any, outcome: str) -> None:
    part = {"type": "tool-result", "toolCallId": "c", "toolName": "t", "output": output}

    (request,) = messages_from_prompt([{"role": "tool", "content": [part]}], system="x")

    result = request.parts[0]
    assert isinstance(result, ToolReturnPart)
    assert (content, outcome) == (result.content, result.outcome)


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [("image/png", ImageUrl), ("audio/mpeg", AudioUrl), ("application/pdf", DocumentUrl)],
)
def test_addresses_of_files_are_handed_on(media_type: str, kind: type) -> None:
    part = {"type": "file", "mediaType": media_type, "data": "https://example.test/f"}

    (request,) = messages_from_prompt([{"role": "user", "content": [part]}], system="x")

    assert isinstance(request.parts[0].content[0], kind)  # type: ignore[index,union-attr]


@pytest.mark.parametrize("prefix", ["", "data:image/png;base64,"])
def test_files_are_handed_on_as_bytes(prefix: str) -> None:
    data = prefix + base64.b64encode(b"hi").decode()
    part = {"type": "file", "mediaType": "image/png", "data": data}

    (request,) = messages_from_prompt([{"role": "user", "content": [part]}], system="x")

    content = request.parts[0].content[0]  # type: ignore[index,union-attr]
    assert isinstance(content, BinaryContent)
    assert (b"hi", "image/png") == (content.data, content.media_type)


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "narrator", "content": "Once upon a time"},
        {"role": "user", "content": [{"type": "hologram"}]},
        {"role": "assistant", "content": [{"type": "hologram"}]},
        {"role": "user", "content": [{"type": "file", "mediaType": "image/png", "data": "%%"}]},
    ],
)
def test_what_cannot_be_told_is_refused(turn: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        messages_from_prompt([turn], system="x")
