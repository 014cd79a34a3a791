"""
Our stores against the TypeScript ones: the real packages in a Node process, on the same server.

Each side has a database, tables and indexes of its own, and is timed in its own process, so
nothing of the way between the two is part of a figure. They run in turns. Where Node or the
packages are missing, or the TypeScript store lacks a domain, that is reported as not run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
from contents import NOW, document, event, message, suspended
from goals import goal_of
from harness import Result, Scenario, Timed
from loading import filled, refilled
from places import Place

from mastra_conformance.node import NodePeer, find_node, node_peer, node_store
from mastra_conformance.servers import Missing
from mastra_core.contracts.storage.background_tasks import TaskFilter
from mastra_core.wire.notifications import NotificationPatch
from mastra_core.wire.schedules import Schedule
from mastra_core.wire.tasks import BackgroundTask
from mastra_core.wire.threads import Thread

__all__ = ("not_run", "open_typescript")

#: Rows of each table while every operation is compared.
ROWS = 100

_AGAINST = "the TypeScript store"


class _Node:
    """One operation of the TypeScript store, timed by Node."""

    def __init__(self, peer: NodePeer, operation: Operation) -> None:
        self._peer = peer
        self._operation = operation
        self._first = ROWS

    async def __call__(self, calls: int, tasks: int) -> float:
        operation = self._operation
        first, self._first = self._first, self._first + calls
        microseconds: float = await self._peer.do(
            "time",
            domain=operation.domain,
            method=operation.method,
            args=list(operation.args),
            calls=calls,
            tasks=tasks,
            first=first,
            of=0 if operation.is_new else ROWS,
        )
        return microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The same on both sides; ``{n}`` is a number, of a row or a new one."""

    name: str
    domain: str
    method: str
    args: tuple[Any, ...]
    ours: Callable[[Any, int], Awaitable[Any]]
    #: Makes something with every call, so the number goes on.
    is_new: bool = False
    goal: str = "against TypeScript"
    calls: int = 100

    def on_ours(self, store: Any) -> Timed:
        """Our side."""
        numbers = count(ROWS)

        async def call() -> None:
            number = next(numbers)
            await self.ours(store, number if self.is_new else number % ROWS)

        return Timed(call)


def not_run(backend: str, name: str, missing: str) -> Result:
    """A line in the table for what can't be measured here."""
    return Result(
        name=name, backend=backend, against=_AGAINST, tasks=1, ours_us=0.0, floor_us=None,
        ratio=None, goal="–", met=None, not_run=missing,
    )  # fmt: skip


@asynccontextmanager
async def open_typescript(
    place: Place, *, large: int
) -> AsyncIterator[AsyncIterator[Scenario | Result]]:
    """The comparisons in one place; ``large``: rows of the big table, 0 for none."""
    found = find_node()
    if isinstance(found, Missing):
        yield _nothing(place.backend, f"{found.reason} Try: {found.command}")
        return
    ours, theirs = await _databases(place)
    async with node_peer(found) as peer:
        await peer.do("open", store=node_store(theirs))
        yield _scenarios(place, peer, ours, theirs, large)


async def _nothing(backend: str, reason: str) -> AsyncIterator[Scenario | Result]:
    yield not_run(backend, "every operation", reason)


async def _databases(place: Place) -> tuple[str, str]:
    """A database for each side; ours begins empty and with the names that both know."""
    match place.backend:
        case "libsql file":
            return f"file:{place.folder / 'ours-ts.db'}", f"file:{place.folder / 'theirs.db'}"
        case "postgres":
            async with await psycopg.AsyncConnection.connect(place.url, autocommit=True) as own:
                await own.execute("DROP DATABASE IF EXISTS bench_ts WITH (FORCE)")
                await own.execute("CREATE DATABASE bench_ts")
            return place.url, place.url.rpartition("/")[0] + "/bench_ts"
        case "mongodb":
            return place.url, place.url.replace("/mastra?", "/bench_ts?")
        case "redis":
            return place.url, place.url.rpartition("/")[0] + "/1"
        case other:
            raise LookupError(other)


