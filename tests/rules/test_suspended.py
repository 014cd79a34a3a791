"""Tests of ``mastra_core.rules.suspended``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mastra_core.contracts.storage import SuspendedRunRow
from mastra_core.rules import suspended as rules

__all__ = ()

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def document(*steps: dict[str, Any], **members: Any) -> dict[str, Any]:
    context = {f"step{number}": step for number, step in enumerate(steps)}
    return {"status": "suspended", "context": {**members.pop("context", {}), **context}, **members}


def parked(**payload: Any) -> dict[str, Any]:
    return {"status": "suspended", "suspendPayload": payload}


def state(thread_id: str | None, resource_id: str = "r") -> dict[str, Any]:
    info = None if thread_id is None else {"threadId": thread_id, "resourceId": resource_id}
    return {"messageList": {"memoryInfo": info}}


def row(snapshot: dict[str, Any], resource_id: str | None = None) -> SuspendedRunRow:
    return rules.suspended_row(
        snapshot,
        workflow_name="w",
        run_id="run",
        resource_id=resource_id,
        created_at=T0,
        updated_at=T0,
    )


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (document(parked(__agentId="a")), "a"),
        (document({"status": "success"}, parked(__agentId="a")), "a"),
        (document(parked(x=1), parked(__agentId="b")), None),
        (document(parked(x=1), context={"input": {"agentId": "d"}}), "d"),
        (document(parked(__agentId=5), context={"input": {"agentId": 5}}), None),
        (document(parked(__agentId="")), None),
        ({"status": "suspended"}, None),
        ({"context": {"s": "text", "input": []}}, None),
    ],
)
def test_the_first_suspended_step_or_the_input_names_the_owner(
    snapshot: Any, expected: Any
) -> None:
    """Nobody otherwise: default deny."""
    assert expected == rules.owner_id(snapshot)


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (document(parked(__streamState=state("t"))), "t"),
        (document(parked(x=1), parked(__streamState=state("t"))), "t"),
        (document(parked(__streamState=state(None)), parked(__streamState=state("t"))), None),
        (
            document(
                parked(__streamState={}),
                context={"input": {"messageListState": {"memoryInfo": {"threadId": "t"}}}},
            ),
            "t",
        ),
        (document(context={"input": {"messageListState": {"memoryInfo": None}}}), None),
        (document(parked(__streamState="text")), None),
    ],
)
def test_the_first_stream_state_names_the_thread(snapshot: Any, expected: Any) -> None:
    """snapshots.md 4.4: also if it says that there is none."""
    assert expected == rules.thread_of(snapshot)
    assert (expected == "t") == rules.matches_thread(snapshot, "t")


def test_the_column_wins_over_the_document() -> None:
    """Where it is set."""
    snapshot = document(parked(__streamState=state("t", "inside")))

    assert ("inside", "column") == (row(snapshot).resource_id, row(snapshot, "column").resource_id)


def test_the_projection_leaves_the_document_alone() -> None:
    """Stream states are left out of the row at every depth, not out of the document."""
    inner = parked(__streamState=state("t"), a=1)
    for outputs in ([inner, {"status": "success"}, None], {"0": inner, "1": "odd"}, "odd"):
        meta = {"foreachOutput": outputs, "path": ["x"]}
        snapshot = document(parked(__streamState=state("t"), __workflow_meta=meta))

        payload = row(snapshot).steps["step0"]

        assert "__streamState" not in str(payload)
        assert payload["__workflow_meta"]["path"] == ["x"]
        assert "__streamState" in snapshot["context"]["step0"]["suspendPayload"]
    assert "__streamState" in inner["suspendPayload"]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (
            {"requireToolApproval": {"toolCallId": "c", "toolName": "t", "args": 1}},
            ("c", "t", True, 1, None),
        ),
        (
            {"type": "approval", "toolCallId": "c", "toolName": "t", "args": 1},
            ("c", "t", True, 1, None),
        ),
        ({"toolCallSuspended": {"q": 1}, "toolCallId": "c"}, ("c", None, False, None, {"q": 1})),
        ({"toolName": "t"}, (None, "t", False, None, None)),
        ({"type": "suspension", "toolCallId": "c"}, ("c", None, False, None, None)),
        ({"requireToolApproval": False, "x": 1}, None),
        ({"type": "approval"}, None),
        ({"reason": "a workflow's own"}, None),
    ],
)
def test_calls_are_read_from_their_payloads(payload: Any, expected: Any) -> None:
    """snapshots.md 8.4."""
    calls = rules.tool_calls(row(document(parked(**payload))))

    found = [
        (one.tool_call_id, one.tool_name, one.requires_approval, one.args, one.suspend_payload)
        for one in calls
    ]
    assert ([] if expected is None else [expected]) == found


def test_iterations_without_a_parked_one_leave_the_step() -> None:
    """Then the payload of the step itself counts."""
    meta = {"foreachOutput": [{"status": "success"}, {"status": "suspended"}]}
    calls = rules.tool_calls(row(document(parked(toolCallId="own", __workflow_meta=meta))))

    assert ["own"] == [one.tool_call_id for one in calls]


@pytest.mark.parametrize(
    ("receipt", "orphan", "idempotent", "expected"),
    [
        (None, None, False, None),
        ({"startedAt": 1}, None, False, "unknown"),
        ({"startedAt": 1}, None, True, "interrupted"),
        ({"startedAt": 1, "finishedAt": 2}, None, False, None),
        (None, {"target": None}, False, "interrupted"),
        (None, {"target": ["c"]}, False, "interrupted"),
        (None, {"target": ["other"]}, False, None),
        ({"startedAt": 1}, {"target": ["c"]}, False, "unknown"),
    ],
)
def test_a_crash_shows_in_the_call(
    receipt: Any, orphan: Any, idempotent: bool, expected: Any
) -> None:
    """snapshots.md G4."""
    snapshot = document(parked(toolCallId="c", toolName="t"))
    if receipt is not None:
        snapshot["resumeReceipts"] = {"c": receipt}
    if orphan is not None:
        snapshot["orphanedResume"] = orphan

    calls = rules.tool_calls(row(snapshot), is_idempotent=lambda name: idempotent and name == "t")

    assert [expected] == [one.resume_state for one in calls]
