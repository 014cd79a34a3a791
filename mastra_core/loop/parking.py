"""Waiting for a person: store the run, and go on from what was stored (streaming.md 2.5).

The rows are stored before anybody is told that there is something to answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mastra_core.base.jsonjs import encode, sanitize_copy
from mastra_core.errors import MastraError, WireEncodeError
from mastra_core.loop.delegating import delegated_call
from mastra_core.loop.ending import end_suspended
from mastra_core.loop.model_step import StepCall, StepResult
from mastra_core.loop.segment import PARKED_MARKS, ResumePoint, RunSegment
from mastra_core.loop.tool_step import APPROVAL_SCHEMA_TEXT, Answer, ToolStep
from mastra_core.wire.chunks import Chunk
from mastra_core.workflows.agent_snapshot import CallOutcome, ParkedRun

__all__ = ("park", "restore_tools", "result_of_parked", "resume_tools")

logger = logging.getLogger(__name__)

# -- parking ----------------------------------------------------------------------------------


async def park(segment: RunSegment, tools: ToolStep, result: StepResult) -> None:
    """
    Store the run so that anybody can answer it, then say so on the stream.

    Raises:
        StorageError: It can't be stored; the run fails instead of waiting for an answer that
            nobody could give.
    """
    setup = segment.setup
    segment.is_ending = True
    await _mark_message(segment, tools)
    await segment.save()
    if setup.snapshots is None:
        raise MastraError(
            "The run needs an answer, but the agent has no storage to wait in.",
            id="AGENT_SUSPEND_NO_STORAGE",
        )
    claim_id = setup.claim.claim_id if setup.claim is not None else None
    await setup.snapshots.park(_parked_run(segment, tools, result), claim_id=claim_id)
    segment.is_parked = True
    for call, outcome in tools.parked:
        await segment.show(_announcement(segment, call, outcome))
    await end_suspended(segment, result)


def _parked_run(segment: RunSegment, tools: ToolStep, result: StepResult) -> ParkedRun:
    setup, messages = segment.setup, segment.messages
    parked = ParkedRun(
        run_id=setup.run_id,
        agent_id=setup.agent_id,
        thread_id=messages.thread_id,
        resource_id=messages.resource_id,
        message_id=segment.writer.message_id,
        iteration=segment.iteration,
        step=segment.step_payload(result, {"reason": result.reason, "isContinued": True}),
        calls=[call.to_wire() for call in tools.calls],
        outcomes=list(tools.outcomes),
        stream_state=segment.record.serialize(messages.serialize()),
        request_context=_storable_context(setup.request_context),
        started_at=segment.started_at,
        requires_approval=setup.require_tool_approval is True,
    )
    if segment.resume is not None:
        earlier = segment.resume.parked
        parked.receipts = _kept_receipts(earlier, tools)
        parked.extra = earlier.extra
        parked.origin = earlier.origin
        parked.tracing_context = earlier.tracing_context
    if segment.output.trace is not None:
        parked.tracing_context = {
            "traceId": segment.output.trace.trace_id,
            "spanId": segment.output.trace.span_id,
        }
    return parked


def _kept_receipts(earlier: ParkedRun, tools: ToolStep) -> dict[str, Any]:
    """Receipts of calls that ended in earlier segments stay with the run."""
    parked_ids = {call.tool_call_id for call, _ in tools.parked}
    receipts = {k: v for k, v in earlier.receipts.items() if k not in parked_ids}
    for call, outcome in zip(tools.calls, tools.outcomes, strict=True):
        if outcome is not None and not outcome.is_parked:
            receipts.setdefault(call.tool_call_id, {"finishedAt": outcome.settled_at})
    return receipts


def _storable_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """Members that can't be written are dropped, secrets always (snapshots.md 3.6)."""
    kept: dict[str, Any] = {}
    for name, value in context.items():
        if name in ("mastra__authToken", "mastra__inheritedMemory"):
            continue
        try:
            kept[name] = sanitize_copy(value)
        except WireEncodeError:
            logger.warning("request context member dropped", extra={"member": name})
    return kept


async def _mark_message(segment: RunSegment, tools: ToolStep) -> None:
    """Mirror what is parked in the message that holds the calls (snapshots.md 4.6)."""
    message = segment.messages.response(segment.writer.message_id)
    metadata = message.metadata
    for name in PARKED_MARKS:
        metadata.pop(name, None)
    for call, outcome in tools.parked:
        entry: dict[str, Any] = {
            "toolCallId": call.tool_call_id,
            "toolName": call.tool_name,
            "args": call.args,
            "type": "approval" if outcome.needs_approval else "suspension",
            "runId": segment.setup.run_id,
            **_inner_members(call, outcome),
        }
        if not outcome.needs_approval:
            entry["suspendPayload"] = _own_payload(outcome)
        entry["resumeSchema"] = _resume_schema(segment, call, outcome)
        if segment.payloads:
            await segment.payloads.keep_mark(call, entry)
        name = "pendingToolApprovals" if outcome.needs_approval else "suspendedTools"
        metadata.setdefault(name, {})[call.tool_call_id] = entry
    message.saved = False


def _inner_members(call: StepCall, outcome: CallOutcome) -> dict[str, Any]:
    """Of a call that waits for one of another run: that one, and the outer call beside it."""
    inner = delegated_call(outcome.suspend_payload or {})
    if inner is None:
        return {}
    return {
        "toolName": inner.tool_name or call.tool_name,
        "args": inner.args,
        "delegatedRunId": inner.run_id,
        "parentToolName": call.tool_name,
        "parentArgs": call.args,
    }


