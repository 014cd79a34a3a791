"""Ask the model, and the next one if it fails (streaming.md 2.2 steps 6-9, 2.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, cast

from mastra_core.base.jsonjs import encode
from mastra_core.base.telemetry import Span
from mastra_core.contracts.model import Model, ModelPart, ModelRequest
from mastra_core.errors import ModelError, ModelTimeoutError
from mastra_core.loop.interrupt import RequestAttempt, RequestPreempted, RunInterrupted
from mastra_core.loop.model_step import ModelStep, StepResult
from mastra_core.loop.repeating import RepeatStep, may_repeat
from mastra_core.loop.segment import RunSegment
from mastra_core.loop.tool_body import InputObservers
from mastra_core.loop.tool_schema import offered_tools
from mastra_core.messages.to_prompt import prompt_from_messages
from mastra_core.processors.arguments import StepPatch
from mastra_core.streaming.objects import PartialObject, StructuredOutput
from mastra_core.wire.chunks import Chunk

__all__ = ("ask_models", "seconds_of")

logger = logging.getLogger(__name__)

#: Chunks after which other tasks get a turn, if the model never waits.
_BREATH: Final = 64
#: With one of these an answer has begun (signals.md 10); what a model only thinks is none yet.
_CONTENT: Final = frozenset(
    {
        *("text-start", "text-delta", "text-end"),
        *("tool-call-input-streaming-start", "tool-call-input-streaming-end", "tool-call-delta"),
        *("tool-call", "tool-result", "tool-error"),
        *("object", "object-result", "file", "source"),
    }
)
#: Chunks of a model that only processors see; the run has its own.
_FOR_PROCESSORS: Final = frozenset({"response-metadata", "finish"})


async def ask_models(segment: RunSegment, patch: StepPatch) -> StepResult:
    """
    The answer of the first model that gives one; a failed attempt leaves no trace.

    Raises:
        ModelError: The last one failed too.
        RepeatStep: An error processor wants the request repeated.
        TripwireError: A processor stopped the run, or wants the step repeated.
        RunInterrupted: The run was aborted.
    """
    models = segment.setup.models
    if patch.model is not None and patch.model is not models[0]:
        models = [cast(Model, patch.model)]
    first, segment.first_model = min(segment.first_model, len(models) - 1), 0
    for position in range(first, len(models)):
        model = models[position]
        mark = segment.writer.mark()
        try:
            return await _ask(segment, model, patch)
        except RequestPreempted:
            segment.first_model = position
            raise
        except ModelError as exc:
            if segment.attempt.is_preempted:
                # Neither another model nor a processor has a say: the request isn't wanted.
                segment.first_model = position
                raise RequestPreempted from exc
            await _ask_error_processors(segment, exc, position)
            if position + 1 == len(models):
                raise
            logger.warning("model failed, trying the next", extra={"model": model.model_id})
            segment.writer.roll_back(mark)
            segment.record.discard_step()
    raise AssertionError("an agent has at least one model")


async def _ask_error_processors(segment: RunSegment, error: ModelError, position: int) -> None:
    processors = segment.setup.processors
    if processors is None or not processors.has("process_api_error"):
        return
    wants_another = await segment.guard(
        processors.process_api_error(
            error, send_signal=segment.send_signal, **segment.hook_members()
        )
    )
    if not wants_another:
        return
    if may_repeat(segment):
        raise RepeatStep(error, position=position)


async def _ask(segment: RunSegment, model: Model, patch: StepPatch) -> StepResult:
    setup, processors = segment.setup, segment.setup.processors
    segment.writer.use_model(model.provider, model.model_id)
    step = ModelStep(
        model,
        run_id=setup.run_id,
        writer=segment.writer,
        clock=setup.clock,
        ids=setup.ids,
        tells_all=processors is not None and processors.has_stream_hooks,
        titles={
            name: title
            for name, tool in segment.step_setup.tools.items()
            if (title := getattr(tool, "title", None))
        },
    )
    segment.step = step
    wanted = setup.structured
    segment.partial = (
        PartialObject(wanted.schema) if wanted is not None and wanted.model is None else None
    )
    request = _request(segment, patch)
    chunks: list[Chunk] | None = None
    response: Mapping[str, Any] | None = None
    if processors is not None:
        if processors.has("process_llm_request"):
            answer = await segment.guard(
                processors.process_llm_request(
                    [dict(turn) for turn in request.prompt], model=model, **segment.hook_members()
                )
            )
            request, response = replace(request, prompt=answer.prompt), answer.response
        if processors.has("process_llm_response"):
            chunks = []
    segment.attempt.check()
    if response is None:
        await _ask_measured(segment, step, model, request, chunks)
    else:
        await _replay(segment, step, response, chunks)
    result = step.result
    _check_answer(step, model)
    if processors is not None and chunks is not None:
        await segment.guard(
            processors.process_llm_response(
                model=model,
                chunks=[{"type": c["type"], "payload": c.get("payload")} for c in chunks],
                from_cache=response is not None,
                warnings=result.warnings,
                usage=result.usage,
                **segment.hook_members(),
            )
        )
    return result


async def _ask_measured(
    segment: RunSegment,
    step: ModelStep,
    model: Model,
    request: ModelRequest,
    chunks: list[Chunk] | None,
) -> None:
    """One request to a model, measured; an answer that is none is its failure."""
    setup, result = segment.setup, step.result
    facts = {
        "model": model.model_id,
        "provider": model.provider,
        "runId": setup.run_id,
        "agentId": setup.agent_id,
    }
    with setup.tracer.span(f"llm: '{model.model_id}'", facts, kind="model_generation") as span:
        if span.is_recording:
            span.set_attribute("input", request.prompt)
            span.set_attribute("parameters", request.settings)
        await segment.interrupt.guard(_consume(segment, step, model, request, chunks))
        if span.is_recording:
            _note_answer(span, result)
        _check_answer(step, model)


def _note_answer(span: Span, result: StepResult) -> None:
    span.set_attribute("finishReason", result.reason)
    for name in ("id", "modelId"):
        if result.metadata.get(name) is not None:
            span.set_attribute(f"response.{name}", result.metadata[name])
    for name, count in result.usage.items():
        if isinstance(count, int):
            span.set_attribute(f"usage.{name}", count)
    span.set_attribute(
        "output", {"text": result.text, "toolCalls": [call.to_wire() for call in result.calls]}
    )


def _check_answer(step: ModelStep, model: Model) -> None:
    result = step.result
    is_empty = result.reason in ("other", "unknown") and not result.has_output
    if result.reason == "error" or is_empty:
        raise ModelError(
            f"Model {model.provider}/{model.model_id} ended with reason "
            f"{result.reason!r} and without an answer.",
            id="AGENT_STREAM_ERROR",
        )


async def _show_partial(segment: RunSegment, partial: PartialObject, chunk: Chunk) -> None:
    """What can be seen of the object with this piece of its text."""
    seen = partial.feed(chunk["payload"]["text"])
    if seen is not None:
        await segment.show(
            {"from": "AGENT", "runId": segment.setup.run_id, "type": "object", "object": seen}
        )


async def _replay(
    segment: RunSegment,
    step: ModelStep,
    response: Mapping[str, Any],
    chunks: list[Chunk] | None,
) -> None:
    """An answer that a processor gave; it doesn't pass those that look at the stream."""
    step.result.warnings = list(response.get("warnings") or ())
    step.is_replay = True
    for chunk in step.replay(response.get("chunks") or ()):
        segment.attempt.check()
        if chunk["type"] in _CONTENT:
            segment.attempt.accept()
        if chunks is not None:
            chunks.append(chunk)
        await segment.show(chunk)


