"""pydantic-ai's stream events as the parts of our answer."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_ai.messages import (
    FilePart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage

from mastra_core.contracts.model import ModelPart

__all__ = ("PartWriter", "finish_part", "metadata_part", "usage_from")

_FINISH_REASONS: Final = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
    "error": "error",
}


@dataclass(slots=True)
class _Open:
    """A part that has started: how it is closed, and under which id it is known."""

    id: str
    part: ModelResponsePart


@dataclass(slots=True)
class PartWriter:
    """Remembers which parts are open, so that every start gets exactly one end."""

    #: The provider's name, for metadata that only it understands.
    system: str
    _open: dict[int, _Open] = field(default_factory=dict)

    def write(self, event: ModelResponseStreamEvent) -> Iterator[ModelPart]:
        """The parts that one event stands for; often none or one."""
        match event:
            case PartStartEvent(index=index, part=part):
                yield from self._close(index)
                yield from self._start(index, part)
            case PartDeltaEvent(index=index, delta=delta):
                yield from self._delta(index, delta)
            case PartEndEvent(index=index, part=part):
                if index in self._open:
                    self._open[index].part = part
                yield from self._close(index)
            case _:
                return

    def close(self, response: ModelResponse) -> Iterator[ModelPart]:
        """End what is still open when the stream is over."""
        for index in sorted(self._open):
            if index < len(response.parts):
                self._open[index].part = response.parts[index]
            yield from self._close(index)

    def _start(self, index: int, part: ModelResponsePart) -> Iterator[ModelPart]:
        match part:
            case TextPart(content=text):
                self._open[index] = _Open(str(index), part)
                yield {"type": "text-start", "id": str(index)}
                if text:
                    yield {"type": "text-delta", "id": str(index), "delta": text}
            case ThinkingPart(content=text):
                self._open[index] = _Open(str(index), part)
                yield {"type": "reasoning-start", "id": str(index)}
                if text:
                    yield {"type": "reasoning-delta", "id": str(index), "delta": text}
            case ToolCallPart(tool_call_id=call_id, tool_name=name):
                self._open[index] = _Open(call_id, part)
                yield {"type": "tool-input-start", "id": call_id, "toolName": name}
                if given := _arguments_text(part.args):
                    yield {"type": "tool-input-delta", "id": call_id, "delta": given}
            case NativeToolCallPart(tool_call_id=call_id):
                self._open[index] = _Open(call_id, part)
            case NativeToolReturnPart():
                yield _native_result(part)
            case FilePart(content=content):
                data = base64.b64encode(content.data).decode("ascii")
                yield {"type": "file", "mediaType": content.media_type, "data": data}
            case _:
                return

    def _delta(self, index: int, delta: object) -> Iterator[ModelPart]:
        opened = self._open.get(index)
        if opened is None:
            return
        match delta:
            case TextPartDelta(content_delta=text) if text:
                yield {"type": "text-delta", "id": opened.id, "delta": text}
            case ThinkingPartDelta(content_delta=text) if text:
                yield {"type": "reasoning-delta", "id": opened.id, "delta": text}
            case ToolCallPartDelta(args_delta=given) if isinstance(opened.part, ToolCallPart):
                if text := _arguments_text(given):
                    yield {"type": "tool-input-delta", "id": opened.id, "delta": text}
            case _:
                return

    def _close(self, index: int) -> Iterator[ModelPart]:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        part = opened.part
        match part:
            case TextPart():
                yield {"type": "text-end", "id": opened.id}
            case ThinkingPart():
                yield {"type": "reasoning-end", "id": opened.id, **self._signature(part)}
            case ToolCallPart():
                yield {"type": "tool-input-end", "id": opened.id}
                yield _call(part, opened.id)
            case NativeToolCallPart():
                yield {**_call(part, opened.id), "providerExecuted": True}
            case _:
                return

    def _signature(self, part: ThinkingPart) -> dict[str, Any]:
        known = {"id": part.id, "signature": part.signature}
        facts = {name: value for name, value in known.items() if value is not None}
        return {"providerMetadata": {self.system: facts}} if facts else {}


def _call(part: ToolCallPart | NativeToolCallPart, call_id: str) -> ModelPart:
    return {
        "type": "tool-call",
        "toolCallId": call_id,
        "toolName": part.tool_name,
        # Left as the model wrote it: whoever validates must see what is wrong with it.
        "input": _arguments_text(part.args) or "{}",
    }


def _native_result(part: NativeToolReturnPart[Any]) -> ModelPart:
    return {
        "type": "tool-result",
        "toolCallId": part.tool_call_id,
        "toolName": part.tool_name,
        "result": part.content,
        "providerExecuted": True,
    }


def _arguments_text(arguments: object) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def usage_from(usage: RequestUsage) -> dict[str, int]:
    """Token counts under our names; what the provider didn't tell is left out."""
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.output_reasoning_tokens:
        counts["reasoningTokens"] = usage.output_reasoning_tokens
    if usage.cache_read_tokens:
        counts["cachedInputTokens"] = usage.cache_read_tokens
    return counts


def finish_part(response: ModelResponse) -> ModelPart:
    """The last part; a reason that the provider didn't give follows from what it sent."""
    called = any(isinstance(part, ToolCallPart) for part in response.parts)
    reason = _FINISH_REASONS.get(response.finish_reason or "")
    if reason is None or (reason == "stop" and called):
        reason = "tool-calls" if called else "stop"
    return {"type": "finish", "finishReason": reason, "usage": usage_from(response.usage)}


def metadata_part(response: ModelResponse) -> ModelPart:
    """Who answered, as far as the provider said."""
    part: ModelPart = {"type": "response-metadata", "timestamp": response.timestamp}
    if response.provider_response_id:
        part["id"] = response.provider_response_id
    if response.model_name:
        part["modelId"] = response.model_name
    return part
