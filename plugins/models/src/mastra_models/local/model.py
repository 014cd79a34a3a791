"""A small real model on the CPU, behind the protocol of all models."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from mastra_core.base.ids import Ids, UuidIds
from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.errors import ModelError, ModelHTTPError, ModelOutputError
from mastra_models.feed import feed
from mastra_models.local.chat import chat_from_prompt
from mastra_models.local.engine import Engine, EngineOptions, usable_cores
from mastra_models.local.grammar import Form, form_of
from mastra_models.weights import find_weights, weights_named

__all__ = (
    "CONTEXT_TOKENS",
    "MAX_OUTPUT_TOKENS",
    "MAX_THREADS",
    "LocalModel",
)

#: Tokens of prompt and answer together; what SmolLM2 was trained for.
CONTEXT_TOKENS: Final = 8_192
#: Longest answer when the caller sets no limit.
MAX_OUTPUT_TOKENS: Final = 512
#: More threads than this make a small model slower.
MAX_THREADS: Final = 4

#: Settings under the names of the OpenAI protocol.
_SETTINGS: Final[Mapping[str, str]] = {
    "maxOutputTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "stopSequences": "stop",
    "seed": "seed",
}
#: What a caller who sets nothing gets: calm, and the same answer every time.
_DEFAULTS: Final[Mapping[str, Any]] = {
    "max_tokens": MAX_OUTPUT_TOKENS,
    "temperature": 0.2,
    "top_p": 0.9,
    "repeat_penalty": 1.1,
    "seed": 7,
}
_OURS: Final = frozenset({"maxRetries", "timeoutMs", "headers", "parallelToolCalls"})
_FINISH_REASONS: Final = {"stop": "stop", "length": "length"}


class LocalModel:
    """
    A GGUF file, run by an engine in a child process that starts at the first question.

    A forced tool call and a structured answer are written under a grammar, so they fit their
    schema. A free choice of tools (``auto``) gives text: a model this small doesn't choose well.

    Args:
        model_path: The weights.
        model_id: What to call the model in rows and messages.
        threads: Threads of the engine; all usable cores but one by default, at most four.
        context_tokens: Tokens of prompt and answer together.
        ids: Makes the ids of tool calls.
    """

    provider = "local"

    def __init__(
        self,
        model_path: Path,
        *,
        model_id: str,
        threads: int | None = None,
        context_tokens: int = CONTEXT_TOKENS,
        ids: Ids | None = None,
    ) -> None:
        self.model_id = model_id
        self._ids = ids or UuidIds()
        self._engine = Engine(
            EngineOptions(
                model_path=model_path,
                context_tokens=context_tokens,
                threads=threads or _default_threads(),
            )
        )

    @classmethod
    def from_name(cls, name: str, *, ids: Ids | None = None) -> LocalModel:
        """
        The model behind ``local/<name>``.

        Raises:
            ModelNotFoundError: There is none of that name.
            WeightsUnavailableError: Its weights weren't pulled yet.
        """
        return cls(find_weights(weights_named(name)), model_id=name, ids=ids)

    async def start(self) -> Mapping[str, Any]:
        """Load the weights now; returns ``address`` and ``key`` of the OpenAI-protocol server."""
        return await self._engine.start()

    async def aclose(self) -> None:
        """End the child process; the next question starts a new one."""
        await self._engine.aclose()

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Ask once; questions that come at the same time are answered one after the other."""
        return feed(self._parts(request), request.abort)

    async def _parts(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        form = form_of(request)
        body = _body(request, form)
        answer = _Answer(self._ids.new("tool-call") if form and form.tools else "0", form)
        is_first = True
        async with aclosing(self._engine.ask(body)) as chunks:
            async for chunk in chunks:
                parts = answer.read(chunk, f"{self.provider}/{self.model_id}")
                if is_first:
                    is_first = False
                    yield {"type": "stream-start", "warnings": _warnings(request)}
                    yield _metadata(chunk, self.model_id)
                for part in parts:
                    yield part
        for part in answer.finish():
            yield part


def _default_threads() -> int:
    # The engine's threads wait for each other at every layer. If other work wants the cores,
    # two threads on two cores were ten times slower than one; on an idle machine hardly faster.
    return max(1, min(usable_cores() - 1, MAX_THREADS))


def _body(request: ModelRequest, form: Form | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        **_DEFAULTS,
        "messages": chat_from_prompt(request.prompt, form),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    for name, value in request.settings.items():
        if value is not None and name in _SETTINGS:
            body[_SETTINGS[name]] = value
    if form is not None:
        schema = {"name": "answer", "schema": form.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _metadata(chunk: Mapping[str, Any], model_id: str) -> ModelPart:
    part: ModelPart = {"type": "response-metadata", "modelId": model_id}
    if "id" in chunk:
        part["id"] = chunk["id"]
    return part


def _warnings(request: ModelRequest) -> list[ModelPart]:
    known = _SETTINGS.keys() | _OURS
    return [
        {"type": "unsupported-setting", "setting": name}
        for name, value in request.settings.items()
        if value is not None and name not in known
    ]


class _Answer:
    """Collects one answer and tells it in parts."""

    def __init__(self, id: str, form: Form | None) -> None:
        self._id = id
        self._form = form
        self._pieces: list[str] = []
        self._reason = "stop"
        self._usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}

    def read(self, chunk: Mapping[str, Any], model: str) -> list[ModelPart]:
        """The parts that one chunk of the engine stands for."""
        if "error" in chunk:
            raise _refused(chunk["error"], model)
        if usage := chunk.get("usage"):
            self._usage = _usage_from(usage)
        parts: list[ModelPart] = []
        for choice in chunk.get("choices") or ():
            if reason := choice.get("finish_reason"):
                self._reason = _FINISH_REASONS.get(reason, "other")
            if piece := choice.get("delta", {}).get("content"):
                parts += self._add(piece)
        return parts

    def _add(self, piece: str) -> list[ModelPart]:
        is_first = not self._pieces
        self._pieces.append(piece)
        if self._form is not None and self._form.names_tool:
            return []  # Which tool it is, is known when the JSON is whole.
        kind = "tool-input" if self._is_call else "text"
        parts = [{"type": f"{kind}-delta", "id": self._id, "delta": piece}]
        return [self._start(), *parts] if is_first else parts

    @property
    def _is_call(self) -> bool:
        return self._form is not None and bool(self._form.tools)

    def _start(self) -> ModelPart:
        if self._form is not None and self._form.tools:
            name = self._form.tools[0].name
            return {"type": "tool-input-start", "id": self._id, "toolName": name}
        return {"type": "text-start", "id": self._id}

    def finish(self) -> list[ModelPart]:
        """End what is open, and say how it went."""
        text = "".join(self._pieces)
        parts: list[ModelPart] = []
        if self._form is not None and self._form.tools:
            parts += self._call(text, self._form)
            self._reason = "tool-calls"
        elif self._pieces:
            parts.append({"type": "text-end", "id": self._id})
        return [*parts, {"type": "finish", "finishReason": self._reason, "usage": self._usage}]

    def _call(self, text: str, form: Form) -> list[ModelPart]:
        value = _parsed(text)
        name, arguments = form.tools[0].name, text
        parts: list[ModelPart] = []
        if form.names_tool:
            name, arguments = value["tool"], json.dumps(value["arguments"])
            parts.append({"type": "tool-input-start", "id": self._id, "toolName": name})
            parts.append({"type": "tool-input-delta", "id": self._id, "delta": arguments})
        parts.append({"type": "tool-input-end", "id": self._id})
        call = {"toolCallId": self._id, "toolName": name, "input": arguments}
        return [*parts, {"type": "tool-call", **call}]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise ModelOutputError(
            f"The arguments of the tool call were cut off after {len(text)} characters.",
            hint="Raise maxOutputTokens, or bound the strings of the tool's schema.",
        ) from exc


def _usage_from(usage: Mapping[str, Any]) -> dict[str, int]:
    counts = {
        "inputTokens": int(usage.get("prompt_tokens") or 0),
        "outputTokens": int(usage.get("completion_tokens") or 0),
        "totalTokens": int(usage.get("total_tokens") or 0),
    }
    if cached := (usage.get("prompt_tokens_details") or {}).get("cached_tokens"):
        counts["cachedInputTokens"] = int(cached)
    return counts


def _refused(error: Mapping[str, Any], model: str) -> ModelError:
    status, reason = int(error.get("code") or 500), error.get("message")
    return ModelHTTPError(
        f"Model {model!r} refused the request: {reason}",
        status=status,
        model=model,
        hint="Shorten the prompt, or show the model fewer messages."
        if error.get("type") == "exceed_context_size_error"
        else None,
    )