async def _scenarios(
    place: Place, peer: NodePeer, ours: str, theirs: str, large: int
) -> AsyncIterator[Scenario | Result]:
    async with place.open_store(ours) as store:
        missing: set[str] = set()
        await _prepare_ours(store)
        async for domain, reason in _prepare_theirs(peer):
            missing.add(domain)
            yield not_run(place.backend, f"{domain}", reason)
        for operation in _operations():
            if operation.domain not in missing:
                yield _scenario(place.backend, operation, store, peer)
        if place.backend == "postgres":
            for operation in _large_snapshots():
                yield _scenario(place.backend, operation, store, peer)
        await store.dangerously_clear_all()
    if large:
        open_store = await filled(place.backend, place.url, large)
        await peer.do("store", **_call_of(_SUSPENDED_ONE))
        await refilled(place.backend, theirs, large)
        async with open_store() as store:
            yield _scenario(place.backend, _suspended_page(large), store, peer)


def _scenario(backend: str, operation: Operation, store: Any, peer: NodePeer) -> Scenario:
    return Scenario(
        name=operation.name,
        backend=backend,
        ours=operation.on_ours(store),
        floor=_Node(peer, operation),
        against=_AGAINST,
        goal=goal_of(operation.goal, backend),
        calls=operation.calls,
    )


# -- operations ---------------------------------------------------------------------------------

_THREAD = {"threadId": "thread-{n}"}
_RUN = {"workflowName": "w", "runId": "run-{n}"}
_STEP = {"status": "success", "output": {"n": 1}}


def _run(number: int) -> dict[str, str]:
    return {"workflow_name": "w", "run_id": f"run-{number}"}


def _thread(name: str, resource: str) -> Thread:
    return Thread(
        id=name, resource_id=resource, title="t", metadata={"a": 1}, created_at=NOW, updated_at=NOW
    )


def _thread_of_node(name: str, resource: str) -> dict[str, Any]:
    times = {"createdAt": NOW, "updatedAt": NOW}
    return {"id": name, "resourceId": resource, "title": "t", "metadata": {"a": 1}, **times}


def _message_of_node(name: str, thread: str) -> dict[str, Any]:
    content = {"format": 2, "parts": [{"type": "text", "text": "hello world, " * 12}]}
    return {
        "id": name,
        "threadId": thread,
        "resourceId": "user",
        "role": "user",
        "type": "v2",
        "createdAt": NOW,
        "content": content,
    }


def _event_of_node(name: str, thread: str) -> dict[str, Any]:
    given = event(thread).model_dump(by_alias=True, exclude_unset=True)
    return {**given, "id": name}


def _batch(thread: str, name: str) -> list[Any]:
    return [message(thread).replace(id=f"{name}-{place}") for place in range(10)]


def _task(name: str) -> BackgroundTask:
    return BackgroundTask(
        id=name, status="running", tool_name="tool", tool_call_id="c", args={"a": 1},
        agent_id="agent", thread_id="thread-1", run_id="run", created_at=NOW,
    )  # fmt: skip


_TASK_OF_NODE = {
    "status": "running", "toolName": "tool", "toolCallId": "c", "args": {"a": 1},
    "agentId": "agent", "threadId": "thread-1", "runId": "run", "createdAt": NOW,
    "retryCount": 0, "maxRetries": 0, "timeoutMs": 300_000,
}  # fmt: skip

_FIRE = 1_767_225_600_000
_TARGET = {"type": "workflow", "workflowId": "w"}


def _schedule(name: str) -> Schedule:
    return Schedule(
        id=name, target=_TARGET, cron="* * * * *", next_fire_at=_FIRE, created_at=_FIRE,
        updated_at=_FIRE,
    )  # fmt: skip


_SCHEDULE_OF_NODE = {
    "target": _TARGET, "cron": "* * * * *", "status": "active", "nextFireAt": _FIRE,
    "createdAt": _FIRE, "updatedAt": _FIRE,
}  # fmt: skip


def _operations() -> list[Operation]:
    return [
        *_of_notifications(),
        *_of_workflows(),
        *_of_threads(),
        *_of_messages(),
        *_of_the_rest(),
    ]


