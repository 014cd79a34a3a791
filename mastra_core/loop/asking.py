"""Ask the model, and the next one if it fails (streaming.md 2.2 steps 6-9, 2.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from mastra_core.contracts.model import Model, ModelPart, ModelRequest
from mastra_core.errors import ModelError, ModelTimeoutError
from mastra_core.loop.model_step import ModelStep, StepResult
from mastra_core.loop.segment import RunSegment
from mastra_core.loop.tool_schema import offered_tools
from mastra_core.messages.to_prompt import prompt_from_messages
from mastra_core.processors.arguments import StepPatch

__all__ = ("ask_models", "seconds_of")

logger = logging.getLogger(__name__)

#: Chunks after which other tasks get a turn, if the model never waits.
_BREATH: Final = 64


async def ask_models(segment: RunSegment, patch: StepPatch) -> StepResult:
    """
    The answer of the first model that gives one; a failed attempt leaves no trace.

    Raises:
        ModelError: The last one failed too.
        RunInterrupted: The run was aborted.
    """
    models = segment.setup.models
    for position, model in enumerate(models):
        mark = segment.writer.mark()
        try:
            return await _ask(segment, model, patch)
        except ModelError:
            if position + 1 == len(models):
                raise
            logger.warning("model failed, trying the next", extra={"model": model.model_id})
            segment.writer.roll_back(mark)
            segment.record.discard_step()
    raise AssertionError("an agent has at least one model")


async def _ask(segment: RunSegment, model: Model, patch: StepPatch) -> StepResult:
    setup = segment.setup
    segment.writer.use_model(model.provider, model.model_id)
    step = ModelStep(
        model,
        run_id=setup.run_id,
        writer=segment.writer,
        clock=setup.clock,
        ids=setup.ids,
    )
    segment.step = step
    request = _request(segment, patch)
    await segment.interrupt.guard(_consume(segment, step, model, request))
    result = step.result
    is_empty = result.reason in ("other", "unknown") and not result.has_output
    if result.reason == "error" or is_empty:
        raise ModelError(
            f"Model {model.provider}/{model.model_id} ended with reason "
            f"{result.reason!r} and without an answer.",
            id="AGENT_STREAM_ERROR",
        )
    return result


def _request(segment: RunSegment, patch: StepPatch) -> ModelRequest:
    setup = segment.setup
    prompt = prompt_from_messages(
        segment.messages, clock=setup.clock, user_turn_first=setup.user_turn_first
    )
    if patch.system_messages is not None:
        turns = [turn for turn in prompt if turn["role"] != "system"]
        prompt = [*({**m, "role": "system"} for m in patch.system_messages), *turns]
    return ModelRequest(
        prompt=prompt,
        tools=offered_tools(setup.tools, patch.active_tools),
        tool_choice=patch.tool_choice or "auto",
        response_format=setup.response_format,
        settings={k: v for k, v in (patch.model_settings or {}).items() if k != "timeout"},
        provider_options=setup.provider_options,
        abort=segment.interrupt.event,
    )


async def _consume(
    segment: RunSegment, step: ModelStep, model: Model, request: ModelRequest
) -> None:
    settings = segment.setup.model_settings
    try:
        async with asyncio.timeout(seconds_of(settings, "stepMs")):
            limit = seconds_of(settings, "firstChunkMs")
            count = 0
            # Closed with the step: an answer that is not wanted any more is not read on.
            async with (
                aclosing(_with_first_limit(model, request, limit)) as parts,
                aclosing(step.chunks(parts)) as chunks,
            ):
                async for chunk in chunks:
                    await segment.emit(chunk)
                    count += 1
                    if count % _BREATH == 0:
                        await asyncio.sleep(0)
    except TimeoutError as exc:
        raise ModelTimeoutError(
            f"Model {model.provider}/{model.model_id} didn't answer in time."
        ) from exc


def seconds_of(settings: Mapping[str, Any], name: str) -> float | None:
    """A limit of ``model_settings["timeout"]`` in seconds; None without one."""
    timeout = settings.get("timeout")
    value = timeout.get(name) if isinstance(timeout, Mapping) else None
    return None if value is None else float(value) / 1000


async def _with_first_limit(
    model: Model, request: ModelRequest, seconds: float | None
) -> AsyncGenerator[ModelPart, None]:
    """The parts of the answer; the first must come within ``seconds``."""
    parts = model.stream(request)
    try:
        try:
            async with asyncio.timeout(seconds):
                first = await anext(parts)
        except StopAsyncIteration:
            return
        yield first
        async for part in parts:
            yield part
    finally:
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()
