"""Which answers get a form, and that every form has an end."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.contracts.model import ModelRequest, ToolSchema
from mastra_core.errors import ToolNotFoundError
from mastra_models.local.grammar import MAX_ITEMS, MAX_STRING, bounded, form_of


def request_with(tools: list[ToolSchema], choice: Any) -> ModelRequest:
    return ModelRequest(prompt=[], tools=tools, tool_choice=choice)


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_free_choice_gives_text(deploy: ToolSchema, choice: str) -> None:
    assert form_of(request_with([deploy], choice)) is None


@pytest.mark.parametrize("choice", ["required", {"type": "tool", "toolName": "deploy"}])
def test_one_forced_tool_is_its_arguments(deploy: ToolSchema, choice: Any) -> None:
    form = form_of(request_with([deploy], choice))

    assert form is not None
    assert not form.names_tool
    assert {"env", "reason"} == set(form.schema["properties"])


def test_several_forced_tools_say_which(deploy: ToolSchema, notify: ToolSchema) -> None:
    form = form_of(request_with([deploy, notify], "required"))

    assert form is not None
    assert form.names_tool
    assert ["deploy", "notify"] == [
        option["properties"]["tool"]["const"] for option in form.schema["anyOf"]
    ]


def test_forcing_a_tool_that_is_not_there_is_refused(deploy: ToolSchema) -> None:
    with pytest.raises(ToolNotFoundError, match="deploy"):
        form_of(request_with([deploy], {"type": "tool", "toolName": "nope"}))


def test_strings_and_lists_get_an_end() -> None:
    schema = {
        "type": "object",
        "title": "Note",
        "properties": {
            "title": {"type": "string"},
            "short": {"type": "string", "maxLength": 3},
            "one_of": {"type": "string", "enum": ["a"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "ref": {"$ref": "#/$defs/leaf"},
        },
        "$defs": {"leaf": {"type": "string"}},
    }

    result = bounded(schema)

    members = result["properties"]
    assert "title" not in result
    assert MAX_STRING == members["title"]["maxLength"]
    assert 3 == members["short"]["maxLength"]
    assert "maxLength" not in members["one_of"]
    assert (MAX_ITEMS, MAX_STRING) == (
        members["tags"]["maxItems"],
        members["tags"]["items"]["maxLength"],
    )
    assert MAX_STRING == members["maybe"]["anyOf"][0]["maxLength"]
    assert MAX_STRING == result["$defs"]["leaf"]["maxLength"]
    assert result["additionalProperties"] is False


def test_the_given_schema_is_left_alone() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "minItems": MAX_ITEMS + 2}

    result = bounded(schema)

    assert "maxItems" not in schema
    assert MAX_ITEMS + 2 == result["maxItems"]