def _request(segment: RunSegment, patch: StepPatch) -> ModelRequest:
    setup = segment.setup
    prompt = prompt_from_messages(
        segment.messages, clock=setup.clock, user_turn_first=setup.user_turn_first
    )
    if setup.structured is not None and setup.structured.json_prompt_injection:
        prompt = _with_schema(prompt, setup.structured)
    tools = offered_tools(
        segment.step_setup.tools,
        segment.step_setup.active_tools,
        setup.background,
        setup.suspended,
    )
    if setup.suspended is not None and (words := setup.suspended.instruction()):
        prompt = _with_instruction(prompt, words)
    if setup.background is not None:
        instruction = setup.background.instruction(tool.name for tool in tools)
        if instruction is not None:
            prompt = _with_instruction(prompt, instruction)
    return ModelRequest(
        prompt=prompt,
        tools=tools,
        tool_choice=patch.tool_choice or "auto",
        response_format=setup.structured.response_format if setup.structured else None,
        settings={k: v for k, v in (patch.model_settings or {}).items() if k != "timeout"},
        provider_options=patch.provider_options or {},
        abort=segment.attempt.abort,
        include_raw_chunks=setup.include_raw_chunks,
    )


def _with_instruction(prompt: list[dict[str, Any]], words: str) -> list[dict[str, Any]]:
    """The words at the end of the first system message (streaming.md 2.2, step 7)."""
    first = prompt[0] if prompt else None
    if first is None or first["role"] != "system" or not isinstance(first.get("content"), str):
        return [{"role": "system", "content": words}, *prompt]
    content = f"{first['content']}\n\n{words}" if first["content"] else words
    return [{**first, "content": content}, *prompt[1:]]


