"""Prompts as chats of three roles."""

from __future__ import annotations

import pytest

from mastra_core.contracts.model import ModelRequest, ToolSchema
from mastra_core.errors import ModelError
from mastra_models.local.chat import chat_from_prompt
from mastra_models.local.grammar import form_of


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_neighbours_of_one_side_are_joined() -> None:
    prompt = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "user", "content": "c"},
    ]

    assert [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb\nc"},
    ] == chat_from_prompt(prompt, None)


def test_calls_and_results_become_text() -> None:
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "deploy", "input": {"env": "prod"}}
    output = {"type": "json", "value": {"deployed": "prod"}}
    result = {"type": "tool-result", "toolCallId": "c", "toolName": "deploy", "output": output}
    prompt = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [call]},
        {"role": "tool", "content": [result]},
    ]

    _, said, heard = chat_from_prompt(prompt, None)

    assert {"role": "assistant", "content": 'I call deploy with {"env": "prod"}.'} == said
    assert {"role": "user", "content": 'deploy answered: {"deployed": "prod"}'} == heard


def test_a_chat_always_ends_with_the_user() -> None:
    chat = chat_from_prompt([{"role": "assistant", "content": "Hello."}], None)

    assert ["assistant", "user"] == [message["role"] for message in chat]


def test_a_form_is_explained_at_the_end(deploy: ToolSchema, notify: ToolSchema) -> None:
    prompt = [{"role": "user", "content": "go"}]
    one = form_of(ModelRequest(prompt=prompt, tools=[deploy], tool_choice="required"))
    two = form_of(ModelRequest(prompt=prompt, tools=[deploy, notify], tool_choice="required"))

    told_one = chat_from_prompt(prompt, one)[-1]["content"]
    told_two = chat_from_prompt(prompt, two)[-1]["content"]

    assert "Members: env; reason: why, in a few words." in told_one
    assert "the tool deploy" in told_two
    assert "the tool notify" in told_two


def test_files_are_named_and_reasoning_is_left_out() -> None:
    prompt = [
        {"role": "user", "content": [{"type": "file", "mediaType": "image/png", "data": "x"}]},
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, text("ok")]},
        {"role": "user", "content": "go"},
    ]

    chat = chat_from_prompt(prompt, None)

    assert "[a file of type image/png]" == chat[0]["content"]
    assert "ok" == chat[1]["content"]


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ModelError, match="narrator"):
        chat_from_prompt([{"role": "narrator", "content": "x"}], None)
