"""The ways in which a segment ends: finished, parked, stopped, aborted, failed.

Each stores what must be stored, settles the output and streams the last chunks, in this
order, so that whoever sees an end can rely on storage.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from mastra_core.errors import (
    FencedOutError,
    MastraError,
    ProcessorError,
    RunError,
    StorageError,
    TripwireError,
    reason_of,
    wire_from_error,
)
from mastra_core.loop.model_step import StepResult
from mastra_core.loop.segment import RunSegment
from mastra_core.messages.to_prompt import turns_by_origin
from mastra_core.streaming.output import RunStatus
from mastra_core.streaming.settle import add_usage

__all__ = (
    "end_aborted",
    "end_broken",
    "end_failed",
    "end_finished",
    "end_suspended",
    "end_tripped",
    "flat_model",
    "give_up",
)

logger = logging.getLogger(__name__)

#: Behind one of these a stream says nothing more.
_LAST_CHUNKS: Final = frozenset({"finish", "tripwire"})


async def end_finished(segment: RunSegment) -> None:
    """Nothing is left to do."""
    record = segment.record
    try:
        await _ask_about_result(segment)
    except TripwireError as exc:
        segment.is_ending = True
        await _end_vetoed(segment, exc)
        return
    segment.is_ending = True
    await segment.save()
    segment.output.buffer.is_stored = segment.setup.saver is not None
    await _forget_rows(segment)
    if segment.object_error is not None:
        # The answer was given and is kept; it only isn't what was asked for.
        await segment.notify(segment.setup.callbacks.on_error, {"error": segment.object_error})
        segment.output.settle("failed", finish_reason="error", error=segment.object_error)
    else:
        await _settle(segment, "success", record.finish_reason)
    await _give_title(segment)
    await segment.show(_finish_chunk(segment, segment.last_finish))


async def _give_title(segment: RunSegment) -> None:
    """A title for a thread without one; told before the end if somebody wants to know."""
    title = segment.setup.title
    if title is None:
        return

    def said() -> list[str]:
        return [
            str(part.get("text", ""))
            for message in segment.messages.messages
            if message.role in ("user", "signal")
            for part in message.parts
            if part.get("type") == "text"
        ]

    if not title.is_told:
        title.start(said)
        return
    made = await title.make(said)
    if made is not None:
        data = {"threadId": segment.messages.thread_id, "title": made}
        await segment.show({"type": "data-thread-title", "data": data, "transient": True})


async def _ask_about_result(segment: RunSegment) -> None:
    """The last hooks; what they make of the answer is what everybody gets."""
    record, processors = segment.record, segment.setup.processors
    if processors is None or not processors.has("process_output_result"):
        return
    before = _last_text(segment)
    await segment.guard(
        processors.process_output_result(
            {
                "text": record.all_text,
                "usage": record.usage,
                "finishReason": record.finish_reason,
                "steps": record.steps,
            },
            send_signal=segment.send_signal_in_place,
            **segment.hook_members(),
        )
    )
    after = _last_text(segment)
    if after != before and record.steps:
        record.steps[-1]["text"] = after


def _last_text(segment: RunSegment) -> str:
    """Text of the last step, as the message of the answer has it."""
    texts: list[str] = []
    for message in segment.messages.of_source("response")[-1:]:
        for part in message.parts:
            if part.get("type") == "step-start":
                texts.clear()
            elif part.get("type") == "text":
                texts.append(str(part.get("text", "")))
    return "".join(texts)


async def _end_vetoed(segment: RunSegment, error: TripwireError) -> None:
    """The whole answer was rejected: nobody gets its text, nothing of it is stored."""
    record = segment.record
    record.tripwire = _tripwire_payload(error)
    record.forget_text()
    await _forget_rows(segment)
    await _settle(segment, "tripwire", "other")
    finish = _finish_chunk(segment, segment.last_finish)
    finish["payload"].pop("response", None)
    await segment.show(finish)


async def end_suspended(segment: RunSegment, result: StepResult) -> None:
    """The run waits; its stream closes without ``finish`` (streaming.md 2.8)."""
    segment.is_ending = True
    # What was really used counts (decisions.md 14); the step itself is not over.
    segment.record.usage = add_usage(segment.record.usage, result.usage)
    await _settle(segment, "suspended", "suspended")


async def end_tripped(segment: RunSegment, error: TripwireError) -> None:
    """A processor stopped the run; the rejected text is not stored (decisions.md 1)."""
    segment.is_ending = True
    payload = _tripwire_payload(error)
    if error.phase == "process_output_step" and segment.step is not None:
        # The step was made and used up; it is over before the run is.
        step = segment.step_payload(
            segment.step.result, {"reason": "tripwire", "isContinued": False}
        )
        await segment.show(segment.chunk("step-finish", step))
        segment.record.steps[-1]["tripwire"] = payload
        reason = "tripwire"
    else:
        reason = "other"
    await segment.show(segment.chunk("tripwire", payload))
    await _forget_rows(segment)
    segment.record.tripwire = payload
    await _settle(segment, "tripwire", reason)


def _tripwire_payload(error: TripwireError) -> dict[str, Any]:
    payload: dict[str, Any] = {"reason": error.reason, "processorId": error.processor_id}
    if error.retry:
        payload["retry"] = True
    if error.metadata is not None:
        payload["metadata"] = error.metadata
    return payload


async def end_aborted(segment: RunSegment) -> None:
    """What streamed is kept under the announced id (decisions.md 9, 30)."""
    segment.is_ending = True
    segment.writer.finish_step()
    _mark_open_calls(segment)
    segment.unmark_message()
    await segment.show(segment.chunk("abort", {}))
    record = segment.record
    record.usage = add_usage(record.usage, _usage_of_parked_step(segment))
    await segment.notify(
        segment.setup.callbacks.on_abort, {"steps": record.steps, "text": record.all_text}
    )
    await _save_what_is_there(segment)
    await _forget_rows(segment)
    await _settle(segment, "canceled", "aborted")
    await segment.show(_finish_chunk(segment, _aborted_payload(segment)))


def _aborted_payload(segment: RunSegment) -> dict[str, Any]:
    """Of the ``finish`` of an aborted run."""
    record = segment.record
    return {
        "messageId": segment.writer.message_id,
        "stepResult": {"reason": "abort", "isContinued": False},
        "metadata": segment.step.result.metadata if segment.step is not None else {},
        "output": {
            "text": record.step_text,
            "toolCalls": [call["payload"] for call in record.step_calls],
        },
    }


def _usage_of_parked_step(segment: RunSegment) -> Mapping[str, Any]:
    """What the step had used whose parked calls this segment was to finish, and didn't."""
    if segment.resume is None or segment.last_finish:
        return {}
    usage: Mapping[str, Any] = (segment.resume.parked.step.get("output") or {}).get("usage") or {}
    return usage


