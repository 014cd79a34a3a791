"""A language model, provider-neutral (streaming.md 2.2 step 9).

The request carries the provider-neutral prompt: a list of turns ``{role, content}`` where
``role`` is ``system`` (content is text), ``user``, ``assistant`` or ``tool`` (content is a
list of parts). The answer is a stream of plain dictionaries, see :class:`Model`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

__all__ = ("Model", "ModelPart", "ModelRequest", "ToolChoice", "ToolSchema")

#: ``auto``, ``none``, ``required`` or ``{"type": "tool", "toolName": ...}``.
ToolChoice = str | dict[str, Any]
#: One part of a streamed answer.
ModelPart = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema:
    """What the model is told about one tool."""

    name: str
    description: str
    #: JSON schema of the arguments.
    input_schema: Mapping[str, Any]
    strict: bool | None = None
    provider_options: Mapping[str, Any] | None = None
    #: Arguments that would be right, to show the model what is meant.
    input_examples: Sequence[Any] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call of a model."""

    prompt: Sequence[Mapping[str, Any]]
    tools: Sequence[ToolSchema] = ()
    tool_choice: ToolChoice = "auto"
    #: ``{"type": "json", "schema": ..., "name"?}`` for structured output; None for text.
    response_format: Mapping[str, Any] | None = None
    #: ``temperature``, ``maxOutputTokens``, ``topP``, ``stopSequences``, ``seed`` ...
    settings: Mapping[str, Any] = field(default_factory=dict)
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    #: Set when the caller no longer wants the answer.
    abort: asyncio.Event | None = None
    include_raw_chunks: bool = False


@runtime_checkable
class Model(Protocol):
    """A model that can be asked.

    ``stream`` yields dictionaries whose ``type`` is one of: ``stream-start {warnings}``,
    ``response-metadata {id?, timestamp?, modelId?}``, ``text-start {id}``,
    ``text-delta {id, delta}``, ``text-end {id}``, the same three for ``reasoning-``,
    ``tool-input-start {id, toolName}``, ``tool-input-delta {id, delta}``,
    ``tool-input-end {id}``, ``tool-call {toolCallId, toolName, input}`` (input is JSON
    text), ``tool-result`` (provider-executed), ``file {mediaType, data}``,
    ``source {...}``, ``raw {rawValue}``, ``error {error}`` and, last,
    ``finish {finishReason, usage {inputTokens, outputTokens, totalTokens}}``.

    A failed request raises ``ModelError``; cancelling the iterator cancels the request.
    """

    #: Provider name for messages and rows, e.g. ``openai``.
    provider: str
    #: Model name as the provider knows it.
    model_id: str

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]: ...
