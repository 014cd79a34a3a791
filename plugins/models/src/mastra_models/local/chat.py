"""Our prompt as the chat that a small model was trained on: system, user and assistant text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mastra_core.contracts.model import ToolSchema
from mastra_core.errors import ModelError
from mastra_models.local.grammar import Form

__all__ = ("chat_from_prompt",)


def chat_from_prompt(
    prompt: Sequence[Mapping[str, Any]], form: Form | None
) -> list[dict[str, str]]:
    """
    Messages ``{role, content}``; neighbours of one side are joined.

    Tool calls and their results become text, since the model knows no such roles. A form is
    explained in the last message, where a small model still remembers it.
    """
    chat: list[dict[str, str]] = []
    for turn in prompt:
        role, text = _turn(turn)
        _append(chat, role, text)
    if form is not None:
        _append(chat, "user", _instruction(form))
    if not chat or chat[-1]["role"] != "user":
        _append(chat, "user", "Go on.")
    return chat


def _append(chat: list[dict[str, str]], role: str, text: str) -> None:
    if not text:
        return
    if chat and chat[-1]["role"] == role:
        chat[-1]["content"] += f"\n{text}"
    else:
        chat.append({"role": role, "content": text})


def _turn(turn: Mapping[str, Any]) -> tuple[str, str]:
    role, content = str(turn.get("role")), turn.get("content")
    if role not in {"system", "user", "assistant", "tool"}:
        raise ModelError(f"A prompt has no turns of role {role!r}.", details={"role": role})
    text = content if isinstance(content, str) else _text_of_parts(content or ())
    return ("user" if role == "tool" else role), text


def _text_of_parts(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(filter(None, map(_text_of, parts)))


def _text_of(part: Mapping[str, Any]) -> str:
    match part.get("type"):
        case "text":
            return str(part.get("text") or "")
        case "tool-call":
            return f"I call {part.get('toolName')} with {_json(part.get('input'))}."
        case "tool-result":
            output = part.get("output")
            value = output.get("value", output) if isinstance(output, Mapping) else output
            return f"{part.get('toolName')} answered: {_json(value)}"
        case "file" | "image":
            return f"[a file of type {part.get('mediaType', 'unknown')}]"
        case _:
            # Its own reasoning, sources and the like: nothing a small model can use.
            return ""


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _instruction(form: Form) -> str:
    if not form.tools:
        return f"Answer with JSON only.{_members(form.schema)}"
    if not form.names_tool:
        return f"Now call {_described(form.tools[0])}. Answer with its arguments as JSON."
    listed = "\n".join(f"- {_described(tool)}" for tool in form.tools)
    return f'Now call one of these tools, as JSON {{"tool": ..., "arguments": ...}}:\n{listed}'


def _described(tool: ToolSchema) -> str:
    about = f" ({tool.description})" if tool.description else ""
    return f"the tool {tool.name}{about}{_members(tool.input_schema)}"


def _members(schema: Mapping[str, Any]) -> str:
    """The names of the members, and what their notes say."""
    members = schema.get("properties") or {}
    if not members:
        return ""
    told = [
        f"{name}: {about}" if (about := member.get("description")) else str(name)
        for name, member in members.items()
        if isinstance(member, Mapping)
    ]
    return f" Members: {'; '.join(told)}."