def _of_notifications() -> list[Operation]:
    seen = NotificationPatch(status="seen")
    return [
        Operation(
            name="createNotification", domain="notifications", method="createNotification",
            args=(_event_of_node("new-{n}", "new"),), is_new=True,
            ours=lambda s, n: s.notifications.create_notification(event("new", id=f"new-{n}")),
        ),
        Operation(
            name="createNotification that merges", domain="notifications",
            method="createNotification",
            args=({**_event_of_node("same-{n}", "same"), "dedupeKey": "k"},), is_new=True,
            ours=lambda s, n: s.notifications.create_notification(
                event("same", id=f"same-{n}", dedupe_key="k")
            ),
        ),
        Operation(
            name="getNotification", domain="notifications", method="getNotification",
            args=({"threadId": "inbox", "id": "note-{n}"},),
            ours=lambda s, n: s.notifications.get_notification("inbox", f"note-{n}"),
        ),
        Operation(
            name="updateNotification", domain="notifications", method="updateNotification",
            args=({"threadId": "inbox", "id": "note-{n}", "status": "seen"},),
            ours=lambda s, n: s.notifications.update_notification("inbox", f"note-{n}", seen),
        ),
        Operation(
            name="listNotifications, page of 20", domain="notifications",
            method="listNotifications", args=({"threadId": "inbox", "limit": 20},),
            ours=lambda s, _: s.notifications.list_notifications("inbox", limit=20),
        ),
        Operation(
            name="listDueNotifications", domain="notifications", method="listDueNotifications",
            args=({"now": NOW, "limit": 20},),
            ours=lambda s, _: s.notifications.list_due_notifications(NOW, limit=20),
        ),
    ]  # fmt: skip


def _of_workflows() -> list[Operation]:
    small = document(2)
    return [
        Operation(
            name="persistWorkflowSnapshot 2 KB", domain="workflows",
            method="persistWorkflowSnapshot", args=({**_RUN, "snapshot": small},),
            ours=lambda s, n: s.workflows.persist_workflow_snapshot(**_run(n), snapshot=small),
        ),
        Operation(
            name="loadWorkflowSnapshot 2 KB", domain="workflows", method="loadWorkflowSnapshot",
            args=(_RUN,), ours=lambda s, n: s.workflows.load_workflow_snapshot(**_run(n)),
        ),
        Operation(
            name="updateWorkflowResults", domain="workflows", method="updateWorkflowResults",
            args=({**_RUN, "stepId": "step", "result": _STEP, "requestContext": {}},),
            ours=lambda s, n: s.workflows.update_workflow_results(
                **_run(n), step_id="step", result=_STEP, request_context={}
            ),
        ),
        Operation(
            name="updateWorkflowState", domain="workflows", method="updateWorkflowState",
            args=({**_RUN, "opts": {"status": "running"}},),
            ours=lambda s, n: s.workflows.update_workflow_state(
                **_run(n), opts={"status": "running"}
            ),
        ),
        Operation(
            name="getWorkflowRunById", domain="workflows", method="getWorkflowRunById",
            args=(_RUN,), ours=lambda s, n: s.workflows.get_workflow_run_by_id(**_run(n)),
        ),
        Operation(
            name="listWorkflowRuns, page of 20", domain="workflows", method="listWorkflowRuns",
            args=({"workflowName": "w", "perPage": 20, "page": 0},),
            ours=lambda s, _: s.workflows.list_workflow_runs(
                workflow_name="w", per_page=20, page=0
            ),
        ),
        _suspended_page(ROWS),
    ]  # fmt: skip


def _suspended_page(rows: int) -> Operation:
    page = {"workflowName": "agentic-loop", "status": "suspended", "perPage": 20, "page": 0}
    is_large = rows > ROWS
    return Operation(
        name=f"suspended runs, page of 20 of {rows}",
        domain="workflows",
        method="listWorkflowRuns",
        args=(page,),
        ours=lambda s, n: s.workflows.list_suspended_runs(
            workflow_names=["agentic-loop", "durable-agentic-loop"],
            agent_id=f"agent{n}" if is_large else "agent",
            page=0,
            per_page=20,
        ),
        goal="suspended runs against TypeScript" if is_large else "against TypeScript",
        calls=2 if is_large else 50,
    )


def _large_snapshots() -> list[Operation]:
    """Documents that compression is the cost of."""
    large = document(50)
    run = {"workflowName": "w", "runId": "large-{n}"}
    return [
        Operation(
            name="persistWorkflowSnapshot 50 KB", domain="workflows",
            method="persistWorkflowSnapshot", args=({**run, "snapshot": large},),
            ours=lambda s, n: s.workflows.persist_workflow_snapshot(
                workflow_name="w", run_id=f"large-{n}", snapshot=large
            ),
            goal="lz4 persist", calls=ROWS,
        ),
        Operation(
            name="updateWorkflowResults in 50 KB", domain="workflows",
            method="updateWorkflowResults",
            args=({**run, "stepId": "step", "result": _STEP, "requestContext": {}},),
            ours=lambda s, n: s.workflows.update_workflow_results(
                workflow_name="w", run_id=f"large-{n}", step_id="step", result=_STEP,
                request_context={},
            ),
            goal="lz4 step",
        ),
    ]  # fmt: skip