def _with_schema(prompt: list[dict[str, Any]], wanted: StructuredOutput) -> list[dict[str, Any]]:
    """The schema in words, for models that can't be given one."""
    schema = encode(wanted.schema.for_model())
    words = f"Answer with one JSON value and nothing else. It has to fit this JSON schema: {schema}"
    if wanted.json_prompt_injection == "inline":
        return [*prompt, {"role": "user", "content": [{"type": "text", "text": words}]}]
    systems = [turn for turn in prompt if turn["role"] == "system"]
    return [*systems, {"role": "system", "content": words}, *prompt[len(systems) :]]


async def _consume(
    segment: RunSegment,
    step: ModelStep,
    model: Model,
    request: ModelRequest,
    said: list[Chunk] | None,
) -> None:
    settings, attempt = segment.setup.model_settings, segment.attempt
    try:
        async with asyncio.timeout(seconds_of(settings, "stepMs")):
            limit = seconds_of(settings, "firstChunkMs")
            count = 0
            observers = InputObservers(segment.step_setup.tools)
            # Closed with the step: an answer that is not wanted any more is not read on.
            async with (
                aclosing(_with_first_limit(model, request, limit, attempt)) as parts,
                aclosing(step.chunks(parts)) as chunks,
            ):
                async for chunk in chunks:
                    if segment.interrupt.is_aborted:
                        # Whoever swallowed the cancellation is not read on.
                        raise RunInterrupted
                    if attempt.is_open and chunk["type"] in _CONTENT:
                        attempt.accept()
                    if chunk["type"] == "raw" and not request.include_raw_chunks:
                        continue
                    if said is not None:
                        said.append(chunk)
                    for passed in await segment.passed(chunk):
                        step.record(passed)
                        if observers:
                            await observers.see(passed)
                        if passed["type"] in _FOR_PROCESSORS:
                            continue
                        if passed["type"] == "text-delta" and segment.partial is not None:
                            await _show_partial(segment, segment.partial, passed)
                        await segment.show(passed)
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
    model: Model, request: ModelRequest, seconds: float | None, attempt: RequestAttempt
) -> AsyncGenerator[ModelPart, None]:
    """The parts of the answer; the first must come within ``seconds``."""
    parts = model.stream(request)
    try:
        try:
            async with asyncio.timeout(seconds):
                first = await attempt.next_of(parts)
        except StopAsyncIteration:
            return
        yield first
        while attempt.is_open:
            try:
                part = await attempt.next_of(parts)
            except StopAsyncIteration:
                return
            yield part
        async for part in parts:
            yield part
    finally:
        if isinstance(parts, AsyncGenerator):
            try:
                await parts.aclose()
            except Exception:
                # It must not hide why the answer ended.
                logger.warning("an answer could not be closed", exc_info=True)
