"""Answers that must be JSON of a given shape: which shape, and how it is bounded.

A model of 135 million parameters fills in a form, but doesn't know when to stop, so every
string and list of the shape gets an end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mastra_core.contracts.model import ModelRequest, ToolSchema
from mastra_core.errors import ToolNotFoundError

__all__ = ("MAX_ITEMS", "MAX_STRING", "Form", "bounded", "form_of")

#: Longest string that an unbounded string schema lets the model write.
MAX_STRING: Final = 160
#: Most items that an unbounded array schema lets the model write.
MAX_ITEMS: Final = 5

_SCHEMA_MAPS: Final = ("properties", "$defs", "definitions")
_SCHEMA_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
#: Notes for people; the grammar doesn't need them.
_NOTES: Final = frozenset({"title", "description", "examples", "default", "$schema", "deprecated"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The JSON that the answer has to be."""

    schema: dict[str, Any]
    #: Tools that the JSON is a call of; empty for a structured answer.
    tools: tuple[ToolSchema, ...] = ()

    @property
    def names_tool(self) -> bool:
        """Whether the JSON says which tool is called: ``{"tool": ..., "arguments": ...}``."""
        return len(self.tools) > 1


def form_of(request: ModelRequest) -> Form | None:
    """
    The form that an answer must have; None if it may be text.

    Raises:
        ToolNotFoundError: ``tool_choice`` names a tool that isn't offered.
    """
    tools = _forced_tools(request)
    if len(tools) == 1:
        return Form(schema=_arguments_schema(tools[0]), tools=tools)
    if tools:
        return Form(schema={"anyOf": [_named_call(tool) for tool in tools]}, tools=tools)
    asked = request.response_format
    if asked is not None and asked.get("type") == "json":
        return Form(schema=bounded(asked.get("schema") or {"type": "object"}))
    return None


def _forced_tools(request: ModelRequest) -> tuple[ToolSchema, ...]:
    match request.tool_choice:
        case "required":
            return tuple(request.tools)
        case {"type": "tool", "toolName": str(name)}:
            found = tuple(tool for tool in request.tools if tool.name == name)
            if not found:
                names = [tool.name for tool in request.tools]
                raise ToolNotFoundError(tool_name=name, available=names)
            return found
        case _:
            return ()


def _arguments_schema(tool: ToolSchema) -> dict[str, Any]:
    schema = bounded(tool.input_schema)
    schema.setdefault("type", "object")
    return schema


def _named_call(tool: ToolSchema) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, "arguments": _arguments_schema(tool)},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def bounded(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema whose values all fit ``schema``, and whose strings and lists have an end."""
    result: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _NOTES and not isinstance(value, Mapping):
            continue
        if name in _SCHEMA_MAPS and isinstance(value, Mapping):
            result[name] = {key: _bounded_value(inner) for key, inner in value.items()}
        elif name in _SCHEMA_LISTS and isinstance(value, Sequence):
            result[name] = [_bounded_value(inner) for inner in value]
        elif name in {"items", "additionalProperties"}:
            result[name] = _bounded_value(value)
        else:
            result[name] = value
    _add_bounds(result)
    return result


def _bounded_value(value: Any) -> Any:
    return bounded(value) if isinstance(value, Mapping) else value


def _add_bounds(schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if kind == "string" and not {"enum", "const", "pattern", "format", "maxLength"} & set(schema):
        schema["maxLength"] = max(MAX_STRING, int(schema.get("minLength", 0)))
    if kind == "array" and "maxItems" not in schema:
        schema["maxItems"] = max(MAX_ITEMS, int(schema.get("minItems", 0)))
    if kind == "object" and "properties" in schema:
        # What the shape doesn't name, a small model would make up without end.
        schema.setdefault("additionalProperties", False)
