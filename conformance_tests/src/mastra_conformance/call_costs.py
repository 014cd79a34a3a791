"""How much a database does for a call: what every adapter with statements must keep to.

An adapter gives an open store as ``store`` and what it ran as ``executed``, a list that grows
with every statement, and derives a class of tests from ``CountsStatements``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mastra_core.contracts.storage import Storage
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification, NotificationPatch
from mastra_core.wire.tasks import BackgroundTask
from mastra_core.wire.threads import Thread

__all__ = (
    "NOW",
    "CountsStatements",
    "event",
    "message",
    "suspended_snapshot",
    "task",
    "thread",
)

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""When everything here happens."""


def message(number: int) -> Message:
    """A message of the thread, one second after the one before."""
    return Message(
        id=f"m{number}",
        role="user",
        thread_id="t",
        resource_id="u",
        created_at=NOW + timedelta(seconds=number),
        content={"format": 2, "parts": []},
    )


def event(**fields: Any) -> CreateNotification:
    """A notification for the thread."""
    return CreateNotification(thread_id="t", source="s", kind="k", summary="x", **fields)


def thread(thread_id: str = "t") -> Thread:
    """The thread."""
    return Thread(id=thread_id, resource_id="u", created_at=NOW, updated_at=NOW)


def task() -> BackgroundTask:
    """A detached call of a tool."""
    return BackgroundTask(
        id="task",
        status="running",
        tool_name="deploy",
        tool_call_id="c1",
        args={},
        agent_id="a",
        run_id="r",
        created_at=NOW,
    )


def suspended_snapshot(
    agent_id: str, *, thread_id: str = "t", resource_id: str = "u"
) -> dict[str, Any]:
    """A snapshot as an agent leaves it on an approval, with a conversation of some length."""
    info = {"threadId": thread_id, "resourceId": resource_id}
    messages = [{"id": f"m{n}", "content": "word " * 50} for n in range(20)]
    payload = {
        "requireToolApproval": {"toolCallId": "c1", "toolName": "deploy", "args": {}},
        "__streamState": {"messageList": {"memoryInfo": info, "messages": messages}},
        "__agentId": agent_id,
    }
    return {
        "status": "suspended",
        "context": {"executionWorkflow": {"status": "suspended", "suspendPayload": payload}},
        "resumeLabels": {"c1": {"stepId": "executionWorkflow"}},
    }


class CountsStatements:
    """Tests of a store whose statements are counted."""

    async def test_one_statement_is_enough_for_the_plain_calls(
        self, store: Storage, executed: list[Any]
    ) -> None:
        """The minimum of round trips is one, and of statements, too (perf.md, lever 1)."""
        record = await store.notifications.create_notification(event())
        key: dict[str, Any] = {"workflow_name": "w", "run_id": "r"}
        inbox, memory, runs = store.notifications, store.memory, store.workflows
        calls: list[Awaitable[Any]] = [
            inbox.get_notification("t", record.id),
            inbox.update_notification("t", record.id, NotificationPatch(status="seen")),
            inbox.update_notifications_status("t", [record.id], "archived"),
            inbox.list_notifications("t"),
            memory.save_thread(thread()),
            memory.create_thread(thread()),
            memory.get_thread_by_id("t"),
            memory.list_messages("t", include_total=False),
            runs.persist_workflow_snapshot(**key, snapshot={"status": "pending"}),
            runs.load_workflow_snapshot(**key),
            runs.delete_workflow_run_by_id(**key),
            store.thread_state.set_state("t", "x", 1),
            store.thread_state.get_state("t", "x"),
        ]
        executed.clear()

        for call in calls:
            await call

        assert len(calls) == len(executed)

    async def test_saving_ten_messages_looks_once(
        self, store: Storage, executed: list[Any]
    ) -> None:
        executed.clear()

        await store.memory.save_messages([message(n) for n in range(10)])

        assert 1 + 10 + 1 == len(executed)
