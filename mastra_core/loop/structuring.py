"""End a run with an object (streaming.md 5.7)."""

from __future__ import annotations

import logging
from typing import Any, Final

from mastra_core.contracts.model import ModelRequest
from mastra_core.errors import (
    ConfigError,
    ModelError,
    TripwireError,
    reason_of,
    wire_from_error,
)
from mastra_core.loop.model_step import StepResult
from mastra_core.loop.segment import RunSegment
from mastra_core.streaming.objects import PartialObject, StructuredOutput

__all__ = ("PROCESSOR_ID", "settle_object", "structure_answer")

logger = logging.getLogger(__name__)

#: Under which name the making of an object rejects an answer.
PROCESSOR_ID: Final = "structured-output"
_INSTRUCTIONS: Final = "Put what the text says into the form that is asked for. Add nothing to it."


async def settle_object(segment: RunSegment, result: StepResult) -> None:
    """
    The last step is over: its text is the object.

    A text that doesn't fit fails the run, unless another strategy is chosen; ``segment`` then
    holds the error and the step ends with it.
    """
    wanted = segment.setup.structured
    if wanted is None or wanted.model is not None or result.reason != "stop":
        return
    try:
        said, value = wanted.schema.parse(result.text)
    except ModelError as exc:
        await _misfit(segment, wanted, exc)
        if wanted.error_strategy == "strict":
            segment.object_error = exc
            await segment.show(_chunk(segment, "error", payload={"error": wire_from_error(exc)}))
        return
    await _give(segment, said, value)


async def structure_answer(segment: RunSegment, result: StepResult) -> None:
    """
    Have a second model make the object of the answer.

    Raises:
        TripwireError: It failed, or what it said doesn't fit; the step may be repeated.
    """
    wanted = segment.setup.structured
    if wanted is None or wanted.model is None or result.calls or result.reason != "stop":
        return
    model = wanted.model
    if isinstance(model, str):
        if segment.setup.find_model is None:
            raise ConfigError(f"Model {model!r} can't be looked up here.")
        model = segment.setup.find_model(model)
    request = ModelRequest(
        prompt=[
            {"role": "system", "content": wanted.instructions or _INSTRUCTIONS},
            {"role": "user", "content": [{"type": "text", "text": result.text}]},
        ],
        response_format={"type": "json", "schema": wanted.schema.for_model()},
        abort=segment.interrupt.event,
    )
    partial, texts = PartialObject(wanted.schema), list[str]()

    async def ask() -> None:
        async for part in model.stream(request):
            if part["type"] == "text-delta":
                texts.append(part["delta"])
                if (seen := partial.feed(part["delta"])) is not None:
                    await segment.show(_chunk(segment, "object", object=seen, metadata=_FROM))
            elif part["type"] == "error":
                raise ModelError(f"The structuring model failed: {part.get('error')}")

    async def ask_safely() -> None:
        try:
            await ask()
        except ModelError:
            raise
        except Exception as exc:
            raise ModelError(f"The structuring model failed: {reason_of(exc)}") from exc

    try:
        await segment.interrupt.guard(ask_safely())
        said, value = wanted.schema.parse("".join(texts))
    except ModelError as exc:
        await _misfit(segment, wanted, exc)
        if wanted.error_strategy == "strict":
            raise TripwireError(
                exc.message, processor_id=PROCESSOR_ID, phase="process_output_step", retry=True
            ) from exc
        return
    await _give(segment, said, value, metadata=_FROM)


_FROM: Final = {"from": "structured-output"}


async def _misfit(segment: RunSegment, wanted: StructuredOutput, error: ModelError) -> None:
    match wanted.error_strategy:
        case "warn":
            logger.warning(error.message, extra={"run_id": segment.setup.run_id})
        case "fallback":
            segment.output.used_fallback = True
            value = wanted.fallback_value
            await _give(segment, value, value, metadata={"fallback": True})
        case "strict":
            pass


async def _give(
    segment: RunSegment, said: Any, value: Any, *, metadata: dict[str, Any] | None = None
) -> None:
    segment.output.parsed = value
    members: dict[str, Any] = {"object": said}
    if metadata is not None:
        members["metadata"] = metadata
    await segment.show(_chunk(segment, "object-result", **members))
    message = segment.messages.find(segment.writer.message_id)
    if message is not None:
        message.metadata["structuredOutput"] = said
        message.saved = False


def _chunk(segment: RunSegment, kind: str, **members: Any) -> dict[str, Any]:
    return {"from": "AGENT", "runId": segment.setup.run_id, "type": kind, **members}