async def end_failed(segment: RunSegment, error: BaseException) -> None:
    """The terminal error: recorded, stored, streamed, raised to whoever waits."""
    segment.is_ending = True
    error = _typed(error)
    run_id = segment.setup.run_id
    logger.info("run failed", extra={"run_id": run_id, "error": type(error).__name__})
    wire = wire_from_error(error)
    step = segment.step
    if isinstance(error, ProcessorError):
        await _end_unjudged(segment, error, wire)
        return
    if step is not None and not step.was_answered:
        await segment.show(step.start_chunk())
    segment.writer.finish_step()
    segment.writer.error(str(wire.get("name", "Error")), str(wire.get("message", "")))
    await segment.show(segment.chunk("error", {"type": "error", "error": wire}))
    await segment.notify(segment.setup.callbacks.on_error, {"error": error})
    if not isinstance(error, FencedOutError):
        if not _can_be_answered_again(segment, error):
            segment.unmark_message()
        await _save_what_is_there(segment)
    await _forget_rows(segment, error)
    result = step.result if step is not None else StepResult()
    failed = StepResult(
        text=result.text,
        calls=result.calls,
        metadata={**result.metadata, **flat_model(result.metadata)},
    )
    payload = segment.step_payload(
        failed, {"reason": "error", "warnings": result.warnings, "isContinued": False}
    )
    await segment.show(segment.chunk("step-finish", payload))
    segment.output.settle("failed", finish_reason="error", error=error)
    await segment.show(_finish_chunk(segment, payload))


async def _end_unjudged(
    segment: RunSegment, error: ProcessorError, wire: Mapping[str, Any]
) -> None:
    """A processor failed: what it was to judge is not stored, as if it had been rejected."""
    segment.record.forget_text()
    await segment.show(segment.chunk("error", {"error": dict(wire)}))
    await segment.notify(segment.setup.callbacks.on_error, {"error": error})
    await _forget_rows(segment, error)
    segment.output.settle("failed", finish_reason="error", error=error)


def _typed(error: BaseException) -> MastraError:
    """The error as callers may rely on it; what others raised is its cause."""
    if isinstance(error, MastraError):
        return error
    typed = RunError(f"The run failed with {type(error).__name__}: {reason_of(error)}")
    typed.__cause__ = error
    return typed


async def end_broken(segment: RunSegment, error: Exception) -> None:
    """The end itself failed, of something that nobody could foresee: nobody waits for ever."""
    run_id = segment.setup.run_id
    logger.error("the end of a run failed", exc_info=error, extra={"run_id": run_id})
    failure = _typed(error)
    with suppress(Exception):
        await segment.save()
    with suppress(Exception):
        await _forget_rows(segment, failure)
    output = segment.output
    if output.is_running:
        output.settle("failed", finish_reason="error", error=failure)
    said = {chunk.get("type") for chunk in output.buffer.chunks}
    if said & _LAST_CHUNKS:
        return
    if "error" not in said:
        wire = wire_from_error(failure)
        output.buffer.append(segment.chunk("error", {"type": "error", "error": wire}))
        return
    step = {"reason": "error", "isContinued": False}
    ends = {"messageId": segment.writer.message_id, "stepResult": step, "metadata": {}}
    output.buffer.append(segment.chunk("finish", {**ends, "output": {"usage": {}}}))


