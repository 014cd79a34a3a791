"""The data that the store scenarios write: typical records, documents, messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification

__all__ = ("NOW", "document", "event", "message", "suspended")

NOW = datetime(2026, 1, 1, tzinfo=UTC)

_numbers = count(1)

_WORDS = [
    "the",
    "deployment",
    "of",
    "service",
    "to",
    "production",
    "was",
    "approved",
    "by",
    "team",
    "a",
    "release",
    "that",
    "customer",
    "asked",
    "for",
    "last",
    "week",
    "please",
    "check",
    "whether",
    "all",
    "tests",
    "have",
    "passed",
    "and",
    "tell",
    "me",
    "what",
    "you",
    "find",
    "there",
    "is",
    "one",
    "failure",
    "in",
    "module",
    "which",
    "handles",
    "invoices",
    "because",
    "its",
    "clock",
    "runs",
    "ahead",
    "could",
    "we",
    "wait",
    "until",
    "tomorrow",
    "no",
    "they",
    "need",
    "it",
    "now",
    "then",
    "roll",
    "back",
    "first",
    "update",
    "index",
    "rebuild",
    "cache",
    "notify",
    "support",
    "yes",
    "done",
    "thanks",
    "next",
    "step",
    "would",
    "be",
    "review",
    "staging",
    "logs",
    "latency",
    "errors",
    "traffic",
    "region",
    "budget",
    "approval",
    "ticket",
    "number",
    "seven",
    "owner",
    "database",
    "migration",
    "script",
    "branch",
    "merge",
    "commit",
    "artifact",
]


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
    characters each, in words that don't come in the same order twice.
    """
    rng = Random(kilobytes)
    messages = [
        {
            "id": f"d5f59246-991b-4823-8809-{number:012}",
            "role": "user" if number % 2 else "assistant",
            "createdAt": "2026-11-30T05:37:02.969Z",
            "content": {"format": 2, "parts": [{"type": "text", "text": _said(rng)}]},
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


def _said(rng: Random) -> str:
    """About 420 characters of somebody."""
    return " ".join(rng.choices(_WORDS, k=62))


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
