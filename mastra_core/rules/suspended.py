"""Suspended runs: whose they are, and what listing shows of them (snapshots.md 4.4, 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from mastra_core.contracts.storage.workflows import SuspendedRunRow
from mastra_core.rules.snapshots import ORPHAN, RECEIPTS
from mastra_core.wire.snapshots import AgentRunToolCall

__all__ = (
    "matches_thread",
    "memory_info",
    "owner_id",
    "resource_of",
    "suspended_row",
    "thread_of",
    "tool_calls",
)

_STREAM_STATE = "__streamState"
_META = "__workflow_meta"

_Step: TypeAlias = tuple[str, Mapping[str, Any]]


# -- identities inside a document (snapshots.md 4.4) -----------------------------------------


def owner_id(snapshot: Mapping[str, Any]) -> str | None:
    """
    The agent that owns the run: by its first suspended step, else by its durable input.

    None means that nobody may see it (default deny).
    """
    return _owner(snapshot, _suspended_steps(snapshot))


def _owner(snapshot: Mapping[str, Any], steps: Iterable[_Step]) -> str | None:
    for _, payload in steps:
        agent_id = payload.get("__agentId")
        if isinstance(agent_id, str) and agent_id:
            return agent_id
        break
    agent_id = _object(_object(snapshot.get("context")).get("input")).get("agentId")
    return agent_id if isinstance(agent_id, str) and agent_id else None


def memory_info(snapshot: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """
    ``{threadId, resourceId}`` of the conversation; None without memory.

    The first suspended step with a stream state decides, even if it says null.
    """
    return _memory_info(snapshot, _suspended_steps(snapshot))


def _memory_info(snapshot: Mapping[str, Any], steps: Iterable[_Step]) -> Mapping[str, Any] | None:
    for _, payload in steps:
        state = payload.get(_STREAM_STATE)
        if state:
            info = _object(_object(state).get("messageList")).get("memoryInfo")
            return info if isinstance(info, Mapping) else None
    given = _object(_object(snapshot.get("context")).get("input"))
    info = _object(given.get("messageListState")).get("memoryInfo")
    return info if isinstance(info, Mapping) else None


def thread_of(snapshot: Mapping[str, Any]) -> str | None:
    """The thread of the conversation; None without memory."""
    return _text((memory_info(snapshot) or {}).get("threadId"))


def resource_of(snapshot: Mapping[str, Any], column: str | None) -> str | None:
    """The resource of the row: its column, else the one inside the document."""
    return column or _text((memory_info(snapshot) or {}).get("resourceId"))


def matches_thread(snapshot: Mapping[str, Any], thread_id: str) -> bool:
    """Whether the document belongs to the thread, by the extraction rule."""
    return thread_of(snapshot) == thread_id


def _suspended_steps(snapshot: Mapping[str, Any]) -> Iterator[_Step]:
    """Suspended steps with their payloads, in the order of the document."""
    for step_id, step in _object(snapshot.get("context")).items():
        if isinstance(step, Mapping) and step.get("status") == "suspended":
            payload = step.get("suspendPayload")
            if isinstance(payload, Mapping):
                yield step_id, payload


# -- the projection of a row (G7) -------------------------------------------------------------


def suspended_row(
    snapshot: Mapping[str, Any],
    *,
    workflow_name: str,
    run_id: str,
    resource_id: str | None,
    created_at: datetime,
    updated_at: datetime,
) -> SuspendedRunRow:
    """What listing needs of a suspended document; shares its members with it."""
    orphan = snapshot.get(ORPHAN)
    version = snapshot.get("schemaVersion")
    steps = list(_suspended_steps(snapshot))
    info = _memory_info(snapshot, steps) or {}
    return SuspendedRunRow(
        workflow_name=workflow_name,
        run_id=run_id,
        agent_id=_owner(snapshot, steps),
        thread_id=_text(info.get("threadId")),
        resource_id=resource_id or _text(info.get("resourceId")),
        created_at=created_at,
        updated_at=updated_at,
        steps={step: _without_stream_state(load) for step, load in steps},
        resume_labels=dict(_object(snapshot.get("resumeLabels"))),
        receipts=dict(_object(snapshot.get(RECEIPTS))),
        orphaned=dict(orphan) if isinstance(orphan, Mapping) else None,
        schema_version=version if isinstance(version, int) else 0,
    )


def _without_stream_state(payload: Mapping[str, Any]) -> dict[str, Any]:
    light = {key: value for key, value in payload.items() if key != _STREAM_STATE}
    meta = light.get(_META)
    if isinstance(meta, Mapping) and "foreachOutput" in meta:
        light[_META] = {**meta, "foreachOutput": _light_outputs(meta["foreachOutput"])}
    return light


def _light_outputs(outputs: Any) -> Any:
    if isinstance(outputs, Mapping):
        return {index: _light_output(output) for index, output in outputs.items()}
    if isinstance(outputs, list):
        return [_light_output(output) for output in outputs]
    return outputs


def _light_output(output: Any) -> Any:
    payload = output.get("suspendPayload") if isinstance(output, Mapping) else None
    if not isinstance(payload, Mapping):
        return output
    return {**output, "suspendPayload": _without_stream_state(payload)}


# -- parked calls (snapshots.md 8.4) ----------------------------------------------------------


def tool_calls(
    row: SuspendedRunRow, *, is_idempotent: Callable[[str | None], bool] | None = None
) -> list[AgentRunToolCall]:
    """
    The parked calls of a run, in the order of its steps and iterations.

    Args:
        row: The projection of the suspended row.
        is_idempotent: Whether a tool of this name may simply run again after a crash; a
            started call of any other tool is ``unknown`` (G4). By default no tool may.
    """
    found = []
    for step_id, payload in row.steps.items():
        for parked in _parked_payloads(payload):
            call = _tool_call(parked, step_id, row.resume_labels)
            if call is not None:
                # A call that waits for another run is guarded by that one's receipts.
                is_guarded = bool(parked.get("suspendedToolRunId"))
                may_repeat = (lambda _: True) if is_guarded else is_idempotent
                found.append(_with_resume_state(call, row, may_repeat))
    return found


def _parked_payloads(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    outputs = _object(payload.get(_META)).get("foreachOutput")
    parked = [
        output["suspendPayload"]
        for output in _in_index_order(outputs)
        if isinstance(output, Mapping)
        and output.get("status") == "suspended"
        and isinstance(output.get("suspendPayload"), Mapping)
    ]
    return parked or [payload]


def _in_index_order(outputs: Any) -> list[Any]:
    if isinstance(outputs, list):
        return outputs
    if isinstance(outputs, Mapping):
        numbered = [(index, value) for index, value in outputs.items() if str(index).isdecimal()]
        return [value for _, value in sorted(numbered, key=lambda pair: int(pair[0]))]
    return []


def _tool_call(
    payload: Mapping[str, Any], step_id: str, labels: Mapping[str, Any]
) -> AgentRunToolCall | None:
    approval = payload.get("requireToolApproval")
    if isinstance(approval, Mapping) and approval:
        return _approval(approval)
    if payload.get("type") == "approval" and payload.get("toolCallId"):
        return _approval(payload)
    suspended = payload.get("toolCallSuspended")
    if not (suspended or payload.get("toolName") or payload.get("toolCallId")):
        return None
    call_id = _text(payload.get("toolCallId")) or _only_label(step_id, labels)
    return AgentRunToolCall(
        tool_call_id=call_id,
        tool_name=_text(payload.get("toolName")),
        requires_approval=False,
        suspend_payload=suspended,
    )


def _approval(source: Mapping[str, Any]) -> AgentRunToolCall:
    return AgentRunToolCall(
        tool_call_id=_text(source.get("toolCallId")),
        tool_name=_text(source.get("toolName")),
        args=source.get("args"),
        requires_approval=True,
    )


def _only_label(step_id: str, labels: Mapping[str, Any]) -> str | None:
    """The label that points at the step, if there is exactly one."""
    pointing = [
        label for label, target in labels.items() if _object(target).get("stepId") == step_id
    ]
    return pointing[0] if len(pointing) == 1 else None


def _with_resume_state(
    call: AgentRunToolCall,
    row: SuspendedRunRow,
    is_idempotent: Callable[[str | None], bool] | None,
) -> AgentRunToolCall:
    receipt = _object(row.receipts.get(call.tool_call_id or ""))
    if "startedAt" in receipt and "finishedAt" not in receipt:
        may_repeat = is_idempotent is not None and is_idempotent(call.tool_name)
        return call.replace(resume_state="interrupted" if may_repeat else "unknown")
    if row.orphaned is not None:
        target = row.orphaned.get("target")
        if target is None or call.tool_call_id in target:
            return call.replace(resume_state="interrupted")
    return call


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