async def give_up(segment: RunSegment) -> None:
    """
    The process is going down: what is done is kept, and the stream ends like an aborted one.

    An answer that was cut off is kept only if nobody gives it anew: a resumed run goes back to
    where it waited, and what the inbox holds is answered by whoever has the thread next
    (signals.md G1).
    """
    output = segment.output
    if segment.is_parked:
        # All is stored; whatever was cut short only told so.
        if output.is_running:
            output.settle("suspended", finish_reason="suspended")
        return
    segment.is_ending = True
    segment.writer.finish_step()
    if segment.answer_mark is not None and await _is_given_anew(segment):
        segment.writer.roll_back(segment.answer_mark)
    _mark_open_calls(segment)
    await _save_what_is_there(segment)
    if segment.setup.claim is not None:
        with suppress(StorageError):
            await segment.setup.claim.release()
    if output.is_running:
        await segment.show(segment.chunk("abort", {}))
        await segment.show(_finish_chunk(segment, _aborted_payload(segment)))
        record = segment.record
        await segment.notify(
            segment.setup.callbacks.on_abort, {"steps": record.steps, "text": record.all_text}
        )
        await _settle(segment, "canceled", "aborted")
    elif {chunk.get("type") for chunk in output.buffer.chunks}.isdisjoint(_LAST_CHUNKS):
        await segment.show(_finish_chunk(segment, segment.last_finish))


async def _is_given_anew(segment: RunSegment) -> bool:
    if segment.setup.claim is not None:
        return True
    try:
        return await segment.setup.signals.are_kept()
    except MastraError:
        logger.warning("the inbox can't be read", exc_info=True)
        return False


# -- what the ends have in common ---------------------------------------------------------------


async def _settle(segment: RunSegment, status: RunStatus, reason: str | None) -> None:
    segment.output.settle(status, finish_reason=reason)
    if segment.setup.callbacks.on_finish is not None:
        full = segment.output.full_output()
        full["finishReason"] = reason
        await segment.notify(segment.setup.callbacks.on_finish, full)


def _finish_chunk(segment: RunSegment, payload: Mapping[str, Any]) -> dict[str, Any]:
    """``finish``: like the last ``step-finish``, with the usage of the whole run."""
    usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0, **segment.record.usage}
    output = {**(payload.get("output") or {}), "usage": usage}
    finish = {**payload, "output": output}
    finish["messages"] = turns_by_origin(segment.messages, clock=segment.setup.clock)
    if segment.setup.saver is not None:
        finish["response"] = dict(payload.get("metadata") or {})
    return segment.chunk("finish", finish)


async def _forget_rows(segment: RunSegment, error: BaseException | None = None) -> None:
    """
    Remove the rows of an ended run.

    If storage failed, a resumed run goes back to ``suspended`` instead: its receipts say what
    was done, so that the answer can be given again without doing it twice.
    """
    setup = segment.setup
    if setup.snapshots is None or setup.claim is None:
        return
    if error is not None and _can_be_answered_again(segment, error):
        with suppress(StorageError):
            await setup.claim.release()
    else:
        await setup.snapshots.forget(setup.run_id, claim_id=setup.claim.claim_id)


def _can_be_answered_again(segment: RunSegment, error: BaseException) -> bool:
    """Storage failed while a resumed run was at work: its row goes back to ``suspended``."""
    return segment.setup.claim is not None and isinstance(error, StorageError)


async def _save_what_is_there(segment: RunSegment) -> None:
    """Store messages of a run that ends badly; a second failure must not hide the first."""
    try:
        await segment.save()
    except MastraError:
        logger.exception(
            "messages of an ended run were not stored", extra={"run_id": segment.setup.run_id}
        )


def _mark_open_calls(segment: RunSegment) -> None:
    """Calls without a result will never get one (decisions.md 9)."""
    message = segment.messages.find(segment.writer.message_id)
    if message is None:
        return
    for part in message.parts:
        invocation = part.get("toolInvocation")
        if isinstance(invocation, dict) and invocation.get("state") == "call":
            metadata = part.setdefault("providerMetadata", {})
            metadata["mastra"] = {**metadata.get("mastra", {}), "aborted": True}
            message.saved = False


def flat_model(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Failed steps carry the model's facts beside ``modelMetadata`` too, as peers do."""
    model = metadata.get("modelMetadata") or {}
    facts = ("modelVersion", "modelProvider")
    return {name: model[name] for name in facts if name in model}
