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
from mastra_models.pydantic_ai.metadata import metadata_of

__all__ = ("PartWriter", "finish_part", "metadata_part", "usage_from", "was_cut")

_FINISH_REASONS: Final = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
    "error": "error",
}
#: Details that are members of other parts.
_TOLD: Final = frozenset({"finish_reason", "timestamp"})


@dataclass(slots=True)
class _Open:
    """A part that has started: how it is closed, and under which id it is known."""

    id: str
    part: ModelResponsePart
    #: Metadata that the listener has already.
    told: ModelPart = field(default_factory=dict)


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
                known = metadata_of(part, self.system)
                self._open[index] = _Open(str(index), part, told=known)
                yield {"type": "text-start", "id": str(index), **known}
                if text:
                    yield {"type": "text-delta", "id": str(index), "delta": text, **known}
            case ThinkingPart(content=text):
                known = metadata_of(part, self.system)
                self._open[index] = _Open(str(index), part)
                yield {"type": "reasoning-start", "id": str(index), **known}
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
                yield from self._end("text", opened, metadata_of(part, self.system))
            case ThinkingPart():
                yield from self._end("reasoning", opened, metadata_of(part, self.system))
            case ToolCallPart():
                known = metadata_of(part, self.system)
                yield {"type": "tool-input-end", "id": opened.id, **known}
                yield {**_call(part, opened.id), **known}
            case NativeToolCallPart():
                yield {**_call(part, opened.id), "providerExecuted": True}
            case _:
                return

    @staticmethod
    def _end(kind: str, opened: _Open, known: ModelPart) -> Iterator[ModelPart]:
        """The end of a block; metadata that came late is told with a last, empty piece of it."""
        if known and known != opened.told:
            yield {"type": f"{kind}-delta", "id": opened.id, "delta": "", **known}
        yield {"type": f"{kind}-end", "id": opened.id, **known}


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
    further = {
        "reasoningTokens": usage.output_reasoning_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
        "cacheCreationInputTokens": usage.cache_write_tokens,
    }
    return counts | {name: count for name, count in further.items() if count}


def was_cut(response: ModelResponse) -> bool:
    """
    Did the provider's stream end without its end?

    Providers say why they stop. Where one doesn't, pydantic-ai fills in a reason; a whole
    answer then still ends with its usage. The models of pydantic-ai that nobody hosts say
    neither, and have no address.
    """
    if response.state == "incomplete":
        return True
    if response.provider_url is None or (response.provider_details or {}).get("finish_reason"):
        return False
    reason = response.finish_reason
    return reason is None or (reason == "stop" and not response.usage.has_values())


def finish_part(response: ModelResponse, system: str) -> ModelPart:
    """The last part; a reason that the provider didn't give follows from what it sent."""
    called = any(isinstance(part, ToolCallPart) for part in response.parts)
    details = response.provider_details or {}
    reason = _FINISH_REASONS.get(response.finish_reason or "")
    if reason is None and details.get("finish_reason") is not None:
        reason = "other"
    if reason is None or (reason in ("stop", "other") and called):
        reason = "tool-calls" if called else "stop"
    part: ModelPart = {
        "type": "finish",
        "finishReason": reason,
        "usage": usage_from(response.usage),
    }
    if further := {name: value for name, value in details.items() if name not in _TOLD}:
        part["providerMetadata"] = {system: further}
    return part


def metadata_part(response: ModelResponse) -> ModelPart:
    """Who answered, as far as the provider said."""
    told_at = (response.provider_details or {}).get("timestamp", response.timestamp)
    part: ModelPart = {"type": "response-metadata", "timestamp": told_at}
    if response.provider_response_id:
        part["id"] = response.provider_response_id
    if response.model_name:
        part["modelId"] = response.model_name
    return part