def _of_threads() -> list[Operation]:
    return [
        Operation(
            name="saveThread", domain="memory", method="saveThread",
            args=({"thread": _thread_of_node("made-{n}", "made")},), is_new=True,
            ours=lambda s, n: s.memory.save_thread(_thread(f"made-{n}", "made")),
        ),
        Operation(
            name="getThreadById", domain="memory", method="getThreadById", args=(_THREAD,),
            ours=lambda s, n: s.memory.get_thread_by_id(f"thread-{n}"),
        ),
        Operation(
            name="updateThread", domain="memory", method="updateThread",
            args=({"id": "thread-{n}", "title": "new", "metadata": {"b": 2}},),
            ours=lambda s, n: s.memory.update_thread(
                f"thread-{n}", title="new", metadata={"b": 2}
            ),
        ),
        Operation(
            name="listThreads, page of 20", domain="memory", method="listThreads",
            args=({"filter": {"resourceId": "user"}, "perPage": 20, "page": 0},),
            ours=lambda s, _: s.memory.list_threads(resource_id="user", per_page=20, page=0),
        ),
        Operation(
            name="getResourceById", domain="memory", method="getResourceById",
            args=({"resourceId": "resource-{n}"},),
            ours=lambda s, n: s.memory.get_resource_by_id(f"resource-{n}"),
        ),
        Operation(
            name="updateResource", domain="memory", method="updateResource",
            args=({"resourceId": "resource-{n}", "workingMemory": "# notes"},),
            ours=lambda s, n: s.memory.update_resource(
                f"resource-{n}", working_memory="# notes"
            ),
        ),
    ]  # fmt: skip


def _of_messages() -> list[Operation]:
    ten = [_message_of_node(f"ten-{{n}}-{place}", "thread-1") for place in range(10)]
    return [
        Operation(
            name="saveMessages, one", domain="memory", method="saveMessages",
            args=({"messages": [_message_of_node("one-{n}", "thread-0")], "format": "v2"},),
            is_new=True,
            ours=lambda s, n: s.memory.save_messages(
                [message("thread-0").replace(id=f"one-{n}")]
            ),
        ),
        Operation(
            name="saveMessages, ten", domain="memory", method="saveMessages",
            args=({"messages": ten, "format": "v2"},), is_new=True,
            ours=lambda s, n: s.memory.save_messages(_batch("thread-1", f"ten-{n}")),
        ),
        Operation(
            name="listMessages, page of 40", domain="memory", method="listMessages",
            args=({"threadId": "thread-2", "perPage": 40, "page": 0},),
            ours=lambda s, _: s.memory.list_messages("thread-2", per_page=40, page=0),
        ),
        Operation(
            name="listMessagesById, ten", domain="memory", method="listMessagesById",
            args=({"messageIds": [f"message-{number}" for number in range(10)]},),
            ours=lambda s, _: s.memory.list_messages_by_id(
                [f"message-{number}" for number in range(10)]
            ),
        ),
        Operation(
            name="updateMessages, one", domain="memory", method="updateMessages",
            args=({"messages": [{"id": "message-{n}", "content": {"metadata": {"a": 1}}}]},),
            ours=lambda s, n: s.memory.update_messages(
                [{"id": f"message-{n}", "content": {"metadata": {"a": 1}}}]
            ),
        ),
    ]  # fmt: skip


def _of_the_rest() -> list[Operation]:
    return [
        Operation(
            name="setState", domain="threadState", method="setState",
            args=({"threadId": "thread-{n}", "type": "todo", "value": {"items": [1, 2]}},),
            ours=lambda s, n: s.thread_state.set_state(
                f"thread-{n}", "todo", {"items": [1, 2]}
            ),
        ),
        Operation(
            name="getState", domain="threadState", method="getState",
            args=({"threadId": "thread-{n}", "type": "todo"},),
            ours=lambda s, n: s.thread_state.get_state(f"thread-{n}", "todo"),
        ),
        Operation(
            name="createTask", domain="backgroundTasks", method="createTask",
            args=({"id": "made-{n}", **_TASK_OF_NODE},), is_new=True,
            ours=lambda s, n: s.background_tasks.create_task(_task(f"made-{n}")),
        ),
        Operation(
            name="getTask", domain="backgroundTasks", method="getTask", args=("task-{n}",),
            ours=lambda s, n: s.background_tasks.get_task(f"task-{n}"),
        ),
        Operation(
            name="updateTask", domain="backgroundTasks", method="updateTask",
            args=("task-{n}", {"retryCount": 1}),
            ours=lambda s, n: s.background_tasks.update_task(f"task-{n}", {"retry_count": 1}),
        ),
        Operation(
            name="listTasks, page of 20", domain="backgroundTasks", method="listTasks",
            args=({"status": "running", "perPage": 20, "page": 0},),
            ours=lambda s, _: s.background_tasks.list_tasks(
                TaskFilter(status="running", per_page=20, page=0)
            ),
        ),
        Operation(
            name="createSchedule", domain="schedules", method="createSchedule",
            args=({"id": "made-{n}", **_SCHEDULE_OF_NODE},), is_new=True,
            ours=lambda s, n: s.schedules.create_schedule(_schedule(f"made-{n}")),
        ),
        Operation(
            name="getSchedule", domain="schedules", method="getSchedule",
            args=("schedule-{n}",), ours=lambda s, n: s.schedules.get_schedule(f"schedule-{n}"),
        ),
        Operation(
            name="listDueSchedules", domain="schedules", method="listDueSchedules",
            args=(_FIRE, 20),
            ours=lambda s, _: s.schedules.list_due_schedules(_FIRE, limit=20),
        ),
    ]  # fmt: skip


