"""Our prompt as pydantic-ai's messages."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)

from mastra_core.errors import ModelError
from mastra_models.pydantic_ai.metadata import facts_from_options

__all__ = ("messages_from_prompt",)

_URL_KINDS = (("image/", ImageUrl), ("audio/", AudioUrl), ("video/", VideoUrl))


def messages_from_prompt(prompt: Sequence[Mapping[str, Any]], *, system: str) -> list[ModelMessage]:
    """
    The turns of a prompt, neighbours of one side joined in one message.

    Args:
        prompt: Provider-neutral turns.
        system: The provider's name; its metadata on reasoning is handed back to it alone.

    Raises:
        ModelError: A turn or a part is of a kind that no provider could be told.
    """
    messages: list[ModelMessage] = []
    asked: list[ModelRequestPart] = []
    for turn in prompt:
        if turn.get("role") != "assistant":
            asked.extend(_request_parts(turn))
            continue
        if asked:
            messages.append(ModelRequest(parts=asked))
            asked = []
        answered = list(_response_parts(turn, system))
        if answered:
            messages.append(ModelResponse(parts=answered))
    if asked:
        messages.append(ModelRequest(parts=asked))
    return messages


def _request_parts(turn: Mapping[str, Any]) -> Iterator[ModelRequestPart]:
    content = turn.get("content")
    match turn.get("role"):
        case "system":
            yield SystemPromptPart(content=str(content or ""))
        case "user" if isinstance(content, str):
            yield UserPromptPart(content=content)
        case "user":
            parts = [_user_content(part) for part in content or ()]
            # Plain text stays plain: not every server of these protocols reads lists.
            only = parts[0] if len(parts) == 1 else None
            yield UserPromptPart(content=only if isinstance(only, str) else parts)
        case "tool":
            for part in content or ():
                if part.get("type") == "tool-result":
                    yield _tool_return(part)
        case role:
            raise ModelError(f"A prompt has no turns of role {role!r}.", details={"role": role})


def _user_content(part: Mapping[str, Any]) -> UserContent:
    match part.get("type"):
        case "text":
            return str(part.get("text") or "")
        case "file" | "image":
            return _file_content(part)
        case kind:
            raise ModelError(
                f"A user's turn has no parts of type {kind!r}.", details={"type": kind}
            )


def _file_content(part: Mapping[str, Any]) -> UserContent:
    media_type = str(part.get("mediaType") or "application/octet-stream")
    data = part.get("data", part.get("image"))
    if isinstance(data, str) and data.startswith(("http://", "https://")):
        for prefix, kind in _URL_KINDS:
            if media_type.startswith(prefix):
                return kind(url=data, media_type=media_type)
        return DocumentUrl(url=data, media_type=media_type)
    return BinaryContent(data=_bytes_from(data), media_type=media_type)


def _bytes_from(data: object) -> bytes:
    """Raw bytes of a file part: bytes, base64 text or a data URL."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    text = str(data or "")
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as exc:
        raise ModelError("The data of a file part is neither a URL nor base64.") from exc


def _tool_return(part: Mapping[str, Any]) -> ToolReturnPart[Any]:
    value, is_failure = _output_value(part.get("output"))
    return ToolReturnPart(
        tool_name=str(part.get("toolName") or ""),
        content=value,
        tool_call_id=str(part.get("toolCallId") or ""),
        outcome="failed" if is_failure else "success",
    )


def _output_value(output: object) -> tuple[Any, bool]:
    """The value of a tool's output and whether it tells of a failure."""
    if not isinstance(output, Mapping) or "type" not in output:
        return output, False
    value = output.get("value")
    match output["type"]:
        case "error-text" | "error-json":
            return value, True
        case "execution-denied":
            return output.get("reason") or "The call was not approved.", True
        case "content":
            return [_content_item(item) for item in value or ()], False
        case _:
            return value, False


def _content_item(item: Mapping[str, Any]) -> Any:
    match item.get("type"):
        case "text":
            return str(item.get("text") or "")
        case "media" | "file-data" | "image-data":
            media_type = str(item.get("mediaType") or "application/octet-stream")
            return BinaryContent(data=_bytes_from(item.get("data")), media_type=media_type)
        case _:
            return dict(item)


def _response_parts(turn: Mapping[str, Any], system: str) -> Iterator[ModelResponsePart]:
    content = turn.get("content")
    if isinstance(content, str):
        yield TextPart(content=content)
        return
    for part in content or ():
        match part.get("type"):
            case "text":
                facts = _facts(part, system)
                facts.pop("signature", None)
                if part.get("text") or "provider_details" in facts:
                    yield TextPart(content=str(part.get("text") or ""), **facts)
            case "reasoning":
                yield _thinking(part, system)
            case "file":
                media_type = str(part.get("mediaType") or "application/octet-stream")
                data = _bytes_from(part.get("data"))
                yield FilePart(content=BinaryContent(data=data, media_type=media_type))
            case "tool-call" if part.get("providerExecuted"):
                yield NativeToolCallPart(**_call_fields(part), provider_name=system)
            case "tool-call":
                facts = _facts(part, system)
                facts.pop("signature", None)
                yield ToolCallPart(**_call_fields(part), **facts)
            case "tool-result":
                yield NativeToolReturnPart(
                    tool_name=str(part.get("toolName") or ""),
                    content=_output_value(part.get("output"))[0],
                    tool_call_id=str(part.get("toolCallId") or ""),
                    provider_name=system,
                )
            case kind:
                raise ModelError(
                    f"An assistant's turn has no parts of type {kind!r}.", details={"type": kind}
                )


def _thinking(part: Mapping[str, Any], system: str) -> ThinkingPart:
    return ThinkingPart(content=str(part.get("text") or ""), **_facts(part, system))


def _facts(part: Mapping[str, Any], system: str) -> dict[str, Any]:
    return facts_from_options(part.get("providerOptions"), system)


def _call_fields(part: Mapping[str, Any]) -> dict[str, Any]:
    arguments = part.get("input")
    if not isinstance(arguments, str | dict | None):
        arguments = json.dumps(arguments)
    return {
        "tool_name": str(part.get("toolName") or ""),
        "args": arguments,
        "tool_call_id": str(part.get("toolCallId") or ""),
    }
