"""The two snapshot documents of a durable agent's parked run (snapshots.md 4).

Durable agents are the TypeScript system's own. Their outer document (``durable-agentic-loop``)
is one loop around the inner one (``durable-agentic-execution``); the conversation stands in the
inputs and outputs of its steps, not in a state of the stream. What we read becomes a
:class:`ParkedRun` as of any other agent. One that waits again here is written back in its own
form, so that its peers go on with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mastra_core.wire.snapshots import DURABLE_INNER_WORKFLOW, SCHEMA_VERSION
from mastra_core.workflows.agent_snapshot import (
    KNOWN_OUTER,
    CallOutcome,
    DurableOrigin,
    ParkedRun,
    outcomes_of,
    results_of,
)

__all__ = ("documents_of_durable", "parked_from_durable")

#: Step ids of the inner workflow, in order.
_INPUT: Final = "map-to-llm-input"
_LLM: Final = "durable-llm-execution"
_MAP: Final = "extract-tool-calls"
_CALLS: Final = "durable-tool-call"
_KIND: Final = "durable-agent"
#: Where the loop stands in the outer graph, and the calls in the inner one.
_LOOP_PLACE: Final = 1
_CALLS_PLACE: Final = 3
#: Members of the outer document that only a claim or an earlier wait explains.
_OF_THE_PAST: Final = frozenset({"resumeClaim", "resumeReceipts", "orphanedResume"})
#: What a peer's input of a step says of the conversation.
_CONVERSATION: Final = ("messageListState", "accumulatedSteps", "iterationCount")


# -- reading ------------------------------------------------------------------------------


def parked_from_durable(
    outer: Mapping[str, Any], inner: Mapping[str, Any] | None, *, agent_id: str
) -> ParkedRun | None:
    """
    Read the documents of a durable agent's suspended run.

    Args:
        outer: The ``durable-agentic-loop`` document.
        inner: The ``durable-agentic-execution`` document.
        agent_id: The owner, already checked.

    Returns:
        The run; None if the documents don't hold what going on with it needs.
    """
    given = _object(_object(outer.get("context")).get("input"))
    execution = _object(_object(outer.get("context")).get(DURABLE_INNER_WORKFLOW))
    payload = _object(execution.get("suspendPayload"))
    context = _object(_object(inner).get("context"))
    answered = _object(_object(context.get(_LLM)).get("output"))
    messages = answered.get("messageListState")
    calls = _calls(context)
    is_whole = isinstance(messages, Mapping) and payload and calls
    if given.get("__workflowKind") != _KIND or not is_whole:
        return None
    assert isinstance(messages, Mapping)
    at = _object(execution.get("payload"))
    info = _object(messages.get("memoryInfo"))
    outcomes = outcomes_of(calls, payload, _object(payload.get("__workflow_meta")), execution)
    run_id = str(outer.get("runId"))
    return ParkedRun(
        run_id=run_id,
        agent_id=agent_id,
        thread_id=info.get("threadId"),
        resource_id=info.get("resourceId"),
        message_id=str(at.get("messageId") or given.get("messageId") or ""),
        iteration=int(_object(execution.get("metadata")).get("iterationCount") or 1),
        step=_step(at, answered),
        calls=calls,
        outcomes=outcomes,
        stream_state=_stream_state(run_id, at, answered, calls, outcomes),
        request_context=dict(_object(outer.get("requestContext"))),
        requires_approval=_object(given.get("options")).get("requireToolApproval") is True,
        receipts=dict(_object(outer.get("resumeReceipts"))),
        tracing_context=dict(_object(outer.get("tracingContext"))),
        extra={name: value for name, value in outer.items() if name not in KNOWN_OUTER},
        origin=DurableOrigin(outer=dict(outer), inner=dict(_object(inner))),
    )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _calls(context: Mapping[str, Any]) -> list[dict[str, Any]]:
    for source in (
        _object(context.get(_MAP)).get("output"),
        _object(context.get(_CALLS)).get("payload"),
    ):
        if isinstance(source, list) and source:
            return [
                dict(call)
                for call in source
                if isinstance(call, Mapping) and call.get("toolCallId") and call.get("toolName")
            ]
    return []


def _step(at: Mapping[str, Any], answered: Mapping[str, Any]) -> dict[str, Any]:
    """What the model had answered, as other runs keep it."""
    told = _object(_object(answered.get("deferredStepFinishChunk")).get("payload"))
    usage = _object(_object(told.get("output")).get("usage"))
    return {
        "messageId": at.get("messageId"),
        "stepResult": dict(_object(answered.get("stepResult"))),
        "metadata": dict(_object(answered.get("metadata"))),
        "output": {
            "text": answered.get("text") or "",
            "toolCalls": list(answered.get("toolCalls") or ()),
            "usage": dict(usage),
        },
    }


def _stream_state(
    run_id: str,
    at: Mapping[str, Any],
    answered: Mapping[str, Any],
    calls: Sequence[Mapping[str, Any]],
    outcomes: Sequence[CallOutcome | None],
) -> dict[str, Any]:
    """The state of the stream, which these runs don't keep, from what they do keep."""
    steps = [_earlier_step(run_id, step) for step in at.get("accumulatedSteps") or ()]
    open_calls = [_chunk(run_id, "tool-call", call) for call in calls]
    results = [
        _chunk(run_id, "tool-result", {**call, "result": outcome.output["result"]})
        for call, outcome in zip(calls, outcomes, strict=True)
        if outcome is not None and "result" in outcome.output
    ]
    return {
        "bufferedSteps": steps,
        "bufferedByStep": {
            "text": answered.get("text") or "",
            "toolCalls": open_calls,
            "toolResults": results,
        },
        "toolCalls": [chunk for step in steps for chunk in step["toolCalls"]] + open_calls,
        "toolResults": [chunk for step in steps for chunk in step["toolResults"]] + results,
        "usageCount": dict(_object(at.get("accumulatedUsage"))),
        "warnings": [],
        "request": {},
        "wasSuspended": True,
        "messageList": dict(_object(answered.get("messageListState"))),
    }


