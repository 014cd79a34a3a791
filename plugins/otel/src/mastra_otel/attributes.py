"""What a span says, in the names of OpenTelemetry.

Every fact is there under ``mastra.`` and its own name; those that the semantic conventions for
generative AI know are there under their names, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mastra_core.base.jsonjs import encode
from mastra_core.base.telemetry import Attribute, SpanKind

__all__ = ("OtelValue", "SpanFacts", "gen_ai_facts")

OtelValue: TypeAlias = str | int | float | bool | Sequence[str]

#: What a kind of span is called by the conventions.
_OPERATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "agent_run": "invoke_agent",
        "model_generation": "chat",
        "tool_call": "execute_tool",
    }
)
#: Members that hold what people and models said.
_CONTENT: Final = frozenset({"input", "output", "instructions"})
#: Kinds whose content may be private; that of a signal is its attributes.
_WITH_CONTENT: Final = frozenset({"agent_run", "model_generation", "tool_call", "model_step"})
#: Our name -> that of the conventions, by kind of span.
_NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "agent_run": MappingProxyType(
            {
                "agentId": "gen_ai.agent.id",
                "agentName": "gen_ai.agent.name",
                "threadId": "gen_ai.conversation.id",
                "usage.inputTokens": "gen_ai.usage.input_tokens",
                "usage.outputTokens": "gen_ai.usage.output_tokens",
            }
        ),
        "model_generation": MappingProxyType(
            {
                "provider": "gen_ai.provider.name",
                "model": "gen_ai.request.model",
                "response.id": "gen_ai.response.id",
                "response.modelId": "gen_ai.response.model",
                "usage.inputTokens": "gen_ai.usage.input_tokens",
                "usage.outputTokens": "gen_ai.usage.output_tokens",
                "parameters.temperature": "gen_ai.request.temperature",
                "parameters.topP": "gen_ai.request.top_p",
                "parameters.topK": "gen_ai.request.top_k",
                "parameters.maxOutputTokens": "gen_ai.request.max_tokens",
                "parameters.seed": "gen_ai.request.seed",
            }
        ),
        "tool_call": MappingProxyType(
            {"toolId": "gen_ai.tool.name", "toolCallId": "gen_ai.tool.call.id"}
        ),
    }
)


class SpanFacts:
    """
    Turns the facts of spans into attributes.

    Args:
        capture_content: Keep what was said.
        max_content_length: Characters of it.
    """

    def __init__(self, *, capture_content: bool, max_content_length: int) -> None:
        self._captures = capture_content
        self._longest = max_content_length

    def of(
        self, kind: SpanKind, attributes: Mapping[str, Attribute] | None
    ) -> dict[str, OtelValue]:
        """The attributes of a span that begins."""
        made: dict[str, OtelValue] = {"mastra.span.kind": kind}
        if kind in _OPERATIONS:
            made["gen_ai.operation.name"] = _OPERATIONS[kind]
        for name, value in (attributes or {}).items():
            made.update(self.one(kind, name, value))
        return made

    def one(self, kind: SpanKind, name: str, value: Attribute) -> dict[str, OtelValue]:
        """What one fact becomes; nothing for content that isn't wanted."""
        if name in _CONTENT and kind in _WITH_CONTENT:
            if not self._captures:
                return {}
            text = value if isinstance(value, str) else encode(value, lenient=True)
            return {f"mastra.{name}": text[: self._longest]}
        made: dict[str, OtelValue] = {}
        for path, flat in _flattened(name, value):
            made[f"mastra.{path}"] = flat
            known = _NAMES.get(kind, {}).get(path)
            if known is not None:
                made[known] = flat
        if kind == "model_generation" and name == "finishReason" and isinstance(value, str):
            made["gen_ai.response.finish_reasons"] = (value,)
        return made


def gen_ai_facts(attributes: Mapping[str, OtelValue]) -> dict[str, OtelValue]:
    """Those that tell requests apart in metrics: few values each."""
    names = (
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.tool.name",
        "gen_ai.agent.id",
        "error.type",
    )
    return {name: attributes[name] for name in names if name in attributes}


def _flattened(path: str, value: Attribute) -> Iterator[tuple[str, OtelValue]]:
    """Members of members under names with dots; lists that aren't of texts as JSON."""
    match value:
        case None:
            return
        case str() | bool() | int() | float():
            yield path, value
        case Mapping():
            for name, part in value.items():
                yield from _flattened(f"{path}.{name}", part)
        case _ if all(isinstance(part, str) for part in value):
            yield path, tuple(value)
        case _:
            yield path, _json(value)


def _json(value: Any) -> str:
    return encode(value, lenient=True)
