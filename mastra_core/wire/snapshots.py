"""Rows of run snapshots and what is read out of them (snapshots.md 2, 3, 8, 12).

The snapshot document itself stays a plain JSON object: storage never validates it, and
members that we don't know survive.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mastra_core.wire.base import IsoTime, WireModel

__all__ = (
    "AGENT_WORKFLOW_NAMES",
    "DURABLE_INNER_WORKFLOW",
    "DURABLE_OUTER_WORKFLOW",
    "INNER_WORKFLOW",
    "OUTER_WORKFLOW",
    "SCHEMA_VERSION",
    "AgentRun",
    "AgentRunToolCall",
    "AgentRuns",
    "ResumeClaim",
    "WorkflowRun",
    "WorkflowRuns",
)

OUTER_WORKFLOW = "agentic-loop"
INNER_WORKFLOW = "executionWorkflow"
DURABLE_OUTER_WORKFLOW = "durable-agentic-loop"
DURABLE_INNER_WORKFLOW = "durable-agentic-execution"
#: Outer rows in the order in which suspended runs are listed (snapshots.md 8.2).
AGENT_WORKFLOW_NAMES = (OUTER_WORKFLOW, DURABLE_OUTER_WORKFLOW)
#: What we write as ``schemaVersion``; absent means 0 (snapshots.md G11).
SCHEMA_VERSION = 1


class WorkflowRun(WireModel):
    """One stored row. ``snapshot`` is text only when the stored text is not valid JSON."""

    workflow_name: str
    run_id: str
    resource_id: str | None = None
    snapshot: dict[str, Any] | str
    created_at: IsoTime
    updated_at: IsoTime
    #: Opaque token of this state of the row, when it was asked for (snapshots.md G8).
    version: str | None = None


class WorkflowRuns(WireModel):
    """One page of rows; ``total`` is the count before paging."""

    runs: list[WorkflowRun]
    total: int


class ResumeClaim(WireModel):
    """Who is resuming a run right now (snapshots.md G1); top-level ``resumeClaim``."""

    claim_id: str
    owner: str
    #: Tool call ids that are resumed; None for all of them.
    target: list[str] | None = None
    payload_hash: str
    acquired_at: IsoTime
    expires_at: IsoTime
    attempt: int = 1
    #: What the parked call was answered with, so that a restart can apply it again.
    payload: Any = None


class AgentRunToolCall(WireModel):
    """One parked call of a suspended run (snapshots.md 8)."""

    tool_call_id: str | None = None
    tool_name: str | None = None
    args: Any = None
    requires_approval: bool
    suspend_payload: Any = None
    #: ``interrupted`` or ``unknown`` after a crash while resuming (snapshots.md G4).
    resume_state: str | None = None


class AgentRun(WireModel):
    """One suspended run of an agent (snapshots.md 8)."""

    run_id: str
    status: str = "suspended"
    thread_id: str | None = None
    resource_id: str | None = None
    suspended_at: IsoTime
    tool_calls: list[AgentRunToolCall]
    resume_state: str | None = None
    #: Half of the cursor of this run; not part of the wire form.
    created_at: IsoTime | None = Field(default=None, exclude=True)


class AgentRuns(WireModel):
    """One page of suspended runs; ``total`` counts all matches."""

    runs: list[AgentRun]
    total: int
