"""The data that the store scenarios write: typical records, documents, messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification

__all__ = ("NOW", "document", "event", "message", "suspended")

NOW = datetime(2026, 1, 1, tzinfo=UTC)

_numbers = count(1)


def event(thread_id: str = "thread", **fields: Any) -> CreateNotification:
    """A notification as a webhook makes it."""
    return CreateNotification(
        thread_id=thread_id,
        source="github",
        kind="ci-status",
        priority="medium",
        summary="CI failed on main: 3 of 212 tests",
        payload={"repository": "acme/app", "run": 4711, "failed": ["a", "b", "c"]},
        resource_id="user",
        agent_id="support",
        attributes={"pr": 12},
        **fields,
    )


def document(kilobytes: int) -> dict[str, Any]:
    """
    A snapshot of about so many kilobytes of JSON.

    As in those that agents leave, most of it is the conversation: messages of some hundred
    characters each.
    """
    text = "The deployment of the service to production was approved by the team. " * 6
    messages = [
        {
            "id": f"d5f59246-991b-4823-8809-{number:012}",
            "role": "user" if number % 2 else "assistant",
            "createdAt": "2026-11-30T05:37:02.969Z",
            "content": {"format": 2, "parts": [{"type": "text", "text": text}]},
        }
        for number in range(max(1, kilobytes * 1024 // 620))
    ]
    return {
        "runId": "run",
        "status": "running",
        "context": {"input": {"messages": messages}},
        "activePaths": [],
        "suspendedPaths": {},
        "resumeLabels": {},
        "timestamp": 1796017022982,
    }


def suspended(agent_id: str, thread_id: str, *, kilobytes: int = 2) -> dict[str, Any]:
    """What an agent leaves when it waits for an approval."""
    info = {"threadId": thread_id, "resourceId": "user"}
    words = "word " * (kilobytes * 1024 // 5)
    payload = {
        "requireToolApproval": {"toolCallId": "c1", "toolName": "deploy", "args": {"env": "prod"}},
        "__streamState": {"messageList": {"memoryInfo": info, "messages": [words]}},
        "__agentId": agent_id,
    }
    return {
        "runId": "run",
        "status": "suspended",
        "context": {"executionWorkflow": {"status": "suspended", "suspendPayload": payload}},
        "resumeLabels": {"c1": {"stepId": "executionWorkflow"}},
    }


def message(thread_id: str = "thread") -> Message:
    """The next message of a thread."""
    number = next(_numbers)
    return Message(
        id=f"message{number}",
        role="user" if number % 2 else "assistant",
        thread_id=thread_id,
        resource_id="user",
        created_at=NOW + timedelta(milliseconds=number),
        content={"format": 2, "parts": [{"type": "text", "text": "hello world, " * 12}]},
    )
