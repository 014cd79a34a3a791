"""A model without weights: the same question gets the same answer, everywhere."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from mastra_core.contracts.model import ModelPart, ModelRequest, ToolSchema
from mastra_core.errors import ToolNotFoundError

__all__ = (
    "MAX_EXAMPLE_DEPTH",
    "EchoModel",
    "example_of",
)

#: Nested schemas are followed this deep; beyond, an example is ``None``.
MAX_EXAMPLE_DEPTH: Final = 12


class EchoModel:
    """
    Repeats the last thing it was told.

    A forced tool call is made with arguments that fit the tool's schema, once: after a tool
    answered, the model repeats the answer.
    """

    provider = "scripted"
    model_id = "echo"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """The whole answer at once, in as many parts as a real one has."""
        yield {"type": "stream-start", "warnings": []}
        yield {"type": "response-metadata", "modelId": self.model_id}
        heard = _last_text(request.prompt)
        tool = _forced_tool(request)
        if tool is not None and not _ends_with_tool(request.prompt):
            said = json.dumps(example_of(tool.input_schema), separators=(",", ":"))
            call_id = f"echo_{len(request.prompt)}"
            for part in _tool_parts(call_id, tool.name, said):
                yield part
            reason = "tool-calls"
        else:
            said = _text_answer(request, heard)
            for part in _text_parts(said):
                yield part
            reason = "stop"
        yield {"type": "finish", "finishReason": reason, "usage": _usage(heard, said)}


def _text_answer(request: ModelRequest, heard: str) -> str:
    form = request.response_format
    if form is not None and form.get("type") == "json":
        return json.dumps(example_of(form.get("schema") or {}), separators=(",", ":"))
    return heard or "…"


def _text_parts(text: str) -> list[ModelPart]:
    words = text.split(" ")
    deltas = [word if index == 0 else f" {word}" for index, word in enumerate(words)]
    return [
        {"type": "text-start", "id": "0"},
        *({"type": "text-delta", "id": "0", "delta": delta} for delta in deltas if delta),
        {"type": "text-end", "id": "0"},
    ]


def _tool_parts(call_id: str, name: str, arguments: str) -> list[ModelPart]:
    return [
        {"type": "tool-input-start", "id": call_id, "toolName": name},
        {"type": "tool-input-delta", "id": call_id, "delta": arguments},
        {"type": "tool-input-end", "id": call_id},
        {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": arguments},
    ]


def _usage(heard: str, said: str) -> dict[str, int]:
    read, written = len(heard.split()), len(said.split())
    return {"inputTokens": read, "outputTokens": written, "totalTokens": read + written}


def _forced_tool(request: ModelRequest) -> ToolSchema | None:
    match request.tool_choice:
        case "required":
            return request.tools[0] if request.tools else None
        case {"type": "tool", "toolName": str(name)}:
            return _tool_named(request.tools, name)
        case _:
            return None


def _tool_named(tools: Sequence[ToolSchema], name: str) -> ToolSchema:
    for tool in tools:
        if tool.name == name:
            return tool
    raise ToolNotFoundError(tool_name=name, available=[tool.name for tool in tools])


def _ends_with_tool(prompt: Sequence[Mapping[str, Any]]) -> bool:
    return bool(prompt) and prompt[-1].get("role") == "tool"


def _last_text(prompt: Sequence[Mapping[str, Any]]) -> str:
    for turn in reversed(prompt):
        if turn.get("role") in {"user", "tool"}:
            return "\n".join(filter(None, map(_text_of, _parts(turn))))
    return ""


def _parts(turn: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = turn.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or ()


def _text_of(part: Mapping[str, Any]) -> str:
    match part.get("type"):
        case "text":
            return str(part.get("text") or "")
        case "tool-result":
            value = (part.get("output") or {}).get("value")
            return value if isinstance(value, str) else json.dumps(value)
        case _:
            return ""


def example_of(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> Any:
    """A small value that fits a JSON schema, as far as its keywords are understood."""
    return _example(schema, root if root is not None else schema, MAX_EXAMPLE_DEPTH)


def _example(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    if depth == 0:
        return None
    for member in ("default", "const"):
        if member in schema:
            return schema[member]
    if values := schema.get("enum") or schema.get("examples"):
        return values[0]
    if reference := schema.get("$ref"):
        return _example(_resolve(str(reference), root), root, depth - 1)
    for union in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(union):
            return _example(options[0], root, depth - 1)
    return _example_of_type(schema, root, depth)


def _example_of_type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object")
    match kind[0] if isinstance(kind, list) else kind:
        case "string":
            return "x" * max(1, int(schema.get("minLength", 1)))
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case "array":
            count = int(schema.get("minItems", 0))
            return [_example(schema.get("items") or {}, root, depth - 1) for _ in range(count)]
        case _:
            members = schema.get("properties") or {}
            wanted = schema.get("required") or ()
            return {name: _example(members.get(name) or {}, root, depth - 1) for name in wanted}


def _resolve(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