def _own_payload(outcome: CallOutcome) -> Any:
    return (outcome.suspend_payload or {}).get("toolCallSuspended")


def _resume_schema(segment: RunSegment, call: StepCall, outcome: CallOutcome) -> str:
    """JSON text of the schema of the answer."""
    if outcome.needs_approval:
        return APPROVAL_SCHEMA_TEXT
    inner = delegated_call(outcome.suspend_payload or {})
    if inner is not None:
        return inner.resume_schema
    tool = segment.step_setup.tools.get(call.tool_name)
    schema = tool.resume_json_schema() if tool is not None else None
    return encode(schema if schema is not None else {})


def _announcement(segment: RunSegment, call: StepCall, outcome: CallOutcome) -> Chunk:
    payload: dict[str, Any] = {"toolCallId": call.tool_call_id, "toolName": call.tool_name}
    kind = "tool-call-approval"
    if not outcome.needs_approval:
        kind = "tool-call-suspended"
        payload["suspendPayload"] = _own_payload(outcome)
    payload["args"] = call.args
    inner = delegated_call(outcome.suspend_payload or {})
    if inner is not None and outcome.needs_approval:
        payload |= {"toolName": inner.tool_name, "args": inner.args}
    payload["resumeSchema"] = _resume_schema(segment, call, outcome)
    return segment.chunk(kind, payload)


# -- going on ---------------------------------------------------------------------------------


async def restore_tools(
    segment: RunSegment, resume: ResumePoint, tools: ToolStep
) -> dict[str, Answer]:
    """Put the parked step back as it was; returns the answers by call."""
    parked = resume.parked
    await _restore_message(segment, parked)
    tools.outcomes = list(parked.outcomes)
    tools.mark_announced(
        [
            str(call["toolCallId"])
            for call, outcome in zip(parked.calls, parked.outcomes, strict=True)
            if outcome is not None and not outcome.is_parked
        ]
    )
    answers = {}
    for tool_call_id, data in resume.answers.items():
        outcome = parked.outcome_of(tool_call_id)
        assert outcome is not None
        tool = segment.step_setup.tools.get(tools.name_of(tool_call_id))
        is_delegated = delegated_call(outcome.suspend_payload or {}) is not None
        answers[tool_call_id] = Answer(
            data=data,
            outcome=outcome,
            is_for_delegate=is_delegated and getattr(tool, "delegates", False),
        )
    return answers


async def _restore_message(segment: RunSegment, parked: ParkedRun) -> None:
    """The message with the open calls, from the snapshot, else from storage."""
    messages, saver = segment.messages, segment.setup.saver
    if messages.find(parked.message_id) is None and saver is not None:
        for message in await saver.load([parked.message_id]):
            restored = messages.response(message.id)
            restored.created_at = message.created_at
            restored.content = dict(message.content)
            restored.saved = True
            messages.sort()
    if messages.find(parked.message_id) is None:
        for call in parked.calls:
            segment.writer.call(call["toolCallId"], call["toolName"], call.get("args", {}))


async def resume_tools(segment: RunSegment, tools: ToolStep, answers: Mapping[str, Answer]) -> None:
    """Reuse results that a receipt already holds (snapshots.md G4), run the rest."""
    assert segment.resume is not None
    receipts = segment.resume.parked.receipts
    remaining = dict(answers)
    for index, call in enumerate(tools.calls):
        receipt = receipts.get(call.tool_call_id) or {}
        if call.tool_call_id in remaining and "finishedAt" in receipt:
            tools.outcomes[index] = _outcome_of_receipt(receipt, call.tool_call_id)
            del remaining[call.tool_call_id]
    await tools.run(remaining)
    if not tools.parked:
        segment.unmark_message()


def result_of_parked(parked: ParkedRun) -> StepResult:
    """What the model had answered when the run was parked."""
    step = parked.step
    output = step.get("output") or {}
    return StepResult(
        reason=str((step.get("stepResult") or {}).get("reason") or "tool-calls"),
        text=str(output.get("text") or ""),
        calls=[
            StepCall(
                tool_call_id=str(call["toolCallId"]),
                tool_name=str(call["toolName"]),
                args=call.get("args", {}),
                provider_metadata=call.get("providerMetadata"),
            )
            for call in parked.calls
        ],
        usage=dict(output.get("usage") or {}),
        metadata=dict(step.get("metadata") or {}),
        has_output=True,
    )


def _outcome_of_receipt(receipt: Mapping[str, Any], tool_call_id: str) -> CallOutcome:
    decision = receipt.get("decision")
    output: dict[str, Any] = {}
    if "error" in receipt:
        output["error"] = receipt["error"]
    else:
        output["result"] = receipt.get("result")
        if isinstance(receipt.get("providerMetadata"), Mapping):
            output["providerMetadata"] = dict(receipt["providerMetadata"])
        if isinstance(decision, Mapping) and decision.get("approved") is True:
            output["approval"] = {"id": tool_call_id, "approved": True}
    return CallOutcome(
        status="success",
        started_at=int(receipt.get("startedAt") or 0),
        settled_at=int(receipt.get("finishedAt") or 0),
        output=output,
    )