def _earlier_step(run_id: str, step: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "stepType": "initial",
        "text": step.get("text") or "",
        "reasoning": [],
        "sources": [],
        "files": [],
        "toolCalls": [_chunk(run_id, "tool-call", call) for call in step.get("toolCalls") or ()],
        "toolResults": [
            _chunk(run_id, "tool-result", result) for result in step.get("toolResults") or ()
        ],
        "finishReason": step.get("finishReason"),
        "usage": dict(_object(step.get("usage"))),
        "warnings": [],
        "request": {},
        "response": {},
        "isContinued": True,
    }


def _chunk(run_id: str, kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in payload.items() if name != "activeTools"}
    return {"type": kind, "runId": run_id, "from": "AGENT", "payload": shown}


# -- writing ------------------------------------------------------------------------------


def documents_of_durable(
    parked: ParkedRun, *, now_ms: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outer and the inner document of a run that waits again, as its peers wrote them."""
    origin = parked.origin
    assert origin is not None
    # Without the stamp, peers look for an allowlist among the options, and trip over a null.
    stamped = [{"activeTools": None, **call} for call in parked.calls]
    parked = replace(parked, calls=stamped)
    wait = _wait_of(parked, origin)
    written = {
        "status": "suspended",
        "requestContext": parked.request_context,
        "tracingContext": parked.tracing_context,
        "timestamp": now_ms,
    }
    outer = {
        **{name: value for name, value in origin.outer.items() if name not in _OF_THE_PAST},
        **written,
        **_outer_members(parked, origin, wait, now_ms),
        "schemaVersion": SCHEMA_VERSION,
    }
    if parked.receipts:
        outer["resumeReceipts"] = parked.receipts
    return outer, {**origin.inner, **written, **_inner_members(parked, wait, now_ms)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    """What both documents say about the calls that wait."""

    started_at: int
    #: What the first of them waits for.
    payload: dict[str, Any]
    meta: dict[str, Any]
    #: What the iteration began with.
    iteration: dict[str, Any]


def _wait_of(parked: ParkedRun, origin: DurableOrigin) -> _Wait:
    index, head = next(
        (index, outcome)
        for index, outcome in enumerate(parked.outcomes)
        if outcome is not None and outcome.is_parked
    )
    labels = {
        str(call["toolCallId"]): {"stepId": _CALLS, "foreachIndex": place}
        for place, (call, outcome) in enumerate(zip(parked.calls, parked.outcomes, strict=True))
        if outcome is not None and outcome.is_parked
    }
    return _Wait(
        started_at=head.started_at,
        payload=_tool_payload(parked.calls[index], head),
        meta={
            "foreachIndex": index,
            "foreachOutput": results_of(parked, _tool_payload),
            "resumeLabels": labels,
        },
        iteration=_iteration_input(parked, origin),
    )


def _outer_members(
    parked: ParkedRun, origin: DurableOrigin, wait: _Wait, now_ms: int
) -> dict[str, Any]:
    before = origin.outer["context"]
    meta = {**wait.meta, "runId": parked.run_id, "path": [_CALLS]}
    labels = wait.meta["resumeLabels"]
    return {
        "context": {
            **before,
            "input": _with_policy(before["input"], parked),
            DURABLE_INNER_WORKFLOW: {
                "payload": wait.iteration,
                "startedAt": wait.started_at,
                "status": "suspended",
                "metadata": {"iterationCount": parked.iteration},
                "suspendPayload": {**wait.payload, "__workflow_meta": meta},
                "suspendedAt": now_ms,
            },
        },
        "activePaths": [_LOOP_PLACE],
        "suspendedPaths": {DURABLE_INNER_WORKFLOW: [_LOOP_PLACE]},
        "resumeLabels": {label: {"stepId": DURABLE_INNER_WORKFLOW} for label in labels},
    }


def _inner_members(parked: ParkedRun, wait: _Wait, now_ms: int) -> dict[str, Any]:
    over = _steps_before(parked, wait.iteration, wait.started_at, now_ms)
    calls = {
        "payload": parked.calls,
        "startedAt": wait.started_at,
        "suspendedAt": now_ms,
        "status": "suspended",
        "suspendPayload": {**wait.payload, "__workflow_meta": wait.meta},
    }
    return {
        "context": {**over, _CALLS: calls},
        "activePaths": [_CALLS_PLACE],
        "stepExecutionPath": [_INPUT, _LLM, _MAP],
        "suspendedPaths": {_CALLS: [_CALLS_PLACE]},
        "resumeLabels": wait.meta["resumeLabels"],
    }


def _with_policy(given: Mapping[str, Any], parked: ParkedRun) -> dict[str, Any]:
    if not parked.requires_approval:
        return dict(given)
    return {**given, "options": {**_object(given.get("options")), "requireToolApproval": True}}


def _tool_payload(call: Mapping[str, Any], outcome: CallOutcome) -> dict[str, Any]:
    """What a parked call waits for, in the words of these runs (snapshots.md 4.3)."""
    hidden = ("__streamState", "__workflow_meta", "__agentId")
    payload = {k: v for k, v in (outcome.suspend_payload or {}).items() if k not in hidden}
    if not outcome.needs_approval:
        return {"type": "suspension", **payload}
    if payload.get("suspendedToolRunId"):
        return {**payload, "type": "approval"}
    asked = _object(payload.get("requireToolApproval")) or payload
    return {
        "type": "approval",
        "toolCallId": call["toolCallId"],
        "toolName": call["toolName"],
        "args": asked.get("args", call.get("args", {})),
    }


def _iteration_input(parked: ParkedRun, origin: DurableOrigin) -> dict[str, Any]:
    """What the iteration began with."""
    before = _object(_object(origin.outer["context"].get(DURABLE_INNER_WORKFLOW)).get("payload"))
    state = parked.stream_state
    steps = [_short_step(step) for step in state.get("bufferedSteps") or ()]
    reason = steps[-1]["finishReason"] if steps else "undefined"
    return _with_policy(before, parked) | {
        "messageListState": state.get("messageList"),
        "messageId": parked.message_id,
        "iterationCount": parked.iteration - 1,
        "accumulatedSteps": steps,
        "accumulatedUsage": state.get("usageCount"),
        "lastStepResult": {
            "reason": reason,
            "warnings": [],
            "isContinued": True,
            "totalUsage": state.get("usageCount"),
        },
    }


def _short_step(step: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "text": step.get("text") or "",
        "toolCalls": [_object(chunk).get("payload") for chunk in step.get("toolCalls") or ()],
        "toolResults": [_object(chunk).get("payload") for chunk in step.get("toolResults") or ()],
        "usage": step.get("usage") or {},
        "finishReason": step.get("finishReason"),
    }


def _steps_before(
    parked: ParkedRun, iteration: Mapping[str, Any], started: int, now_ms: int
) -> dict[str, Any]:
    """The steps that are over: the model's, and what stands around it."""
    output = _object(parked.step.get("output"))
    step_result = {
        "warnings": [],
        "totalUsage": output.get("usage"),
        **_object(parked.step.get("stepResult")),
        "isContinued": True,
    }
    told = {
        "stepResult": {"reason": step_result.get("reason")},
        "output": {"usage": output.get("usage") or {}},
        "metadata": {},
        "messages": {"all": [], "user": [], "nonUser": []},
        "type": "finish",
    }
    answered = {
        "text": output.get("text") or "",
        "toolCalls": parked.calls,
        "stepResult": step_result,
        "metadata": parked.step.get("metadata") or {},
        "state": iteration.get("state"),
        "deferredStepFinishChunk": {
            "type": "step-finish",
            "runId": parked.run_id,
            "from": "AGENT",
            "payload": told,
        },
    }
    messages = {"messageListState": parked.stream_state.get("messageList")}
    asked = {name: value for name, value in iteration.items() if name not in _CONVERSATION}
    step = {"startedAt": started, "status": "success", "endedAt": now_ms}
    return {
        "input": dict(iteration),
        _INPUT: {
            **step,
            "payload": asked,
            "output": {
                **asked,
                **messages,
                "stepIndex": parked.iteration - 1,
                "accumulatedSteps": iteration["accumulatedSteps"],
            },
        },
        _LLM: {
            **step,
            "payload": {**asked, "stepIndex": parked.iteration - 1},
            "output": {**messages, **answered},
        },
        _MAP: {**step, "payload": answered, "output": parked.calls},
    }