# -- rows ---------------------------------------------------------------------------------------

_SUSPENDED_ONE = Operation(
    name="", domain="workflows", method="persistWorkflowSnapshot",
    args=({"workflowName": "agentic-loop", "runId": "row-N",
           "snapshot": suspended("agent-A", "thread-T", kilobytes=0)},),
    ours=lambda *_: None,  # type: ignore[arg-type,return-value]  # only Node needs it
)  # fmt: skip


def _call_of(operation: Operation) -> dict[str, Any]:
    return {
        "domain": operation.domain,
        "method": operation.method,
        "args": list(operation.args),
    }


async def _prepare_ours(store: Any) -> None:
    await store.dangerously_clear_all()
    small, waiting = document(2), suspended("agent", "thread-1", kilobytes=1)
    for number in range(ROWS):
        await store.memory.save_thread(_thread(f"thread-{number}", "user"))
        await store.notifications.create_notification(
            event("inbox", id=f"note-{number}", deliver_at=NOW)
        )
        await store.workflows.persist_workflow_snapshot(**_run(number), snapshot=small)
        await store.workflows.persist_workflow_snapshot(
            workflow_name="agentic-loop", run_id=f"waiting-{number}", snapshot=waiting
        )
        await store.memory.save_messages([message("thread-2").replace(id=f"message-{number}")])
        await store.memory.update_resource(f"resource-{number}", working_memory="#")
        await store.thread_state.set_state(f"thread-{number}", "todo", {"items": [1]})
        await store.background_tasks.create_task(_task(f"task-{number}"))
        await store.schedules.create_schedule(_schedule(f"schedule-{number}"))


async def _prepare_theirs(peer: NodePeer) -> AsyncIterator[tuple[str, str]]:
    """The same rows on the other side; the domains that it hasn't, with the reason."""
    waiting = suspended("agent", "thread-1", kilobytes=1)
    small = document(2)
    rows: dict[str, list[tuple[str, tuple[Any, ...]]]] = {
        "memory": [
            ("saveThread", ({"thread": _thread_of_node("thread-{n}", "user")},)),
            ("saveMessages", ({"messages": [_message_of_node("message-{n}", "thread-2")],
                               "format": "v2"},)),
            ("updateResource", ({"resourceId": "resource-{n}", "workingMemory": "#"},)),
        ],
        "workflows": [
            ("persistWorkflowSnapshot", ({**_RUN, "snapshot": small},)),
            ("persistWorkflowSnapshot", ({"workflowName": "agentic-loop", "runId": "waiting-{n}",
                                          "snapshot": waiting},)),
        ],
        "notifications": [("createNotification", ({**_event_of_node("note-{n}", "inbox"),
                                                   "deliverAt": NOW},))],
        "threadState": [("setState", ({"threadId": "thread-{n}", "type": "todo",
                                       "value": {"items": [1]}},))],
        "backgroundTasks": [("createTask", ({"id": "task-{n}", **_TASK_OF_NODE},))],
        "schedules": [("createSchedule", ({"id": "schedule-{n}", **_SCHEDULE_OF_NODE},))],
    }  # fmt: skip
    for domain, calls in rows.items():
        try:
            for method, args in calls:
                await peer.do("time", domain=domain, method=method, args=list(args), calls=ROWS)
        except AssertionError as exc:
            yield domain, str(exc)
