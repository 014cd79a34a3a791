"""Things that the storage suites store: threads, messages, events, documents of runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification
from mastra_core.wire.schedules import Schedule, ScheduleTrigger
from mastra_core.wire.snapshots import ResumeClaim
from mastra_core.wire.tasks import BackgroundTask
from mastra_core.wire.threads import Resource, Thread

__all__ = (
    "T0",
    "approval_run",
    "at",
    "background_task",
    "durable_run",
    "event",
    "message",
    "parked_run",
    "resource",
    "resume_claim",
    "runtime_run",
    "schedule",
    "snapshot",
    "thread",
    "trigger",
)

T0 = datetime(2024, 3, 1, 8, 0, 0, 123_000, tzinfo=UTC)
"""When the things were made: long ago, so that every later write moves their times."""


def at(seconds: float) -> datetime:
    """A time so many seconds after ``T0``."""
    return T0 + timedelta(seconds=seconds)


def thread(thread_id: str = "t1", **members: Any) -> Thread:
    """A thread of resource ``r1``."""
    given = {"resource_id": "r1", "title": "Title", "created_at": T0, "updated_at": T0, **members}
    return Thread(id=thread_id, **given)


def message(message_id: str = "m1", *, text: str = "hello", **members: Any) -> Message:
    """A user message of thread ``t1`` and resource ``r1``."""
    content = {"format": 2, "parts": [{"type": "text", "text": text}], "content": text}
    given = {
        "role": "user",
        "thread_id": "t1",
        "resource_id": "r1",
        "created_at": T0,
        "content": content,
        **members,
    }
    return Message(id=message_id, **given)


def resource(resource_id: str = "r1", **members: Any) -> Resource:
    """A resource."""
    return Resource(id=resource_id, **{"created_at": T0, "updated_at": T0, **members})


def event(**members: Any) -> CreateNotification:
    """An event for thread ``t1``."""
    given = {"thread_id": "t1", "source": "github", "kind": "ci", "summary": "CI failed", **members}
    return CreateNotification(**given)


def snapshot(run_id: str = "run1", *, status: str = "running", **members: Any) -> dict[str, Any]:
    """A document of a user workflow."""
    return {
        "runId": run_id,
        "status": status,
        "value": {},
        "context": {"input": {"n": 1}},
        "activePaths": [],
        "activeStepsPath": {},
        "suspendedPaths": {},
        "waitingPaths": {},
        "resumeLabels": {},
        "serializedStepGraph": [],
        "timestamp": 1_709_280_000_123,
        **members,
    }


def _suspended(
    run_id: str, step: str, payload: Mapping[str, Any], **members: Any
) -> dict[str, Any]:
    return snapshot(
        run_id,
        status="suspended",
        context={
            "input": {"messageId": "m1"},
            step: {
                "status": "suspended",
                "payload": {},
                "startedAt": 1,
                "suspendedAt": 2,
                "suspendPayload": dict(payload),
            },
        },
        suspendedPaths={step: [0]},
        **members,
    )


def parked_run(
    run_id: str,
    payload: Mapping[str, Any],
    *,
    agent_id: str | None = "agent-a",
    thread_id: str | None = "t1",
    resource_id: str | None = "r1",
    **members: Any,
) -> dict[str, Any]:
    """The outer document of a regular agent's run with this payload (snapshots.md 4.3)."""
    info = None
    if thread_id is not None:
        info = {"threadId": thread_id, "resourceId": resource_id}
    owned: dict[str, Any] = {
        **payload,
        "__streamState": {
            "status": "running",
            "messageList": {"messages": ["long " * 50], "memoryInfo": info},
        },
    }
    if agent_id is not None:
        owned["__agentId"] = agent_id
    return _suspended(run_id, "executionWorkflow", owned, **members)


def approval_run(
    run_id: str = "run1", *, call_id: str = "call_1", **members: Any
) -> dict[str, Any]:
    """A regular agent's run that waits for an approval."""
    call = {"toolCallId": call_id, "toolName": "deploy", "args": {"env": "prod"}}
    labels = {call_id: {"stepId": "executionWorkflow"}}
    return parked_run(run_id, {"requireToolApproval": call}, resumeLabels=labels, **members)


def runtime_run(
    run_id: str = "run1", *, call_id: str | None = "call_1", **members: Any
) -> dict[str, Any]:
    """A regular agent's run whose tool called ``suspend``."""
    payload: dict[str, Any] = {"toolCallSuspended": {"ask": "which one?"}, "toolName": "choose"}
    if call_id is not None:
        payload["toolCallId"] = call_id
    return parked_run(run_id, payload, **members)


def durable_run(
    run_id: str = "run1", *, agent_id: str = "agent-a", thread_id: str = "t1", **members: Any
) -> dict[str, Any]:
    """A durable agent's run that waits for an approval (snapshots.md 4.3, 4.4)."""
    payload = {
        "type": "approval",
        "toolCallId": "call_1",
        "toolName": "deploy",
        "args": {"env": "prod"},
    }
    document = _suspended(run_id, "durable-agentic-execution", payload, **members)
    document["context"]["input"] = {
        "agentId": agent_id,
        "__workflowKind": "durable-agent",
        "messageListState": {"memoryInfo": {"threadId": thread_id, "resourceId": "r1"}},
    }
    return document


def resume_claim(claim_id: str = "claim1", *, ttl_ms: int = 60_000, **members: Any) -> ResumeClaim:
    """A request for a claim; the store dates it by its own clock."""
    given = {
        "owner": "process-1",
        "target": ["call_1"],
        "payload_hash": "hash",
        "acquired_at": T0,
        "expires_at": T0 + timedelta(milliseconds=ttl_ms),
        "payload": {"approved": True},
        **members,
    }
    return ResumeClaim(claim_id=claim_id, **given)


def background_task(task_id: str = "task1", **members: Any) -> BackgroundTask:
    """A pending task of run ``run1``."""
    given = {
        "status": "pending",
        "tool_name": "crawl",
        "tool_call_id": f"call-{task_id}",
        "args": {"url": "https://example.com"},
        "agent_id": "agent-a",
        "thread_id": "t1",
        "resource_id": "r1",
        "run_id": "run1",
        "created_at": T0,
        **members,
    }
    return BackgroundTask(id=task_id, **given)


def schedule(schedule_id: str = "s1", **members: Any) -> Schedule:
    """An active timer that is due at 1 000."""
    given = {
        "target": {"type": "workflow", "workflowId": "w1", "inputData": {"limit": 100}},
        "cron": "*/1 * * * *",
        "status": "active",
        "next_fire_at": 1_000,
        "created_at": 10,
        "updated_at": 10,
        **members,
    }
    return Schedule(id=schedule_id, **given)


def trigger(
    trigger_id: str = "f1", *, actual_fire_at: int = 1_000, **members: Any
) -> ScheduleTrigger:
    """One firing of timer ``s1``."""
    given = {
        "schedule_id": "s1",
        "run_id": f"sched_s1_{actual_fire_at}",
        "scheduled_fire_at": actual_fire_at,
        "actual_fire_at": actual_fire_at,
        "outcome": "published",
        **members,
    }
    return ScheduleTrigger(id=trigger_id, **given)
