"""The two snapshot documents of a parked agent run, written and read (snapshots.md 3, 4).

The outer document (``agentic-loop``) is one loop around the inner one
(``executionWorkflow``), whose foreach over tool calls is what is parked. A Node process reads
what we write and we read what it wrote; members that we don't know stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from mastra_core.base.jsonjs import decode
from mastra_core.errors import WireDecodeError, WireVersionError
from mastra_core.wire.snapshots import SCHEMA_VERSION

__all__ = (
    "KNOWN_OUTER",
    "CallOutcome",
    "DurableOrigin",
    "ParkedRun",
    "check_version",
    "documents_of",
    "outcomes_of",
    "parked_from_documents",
    "results_of",
)

#: Step ids of the inner workflow, in order.
_LLM: Final = "llm-execution"
_MAP: Final = "map-tool-calls"
_CALLS: Final = "toolCallStep"
_EXECUTION: Final = "executionWorkflow"
#: Where peers keep the approval policy of a whole run, in its request context.
_APPROVAL_KEY: Final = "__mastra_requireToolApproval"

_INNER_GRAPH: Final = [
    {"type": "step", "step": {"id": _LLM, "canSuspend": False}},
    {"type": "mapping", "id": _MAP, "mapConfig": "mastra_core.loop.tool_step"},
    {
        "type": "foreach",
        "step": {"type": "step", "step": {"id": _CALLS, "canSuspend": False}},
        "opts": {"concurrency": 1},
    },
    *(
        {"type": "step", "step": {"id": step_id, "canSuspend": False}}
        for step_id in (
            "llmExecutionMappingStep",
            "backgroundTaskCheckStep",
            "signalDrainStep",
            "isTaskCompleteStep",
            "goalStep",
        )
    ),
]
_OUTER_GRAPH: Final = [
    {
        "type": "loop",
        "step": {
            "type": "workflow",
            "id": _EXECUTION,
            "workflowId": _EXECUTION,
            "serializedStepFlow": _INNER_GRAPH,
        },
        "serializedCondition": {
            "id": f"{_EXECUTION}-condition",
            "fn": "mastra_core.loop.continue_rule",
        },
        "loopType": "dowhile",
    }
]


@dataclass(slots=True, kw_only=True)
class CallOutcome:
    """What became of one tool call of the parked step."""

    status: str
    started_at: int
    #: When it ended or was parked, epoch milliseconds.
    settled_at: int
    #: ``{result}``, ``{error}`` or ``{approval}`` of an ended call.
    output: dict[str, Any] = field(default_factory=dict)
    #: What a parked call waits for, without the stream state.
    suspend_payload: dict[str, Any] | None = None

    @property
    def is_parked(self) -> bool:
        """Does the call still wait for an answer?"""
        return self.status == "suspended"

    @property
    def needs_approval(self) -> bool:
        """Is the answer a decision (True) or data (False)?"""
        payload = self.suspend_payload or {}
        return bool(payload.get("requireToolApproval")) or payload.get("type") == "approval"


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableOrigin:
    """The documents of a durable agent's run as they were read: it is written back in their form."""

    outer: dict[str, Any]
    inner: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ParkedRun:
    """Everything that a run needs to go on in another process."""

    run_id: str
    agent_id: str
    thread_id: str | None
    resource_id: str | None
    #: Id of the assistant message that holds the parked calls.
    message_id: str
    iteration: int
    #: ``{messageId, stepResult, metadata, output}`` of the model step.
    step: dict[str, Any]
    #: ``{toolCallId, toolName, args}`` in the order of the model.
    calls: list[dict[str, Any]]
    #: One per call; None for a call that wasn't started.
    outcomes: list[CallOutcome | None]
    stream_state: dict[str, Any]
    request_context: dict[str, Any]
    #: When the run began; None if it was parked before (then its rows know).
    started_at: datetime | None = None
    #: Every call of the run needs an approval, whatever its tool says.
    requires_approval: bool = False
    #: ``resumeReceipts`` of the outer document (snapshots.md G4).
    receipts: dict[str, Any] = field(default_factory=dict)
    tracing_context: dict[str, Any] = field(default_factory=dict)
    #: Members of the outer document that we don't know.
    extra: dict[str, Any] = field(default_factory=dict)
    #: Where it comes from, if a durable agent of the TypeScript system parked it.
    origin: DurableOrigin | None = None

    def parked_ids(self) -> list[str]:
        """Ids of the calls that wait, in order."""
        return [
            str(call["toolCallId"])
            for call, outcome in zip(self.calls, self.outcomes, strict=True)
            if outcome is not None and outcome.is_parked
        ]

    def outcome_of(self, tool_call_id: str) -> CallOutcome | None:
        """What became of a call; None if it isn't one of this step or wasn't started."""
        for call, outcome in zip(self.calls, self.outcomes, strict=True):
            if call["toolCallId"] == tool_call_id:
                return outcome
        return None

    def name_of(self, tool_call_id: str) -> str:
        """The tool of a call; empty if it isn't one of this step."""
        found = [str(c["toolName"]) for c in self.calls if c["toolCallId"] == tool_call_id]
        return found[-1] if found else ""

    def told_schema(self, tool_call_id: str) -> Mapping[str, Any] | None:
        """The schema of the answer to a suspended call, as its message says it; None if not."""
        state = self.stream_state.get("messageList") or {}
        for message in reversed(state.get("messages") or ()):
            marks = ((message.get("content") or {}).get("metadata") or {}).get("suspendedTools")
            mark = marks.get(tool_call_id) if isinstance(marks, Mapping) else None
            told = mark.get("resumeSchema") if isinstance(mark, Mapping) else None
            if isinstance(told, str):
                with suppress(WireDecodeError):
                    schema = decode(told)
                    return schema if isinstance(schema, Mapping) else None
        return None


