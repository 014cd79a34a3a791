"""Everything that a store holds after a scene, in the form of the recordings.

It is read through the contract, so it looks the same whatever the backend is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mastra_core.base.naming import to_snake
from mastra_core.contracts.storage import Storage
from mastra_core.wire.messages import FILLER_TYPE, Message
from mastra_core.wire.snapshots import WorkflowRun
from mastra_core.wire.tasks import BackgroundTask

__all__ = ("stored_rows",)

#: Members of a suspended step's payload that say whose it is and what it waits for.
_IDENTITY = (
    "requireToolApproval",
    "toolCallSuspended",
    "toolCallId",
    "toolName",
    "args",
    "type",
    "resumeLabel",
    "__agentId",
)


async def stored_rows(store: Storage, *, thread_ids: Iterable[str]) -> dict[str, Any]:
    """Messages, threads, notifications, snapshots and tasks, as the recordings list them."""
    threads = (await store.memory.list_threads(per_page=False)).threads
    messages, notifications = [], []
    # A row may lie in a thread that was never made.
    for thread_id in dict.fromkeys((*(thread.id for thread in threads), *thread_ids)):
        page = await store.memory.list_messages(thread_id, per_page=False)
        messages += page.messages
        notifications += await store.notifications.list_notifications(thread_id)
    runs = (await store.workflows.list_workflow_runs()).runs
    tasks = (await store.background_tasks.list_tasks()).tasks
    return {
        "messages": [
            _message_row(message) for message in sorted(messages, key=lambda m: m.created_at)
        ],
        "threads": [
            {k: v for k, v in thread.to_wire().items() if v is not None}
            for thread in sorted(threads, key=lambda t: t.created_at)
        ],
        "notifications": [
            record.to_wire() for record in sorted(notifications, key=lambda n: n.created_at)
        ],
        "snapshots": [
            _snapshot_row(run)
            for run in sorted(runs, key=lambda r: (r.created_at, r.workflow_name))
        ],
        "backgroundTasks": [_task_row(task) for task in tasks],
    }


def _task_row(task: BackgroundTask) -> dict[str, Any]:
    """Times stand under camelCase names, unlike all other columns (streaming.md 8.10)."""
    return {
        name if name.endswith("At") else to_snake(name): member
        for name, member in task.to_wire().items()
    }


def _message_row(message: Message) -> dict[str, Any]:
    wire = message.to_wire()
    row = {
        "id": wire["id"],
        "thread_id": wire.get("threadId"),
        "resourceId": wire.get("resourceId"),
        "role": wire["role"],
        "type": wire.get("type") or FILLER_TYPE,
        "createdAt": wire["createdAt"],
        "content": wire["content"],
    }
    return {name: member for name, member in row.items() if member is not None}


def _snapshot_row(run: WorkflowRun) -> dict[str, Any]:
    wire = run.to_wire()
    document = wire["snapshot"]
    steps = {
        name: step
        for name, step in document["context"].items()
        if name != "input" and isinstance(step, Mapping) and "status" in step
    }
    row: dict[str, Any] = {
        "workflow_name": wire["workflowName"],
        "run_id": wire["runId"],
        "resourceId": wire.get("resourceId"),
        "createdAt": wire["createdAt"],
        "updatedAt": wire["updatedAt"],
        "status": document["status"],
        "suspendedPaths": document["suspendedPaths"],
        "resumeLabels": document["resumeLabels"],
        "activePaths": document["activePaths"],
        "stepExecutionPath": document.get("stepExecutionPath"),
        "stepStatus": {name: step["status"] for name, step in steps.items()},
        "suspended": {
            name: _payload_form(step["suspendPayload"])
            for name, step in steps.items()
            if step["status"] == "suspended"
        },
    }
    return {name: member for name, member in row.items() if member is not None}


def _payload_form(payload: Mapping[str, Any]) -> dict[str, Any]:
    form = {name: payload[name] for name in _IDENTITY if name in payload}
    state = payload.get("__streamState")
    if state is not None:
        form["__streamState"] = {
            "memoryInfo": state["messageList"]["memoryInfo"],
            "keys": sorted(state),
        }
    meta = payload.get("__workflow_meta")
    if meta is not None:
        form["__workflow_meta"] = _meta_form(meta)
    return form


def _meta_form(meta: Mapping[str, Any]) -> dict[str, Any]:
    form = dict(meta)
    entries = form.get("foreachOutput")
    if isinstance(entries, list):
        form["foreachOutput"] = [entry and _entry_form(entry) for entry in entries]
    return form


def _entry_form(entry: Mapping[str, Any]) -> dict[str, Any]:
    form: dict[str, Any] = {"status": entry["status"]}
    if "suspendPayload" in entry:
        form["suspendPayload"] = _payload_form(entry["suspendPayload"])
    return form
