"""Read messages in whatever dialect the caller has them (streaming.md 1, 10.1).

Accepted are plain text, lists of text, stored messages (format 2), UI messages with
``parts``, and model messages with ``content`` as text or a list of parts.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from mastra_core.base.jsonjs import decode, sanitize_copy
from mastra_core.errors import RunArgumentError, WireDecodeError, shown
from mastra_core.messages.ui import is_ui_part, own_metadata, part_from_ui, stored_metadata
from mastra_core.wire.messages import Message

__all__ = ("FORMAT", "MessageInput", "messages_from_input")

MessageInput = str | Message | Mapping[str, Any] | Sequence["str | Message | Mapping[str, Any]"]

#: Version of the stored form that we write and read.
FORMAT = 2
_ROLES = ("user", "assistant", "system", "tool", "signal")


def messages_from_input(value: MessageInput) -> list[dict[str, Any]]:
    """
    Stored-form messages (``role``, ``content``, perhaps ``id``, ``type``) of an input.

    Raises:
        RunArgumentError: The value, or a part in it, is of no known dialect.
    """
    if isinstance(value, str | Message | Mapping):
        return [_message(value)]
    if isinstance(value, Sequence):
        return [_message(item) for item in value]
    raise _wrong_message(f"Messages must be text or a list, not {type(value).__name__}.")


def _wrong_message(text: str) -> RunArgumentError:
    return RunArgumentError(text, id="AGENT_INVALID_MESSAGE")


def _message(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        return _stored("user", [{"type": "text", "text": value}])
    if isinstance(value, Message):
        row = {"id": value.id, "role": value.role, "content": _own_content(value.content)}
        return row if value.type is None else {**row, "type": value.type}
    if not isinstance(value, Mapping):
        raise _wrong_message(f"A message must be text or a mapping, not {shown(value)}.")
    role = value.get("role")
    if role not in _ROLES:
        raise _wrong_message(
            f"Unknown message role {shown(role)}. Expected one of {', '.join(_ROLES)}."
        )
    content, metadata = value.get("content"), value.get("metadata")
    if isinstance(content, Mapping) and content.get("format") == FORMAT:
        message = {"role": role, "content": _own_content(content)}
    elif isinstance(value.get("parts"), Sequence) and not isinstance(value.get("parts"), str):
        message, metadata = _from_ui(role, value), None
    elif isinstance(content, str):
        message = _stored(role, [{"type": "text", "text": content}])
    elif isinstance(content, Sequence):
        message = _stored(
            "assistant" if role == "tool" else role, [_part(part) for part in content]
        )
    else:
        raise _wrong_message(f"A message of role {role!r} needs content or parts.")
    for name in ("id", "type"):
        if isinstance(value.get(name), str):
            message[name] = value[name]
    if isinstance(metadata, Mapping):
        message["content"].setdefault("metadata", sanitize_copy(metadata))
    return message


def _from_ui(role: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A UI message; what only its page needs is left out (streaming.md 12.2)."""
    message = _stored(role, [_with_own_time(_part(part)) for part in value["parts"]])
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping):
        message["content"] |= sanitize_copy(stored_metadata(metadata))
    return message


def _with_own_time(part: dict[str, Any]) -> dict[str, Any]:
    return part | own_metadata(part.pop("providerMetadata", None))


def _own_content(content: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of stored content that everybody behind us can rely on."""
    own: dict[str, Any] = sanitize_copy(content)
    parts = own.setdefault("parts", [])
    if not isinstance(parts, list):
        raise _wrong_message(f"The parts of a message must be a list, not {shown(parts)}.")
    for part in parts:
        _check_part(part)
    return own


def _check_part(part: object) -> None:
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        raise _wrong_message(f"A message part must be a mapping with a type, not {shown(part)}.")
    if part["type"] == "text" and not isinstance(part.get("text"), str):
        raise _wrong_message(f"A text part needs a text, not {shown(part.get('text'))}.")
    if part["type"] == "tool-invocation":
        invocation = part.get("toolInvocation")
        if not isinstance(invocation, Mapping) or not _has_id(invocation):
            raise _wrong_message(
                f"A tool part needs an invocation with a toolCallId, not {shown(invocation)}."
            )


def _has_id(invocation: Mapping[str, Any]) -> bool:
    call_id = invocation.get("toolCallId")
    return isinstance(call_id, str) and call_id != ""


def _stored(role: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {"format": FORMAT, "parts": parts}
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if texts:
        content["content"] = "\n".join(texts)
    return {"role": role, "content": content}


def _part(part: object) -> dict[str, Any]:
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        raise _wrong_message(f"A message part must be a mapping with a type, not {shown(part)}.")
    made = _converted(part)
    _check_part(made)
    return made


def _converted(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = part["type"]
    if is_ui_part(part):
        return part_from_ui(part)
    options = part.get("providerOptions", part.get("providerMetadata"))
    extra = {"providerMetadata": sanitize_copy(options)} if options is not None else {}
    if kind == "text":
        return {"type": "text", "text": part.get("text", ""), **extra}
    if kind in ("file", "image"):
        return _file(part) | extra
    if kind == "tool-call":
        invocation = {"state": "call", **_call(part)}
        return {"type": "tool-invocation", "toolInvocation": invocation, **extra}
    if kind == "tool-result":
        invocation = {"state": "result", **_call(part), "result": _result(part)}
        return {"type": "tool-invocation", "toolInvocation": invocation, **extra}
    return dict(sanitize_copy(part))


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    args = part.get("input", part.get("args"))
    if isinstance(args, str):
        try:
            args = decode(args)
        except WireDecodeError:
            args = {}
    return {
        "toolCallId": part.get("toolCallId"),
        "toolName": part.get("toolName"),
        "args": sanitize_copy(args) if args is not None else {},
    }


def _result(part: Mapping[str, Any]) -> Any:
    output = part.get("output", part.get("result"))
    if isinstance(output, Mapping) and output.get("type") in ("text", "json", "error-text"):
        return sanitize_copy(output.get("value"))
    return sanitize_copy(output)


def _file(part: Mapping[str, Any]) -> dict[str, Any]:
    data = part.get("data", part.get("url", part.get("image", "")))
    if isinstance(data, bytes | bytearray | memoryview):
        data = base64.b64encode(bytes(data)).decode("ascii")
    mime = part.get("mimeType", part.get("mediaType")) or (
        "image/png" if part["type"] == "image" else "application/octet-stream"
    )
    if not isinstance(data, str) or not isinstance(mime, str):
        raise _wrong_message(f"A file part needs data as text or bytes, not {shown(data)}.")
    filename = {"filename": str(part["filename"])} if part.get("filename") else {}
    return {"type": "file", "data": data, "mimeType": mime, **filename}