# -- writing ------------------------------------------------------------------------------


def documents_of(parked: ParkedRun, *, now_ms: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outer and the inner document, ready to be persisted in one transaction."""
    first = next(
        index
        for index, outcome in enumerate(parked.outcomes)
        if outcome is not None and outcome.is_parked
    )
    head_outcome = parked.outcomes[first]
    assert head_outcome is not None
    labels = {
        str(call["toolCallId"]): {"stepId": _CALLS, "foreachIndex": index}
        for index, (call, outcome) in enumerate(zip(parked.calls, parked.outcomes, strict=True))
        if outcome is not None and outcome.is_parked
    }
    payload = {
        **_tool_payload(head_outcome),
        "__streamState": parked.stream_state,
        "__agentId": parked.agent_id,
    }
    head = _ParkedHead(
        index=first,
        started_at=head_outcome.started_at,
        payload=payload,
        labels=labels,
        loop_input=_loop_input(parked),
        now_ms=now_ms,
    )
    return _outer_document(parked, head), _inner_document(parked, head)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParkedHead:
    """What both documents say about the first parked call."""

    index: int
    started_at: int
    payload: dict[str, Any]
    labels: dict[str, Any]
    loop_input: dict[str, Any]
    now_ms: int


def _tool_payload(outcome: CallOutcome) -> dict[str, Any]:
    hidden = ("__streamState", "__workflow_meta", "__agentId")
    return {k: v for k, v in (outcome.suspend_payload or {}).items() if k not in hidden}


def _loop_input(parked: ParkedRun) -> dict[str, Any]:
    usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    return {
        "messageId": parked.message_id,
        "output": {"steps": [], "usage": usage},
        "metadata": {},
        "stepResult": {
            "reason": "undefined",
            "warnings": [],
            "isContinued": True,
            "totalUsage": usage,
        },
    }


def _foreach_output(parked: ParkedRun, *, with_state: bool) -> list[dict[str, Any] | None]:
    def asked(_: Mapping[str, Any], outcome: CallOutcome) -> dict[str, Any]:
        payload = {**_tool_payload(outcome), "__agentId": parked.agent_id}
        if with_state:
            payload["__streamState"] = parked.stream_state
        return payload

    return results_of(parked, asked)


def results_of(
    parked: ParkedRun, asked: Callable[[Mapping[str, Any], CallOutcome], dict[str, Any]]
) -> list[dict[str, Any] | None]:
    """
    Results per call; trailing calls that weren't started are left out.

    Args:
        parked: The run.
        asked: What a call that waits asks for, as its kind of run writes it.
    """
    entries: list[dict[str, Any] | None] = []
    for call, outcome in zip(parked.calls, parked.outcomes, strict=True):
        if outcome is None:
            entries.append(None)
            continue
        entry: dict[str, Any] = {
            "payload": call,
            "startedAt": outcome.started_at,
            "status": outcome.status,
        }
        if outcome.is_parked:
            entry["suspendPayload"] = asked(call, outcome)
            entry["suspendedAt"] = outcome.settled_at
        else:
            entry["output"] = {**call, **outcome.output}
            entry["endedAt"] = outcome.settled_at
        entries.append(entry)
    while entries and entries[-1] is None:
        entries.pop()
    return entries


def _base(parked: ParkedRun, now_ms: int) -> dict[str, Any]:
    return {
        "runId": parked.run_id,
        "status": "suspended",
        "value": {},
        "activeStepsPath": {},
        "waitingPaths": {},
        "requestContext": {**parked.request_context, **_run_policy(parked)},
        "timestamp": now_ms,
        "tracingContext": parked.tracing_context,
        "schemaVersion": SCHEMA_VERSION,
    }


def _run_policy(parked: ParkedRun) -> dict[str, Any]:
    return {_APPROVAL_KEY: True} if parked.requires_approval else {}


def _outer_document(parked: ParkedRun, head: _ParkedHead) -> dict[str, Any]:
    meta = {
        "foreachIndex": head.index,
        "foreachOutput": _foreach_output(parked, with_state=False),
        "resumeLabels": head.labels,
        "runId": parked.run_id,
        "path": [_CALLS],
    }
    document = {
        **parked.extra,
        **_base(parked, head.now_ms),
        "context": {
            "input": head.loop_input,
            _EXECUTION: {
                "payload": head.loop_input,
                "startedAt": head.started_at,
                "status": "suspended",
                "metadata": {"iterationCount": parked.iteration},
                "suspendPayload": {**head.payload, "__workflow_meta": meta},
                "suspendedAt": head.now_ms,
            },
        },
        "activePaths": [0],
        "stepExecutionPath": [],
        "serializedStepGraph": _OUTER_GRAPH,
        "suspendedPaths": {_EXECUTION: [0]},
        "resumeLabels": {label: {"stepId": _EXECUTION} for label in head.labels},
    }
    if parked.receipts:
        document["resumeReceipts"] = parked.receipts
    return document


def _inner_document(parked: ParkedRun, head: _ParkedHead) -> dict[str, Any]:
    started = head.started_at
    meta = {
        "foreachIndex": head.index,
        "foreachOutput": _foreach_output(parked, with_state=True),
        "resumeLabels": head.labels,
    }
    return {
        **_base(parked, head.now_ms),
        "context": {
            "input": head.loop_input,
            _LLM: {
                "payload": head.loop_input,
                "startedAt": started,
                "status": "success",
                "output": parked.step,
                "endedAt": started,
            },
            _MAP: {
                "payload": parked.step,
                "startedAt": started,
                "status": "success",
                "output": parked.calls,
                "endedAt": started,
            },
            _CALLS: {
                "payload": parked.calls,
                "startedAt": started,
                "suspendedAt": head.now_ms,
                "status": "suspended",
                "suspendPayload": {**head.payload, "__workflow_meta": meta},
            },
        },
        "activePaths": [2],
        "stepExecutionPath": [_LLM, _MAP],
        "serializedStepGraph": _INNER_GRAPH,
        "suspendedPaths": {_CALLS: [2]},
        "resumeLabels": head.labels,
    }


# -- reading ------------------------------------------------------------------------------

#: Members of an outer document that we know.
KNOWN_OUTER: Final = frozenset(
    {
        "runId",
        "status",
        "value",
        "context",
        "activePaths",
        "activeStepsPath",
        "suspendedPaths",
        "waitingPaths",
        "resumeLabels",
        "serializedStepGraph",
        "stepExecutionPath",
        "requestContext",
        "tracingContext",
        "timestamp",
        "schemaVersion",
        "resumeClaim",
        "resumeReceipts",
        "orphanedResume",
    }
)


def check_version(snapshot: Mapping[str, Any]) -> None:
    """
    Refuse a document of a newer major version (snapshots.md G11).

    Raises:
        WireVersionError: id ``SNAPSHOT_VERSION_UNSUPPORTED``.
    """
    version = snapshot.get("schemaVersion", 0)
    if isinstance(version, int) and version <= SCHEMA_VERSION:
        return
    raise WireVersionError(
        f"Snapshot version {version!r} is newer than {SCHEMA_VERSION}, the newest known here.",
        id="SNAPSHOT_VERSION_UNSUPPORTED",
        hint="Resume this run with the version of mastra-core that wrote it, or a newer one.",
        details={"version": str(version), "supported": SCHEMA_VERSION},
    )


def parked_from_documents(
    outer: Mapping[str, Any], inner: Mapping[str, Any] | None, *, agent_id: str
) -> ParkedRun:
    """
    Read the documents of a suspended run, ours or a Node process's.

    Args:
        outer: The ``agentic-loop`` document.
        inner: The ``executionWorkflow`` document; without it the step's own result is empty.
        agent_id: The owner, already checked.
    """
    execution = _suspended_step(outer)
    payload = execution.get("suspendPayload") or {}
    meta = payload.get("__workflow_meta") or {}
    inner_context = (inner or {}).get("context") or {}
    state = dict(payload.get("__streamState") or {})
    info = (state.get("messageList") or {}).get("memoryInfo") or {}
    calls = _calls(inner_context, payload, meta)
    step = dict((inner_context.get(_LLM) or {}).get("output") or {})
    metadata = execution.get("metadata") or {}
    context = dict(outer.get("requestContext") or {})
    requires_approval = context.pop(_APPROVAL_KEY, False) is True
    return ParkedRun(
        run_id=str(outer.get("runId")),
        agent_id=agent_id,
        thread_id=info.get("threadId"),
        resource_id=info.get("resourceId"),
        message_id=str(step.get("messageId") or _input_message_id(outer) or ""),
        iteration=int(metadata.get("iterationCount") or 1),
        step=step,
        calls=calls,
        outcomes=outcomes_of(calls, payload, meta, execution),
        stream_state=state,
        request_context=context,
        requires_approval=requires_approval,
        receipts=dict(outer.get("resumeReceipts") or {}),
        tracing_context=dict(outer.get("tracingContext") or {}),
        extra={k: v for k, v in outer.items() if k not in KNOWN_OUTER},
    )


def _suspended_step(outer: Mapping[str, Any]) -> Mapping[str, Any]:
    context = outer.get("context") or {}
    step = context.get(_EXECUTION)
    if isinstance(step, Mapping) and step.get("suspendPayload"):
        return step
    for step in context.values():
        if isinstance(step, Mapping) and step.get("suspendPayload"):
            return step
    return {}


def _input_message_id(outer: Mapping[str, Any]) -> str | None:
    given = (outer.get("context") or {}).get("input") or {}
    message_id = given.get("messageId") if isinstance(given, Mapping) else None
    return message_id if isinstance(message_id, str) else None


def _foreach_entries(meta: Mapping[str, Any]) -> dict[int, Any]:
    entries = meta.get("foreachOutput")
    if isinstance(entries, Mapping):
        return {int(key): value for key, value in entries.items() if str(key).isdigit()}
    return dict(enumerate(entries or ()))


def _calls(
    inner_context: Mapping[str, Any], payload: Mapping[str, Any], meta: Mapping[str, Any]
) -> list[dict[str, Any]]:
    for source in (
        (inner_context.get(_MAP) or {}).get("output"),
        (inner_context.get(_CALLS) or {}).get("payload"),
    ):
        if isinstance(source, list) and source:
            return [dict(call) for call in source if isinstance(call, Mapping)]
    from_entries = [
        dict(entry["payload"])
        for _, entry in sorted(_foreach_entries(meta).items())
        if isinstance(entry, Mapping) and isinstance(entry.get("payload"), Mapping)
    ]
    if from_entries:
        return from_entries
    approval = payload.get("requireToolApproval")
    named = approval if isinstance(approval, Mapping) else payload
    if named.get("toolCallId") is None:
        return []
    return [
        {
            "toolCallId": named.get("toolCallId"),
            "toolName": named.get("toolName"),
            "args": named.get("args", {}),
        }
    ]


def outcomes_of(
    calls: list[dict[str, Any]],
    payload: Mapping[str, Any],
    meta: Mapping[str, Any],
    execution: Mapping[str, Any],
) -> list[CallOutcome | None]:
    """
    What became of each call of a parked step, by the bookkeeping of its iterations.

    Args:
        calls: The calls, in order.
        payload: What the step suspended with.
        meta: Its ``__workflow_meta``.
        execution: The suspended step itself.
    """
    entries = _foreach_entries(meta)
    if not entries and calls:
        # No bookkeeping of iterations: the step's own payload is that of its only call.
        entries = {
            0: {
                "status": "suspended",
                "suspendPayload": payload,
                "startedAt": execution.get("startedAt"),
                "suspendedAt": execution.get("suspendedAt"),
            }
        }
    return [
        _outcome(entries.get(index), str(call.get("toolCallId")))
        for index, call in enumerate(calls)
    ]


def _outcome(entry: Any, tool_call_id: str) -> CallOutcome | None:
    if not isinstance(entry, Mapping):
        return None
    status = str(entry.get("status"))
    if status == "suspended":
        payload = {
            k: v
            for k, v in (entry.get("suspendPayload") or {}).items()
            if k not in ("__streamState", "__workflow_meta")
        }
        payload.setdefault("toolCallId", tool_call_id)
        if "requireToolApproval" in payload:
            payload.pop("toolCallId", None)
        return CallOutcome(
            status=status,
            started_at=int(entry.get("startedAt") or 0),
            settled_at=int(entry.get("suspendedAt") or 0),
            suspend_payload=payload,
        )
    output = entry.get("output")
    return CallOutcome(
        status=status,
        started_at=int(entry.get("startedAt") or 0),
        settled_at=int(entry.get("endedAt") or 0),
        output=_own_output(output) if isinstance(output, Mapping) else {},
    )


def _own_output(output: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of the end of a call, without what is said of the call."""
    known = {"toolCallId", "toolName", "args", "activeTools", "providerMetadata"}
    mastra = (output.get("providerMetadata") or {}).get("mastra") or {}
    if not {"backgroundTask", "modelOutput"}.isdisjoint(mastra):
        # What is said of the result, not of the call.
        known.discard("providerMetadata")
    return {name: member for name, member in output.items() if name not in known}
