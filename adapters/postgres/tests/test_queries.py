"""How much the database does for a call: statements, documents, plans."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from mastra_conformance import case
from mastra_conformance.call_costs import (
    NOW,
    CountsStatements,
    event,
    message,
    suspended_snapshot,
    task,
    thread,
)
from mastra_core.contracts.storage import DateRange, IncludeMessage, TaskFilter
from mastra_core.wire.notifications import NotificationPatch
from mastra_core.wire.snapshots import ResumeClaim
from mastra_postgres import PostgresStorage
from mastra_sql.executor import Executed, ProgramFactory, Rows, Step

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]
OUTER = ["agentic-loop", "durable-agentic-loop"]


# -- statements per call ----------------------------------------------------------------------


class TestCallCosts(CountsStatements):
    """What all SQL adapters keep to."""


@case("snapshots", 57)
async def test_a_page_of_suspended_runs_reads_only_its_documents(
    store: PostgresStorage, executed: list[Executed]
) -> None:
    """250 runs of one agent among 1000: a page of 10 fetches 10 documents, the total is right."""
    await store.workflows.persist_workflow_snapshots(
        [
            {
                "workflow_name": "agentic-loop",
                "run_id": f"run{n:04}",
                "snapshot": suspended_snapshot("mine" if n % 4 == 0 else f"other{n % 7}"),
                "created_at": NOW + timedelta(seconds=n),
            }
            for n in range(1000)
        ]
    )
    executed.clear()

    page = await store.workflows.list_suspended_runs(
        workflow_names=OUTER, agent_id="mine", page=3, per_page=10
    )

    assert (10, 250) == (len(page.rows), page.total)
    assert [f"run{4 * (249 - 30 - n):04}" for n in range(10)] == [row.run_id for row in page.rows]
    assert 10 == sum(e.documents for e in executed)


# -- plans ------------------------------------------------------------------------------------


class Recorder:
    """Takes down the statements of calls, with their values."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self.taken: list[Step] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    async def read(self, operation: str, *steps: Step) -> list[Rows]:
        self.taken += steps
        rows: list[Rows] = await self._executor.read(operation, *steps)
        return rows

    async def write(self, operation: str, step: Step) -> Rows:
        self.taken.append(step)
        rows: Rows = await self._executor.write(operation, step)
        return rows

    async def transact(self, operation: str, program: ProgramFactory[Any]) -> Any:
        def recorded() -> Any:
            running = program()
            try:
                wanted = next(running)
                while True:
                    self.taken.extend(wanted)
                    wanted = running.send((yield wanted))
            except StopIteration as finished:
                return finished.value

        return await self._executor.transact(operation, recorded)


@pytest.fixture
def recorder(store: PostgresStorage) -> Iterator[Recorder]:
    door: Any = store._door
    client = door.client
    door.client = Recorder(client)
    yield door.client
    door.client = client


#: Rows of five threads, agents and resources, none of which is special.
_CROWD = (
    """INSERT INTO mastra_threads (id, "resourceId", title, "createdAt", "updatedAt",
         "createdAtZ", "updatedAtZ")
       SELECT 'x' || n, 'u' || n % 5, '', at, at, at, at FROM crowd""",
    """INSERT INTO mastra_messages (id, thread_id, content, role, type, "createdAt",
         "resourceId", "createdAtZ")
       SELECT 'x' || n, 'x' || n % 5, '{}', 'user', 'v2', at, 'u' || n % 5, at FROM crowd""",
    """INSERT INTO mastra_notifications (id, "threadId", source, kind, priority, status, summary,
         "coalescedCount", "deliveryAttempts", "dedupeKey", "createdAt", "updatedAt", "createdAtZ",
         "deliverAt")
       SELECT 'x' || n, 'x' || n % 5, 's', 'k', 'low',
         CASE WHEN n % 3 = 0 THEN 'pending' ELSE 'seen' END, 'x', 1, 0, 'd' || n, at, at, at,
         CASE WHEN n % 3 = 0 THEN at + interval '10 years' END
       FROM crowd""",
    """INSERT INTO mastra_workflow_snapshot (workflow_name, run_id, snapshot, "createdAt",
         "updatedAt", "createdAtZ")
       SELECT 'agentic-loop', 'x' || n, jsonb_build_object(
         'status', CASE WHEN n % 2 = 0 THEN 'suspended' ELSE 'success' END, 'context',
         jsonb_build_object('executionWorkflow', jsonb_build_object('suspendPayload',
           jsonb_build_object('__agentId', 'agent' || n % 5, '__streamState',
             jsonb_build_object('messageList', jsonb_build_object('memoryInfo',
               jsonb_build_object('threadId', 'x' || n % 10, 'resourceId', 'u' || n % 5))))))),
         at, at, at FROM crowd""",
    """INSERT INTO mastra_background_tasks (id, tool_call_id, tool_name, agent_id, run_id, status,
         args, retry_count, max_retries, timeout_ms, "createdAt")
       SELECT 'x' || n, 'c' || n, 't', 'a' || n % 5, 'r', 'completed', '{}', 0, 0, 0, at
       FROM crowd""",
    """INSERT INTO mastra_thread_state ("threadId", type, value, "createdAt", "updatedAt")
       SELECT 'x' || n, 't', '1', at, at FROM crowd""",
    """INSERT INTO mastra_schedule_triggers (id, schedule_id, scheduled_fire_at, actual_fire_at,
         outcome, trigger_kind)
       SELECT 'x' || n, 's' || n % 5, n, n, 'published', 'k' FROM crowd""",
    """INSERT INTO mastra_schedules (id, target, cron, status, next_fire_at, created_at, updated_at)
       SELECT 'x' || n, '{}', '-', 'active', n, n, n FROM crowd""",
    """INSERT INTO mastra_py_notification_claims ("threadId", "notificationId", token, generation,
         "fullDue", "summaryDue", "claimedCount")
       SELECT 'x' || n % 5, 'x' || n, 1, 1, 0, 0, 1 FROM crowd""",
)


def fill(query: Query) -> None:
    """Enough rows that reading all of them is never the cheapest way."""
    crowd = (
        "WITH crowd AS (SELECT n, timestamp '2026-01-01' + n * interval '1 second' AS at "
        "FROM generate_series(1, 6000) AS n) "
    )
    for insert in _CROWD:
        query(crowd + insert)
    query("ANALYZE")


async def plan_of(connection: Any, step: Step) -> dict[str, Any]:
    """What the server would do for a statement with its values."""
    cursor = await connection.execute(f"EXPLAIN (FORMAT JSON) {step.statement.sql}", step.values)
    [(found,)] = await cursor.fetchall()
    return dict(found[0]["Plan"])


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes_of(part)


def indexes_in(plan: dict[str, Any]) -> set[str]:
    return {node["Index Name"] for node in nodes_of(plan) if "Index Name" in node}


@pytest.fixture
async def explaining(url: str) -> Any:
    async with await psycopg.AsyncConnection.connect(
        url, autocommit=True, cursor_factory=psycopg.AsyncRawCursor
    ) as connection:
        yield connection


async def test_no_hot_call_scans_a_table(
    store: PostgresStorage, recorder: Recorder, query: Query, explaining: Any
) -> None:
    """Every statement on the hot paths goes through an index (field report R25)."""
    fill(query)
    record = await store.notifications.create_notification(event(dedupe_key="d", deliver_at=NOW))
    await store.memory.save_thread(thread())
    await store.memory.save_messages([message(1), message(2)])
    await store.background_tasks.create_task(task())
    claim = ResumeClaim(
        claim_id="c",
        owner="o",
        payload_hash="h",
        acquired_at=NOW,
        expires_at=NOW + timedelta(minutes=1),
    )
    key = {"workflow_name": "agentic-loop", "run_id": "r"}
    await store.workflows.persist_workflow_snapshot(**key, snapshot=suspended_snapshot("mine"))
    inbox, runs, memory = store.notifications, store.workflows, store.memory
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: inbox.create_notification(event(dedupe_key="d")),
        lambda: inbox.create_notification(event()),
        lambda: inbox.get_notification("t", record.id),
        lambda: inbox.list_notifications("t", limit=20),
        lambda: inbox.list_notifications("t", status=["pending", "delivered"], limit=20),
        lambda: inbox.list_due_notifications(NOW, limit=20),
        lambda: inbox.update_notification("t", record.id, NotificationPatch(summary="y")),
        lambda: inbox.update_notifications_status("t", [record.id], "pending"),
        lambda: inbox.claim_due(NOW, "me", limit=20),
        lambda: inbox.claim_unconfirmed(NOW, "me", limit=20),
        lambda: memory.get_thread_by_id("t"),
        lambda: memory.update_thread("t", title="x"),
        lambda: memory.list_threads(resource_id="u"),
        lambda: memory.save_messages([message(3)]),
        lambda: memory.list_messages("t"),
        lambda: memory.list_messages("t", date_range=DateRange(start=NOW)),
        lambda: memory.list_messages(
            "t", include=[IncludeMessage(id="m1", with_previous_messages=2, with_next_messages=2)]
        ),
        lambda: memory.list_messages_by_resource_id("u"),
        lambda: memory.list_messages_by_id(["m1", "m2"]),
        lambda: memory.delete_messages(["m2"]),
        lambda: runs.load_workflow_snapshot(**key),
        lambda: runs.persist_workflow_snapshot(**key, snapshot=suspended_snapshot("mine")),
        lambda: runs.update_workflow_results(**key, step_id="s", result={"status": "success"}),
        lambda: runs.list_suspended_runs(
            workflow_names=OUTER, agent_id="mine", page=0, per_page=20
        ),
        lambda: runs.list_suspended_runs(
            workflow_names=OUTER, agent_id="mine", thread_id="t", page=0, per_page=20
        ),
        lambda: runs.list_suspended_runs(
            workflow_names=OUTER, agent_id="mine", resource_id="u", page=0, per_page=20
        ),
        lambda: runs.get_workflow_run_by_id(run_id="r"),
        lambda: runs.claim_resume(**key, claim=claim),
        lambda: runs.recover_expired_claims(workflow_names=OUTER),
        lambda: store.schedules.list_due_schedules(0),
        lambda: store.schedules.list_triggers("s", limit=10),
        lambda: store.thread_state.get_state("t", "x"),
        lambda: store.background_tasks.get_task("task"),
        store.background_tasks.get_running_count,
        lambda: store.background_tasks.list_tasks(TaskFilter(status="running")),
    ]
    recorder.taken.clear()
    for call in calls:
        await call()

    found = {}
    for step in {step.statement.sql: step for step in recorder.taken}.values():
        plan = await plan_of(explaining, step)
        scans = [n["Relation Name"] for n in nodes_of(plan) if n["Node Type"] == "Seq Scan"]
        if scans:
            found[step.statement.sql] = scans
    assert {} == found


async def test_pages_walk_the_index_that_was_made_for_them(
    store: PostgresStorage, recorder: Recorder, query: Query, explaining: Any
) -> None:
    """In its order, so that no page has to be sorted: cost doesn't grow with the table."""
    fill(query)
    inbox, runs, memory = store.notifications, store.workflows, store.memory
    wanted: dict[str, Callable[[], Awaitable[Any]]] = {
        "mpy_notifications_inbox_idx": lambda: inbox.list_notifications("x3", limit=20),
        "mpy_notifications_due_idx": lambda: inbox.list_due_notifications(
            datetime(2036, 1, 1, 1, tzinfo=UTC), limit=20
        ),
        "mpy_messages_thread_idx": lambda: memory.list_messages("x3", include_total=False),
        "mpy_messages_resource_idx": lambda: memory.list_messages_by_resource_id(
            "u3", include_total=False
        ),
        "mpy_wf_suspended_idx": lambda: runs.list_suspended_runs(
            workflow_names=["agentic-loop"], agent_id="agent3", page=0, per_page=20
        ),
        "mpy_wf_suspended_thread_idx": lambda: runs.list_suspended_runs(
            workflow_names=["agentic-loop"], agent_id="agent3", thread_id="x8", page=0, per_page=20
        ),
    }
    for index, call in wanted.items():
        recorder.taken.clear()
        await call()
        plan = await plan_of(explaining, recorder.taken[0])

        assert index in indexes_in(plan), json.dumps(plan, indent=1)
        sorts = [n for n in nodes_of(plan) if n["Node Type"] == "Sort"]
        # The page itself may be sorted once more; that is never more than its rows.
        assert all(n["Plan Rows"] <= 41 for n in sorts), json.dumps(plan, indent=1)


async def test_counting_suspended_runs_opens_no_document(
    store: PostgresStorage, recorder: Recorder, query: Query, explaining: Any
) -> None:
    """The index decides; rows are looked at only for whether they are still there."""
    fill(query)
    recorder.taken.clear()
    await store.workflows.list_suspended_runs(
        workflow_names=["agentic-loop"], agent_id="agent3", page=0, per_page=20
    )
    [count] = [s for s in recorder.taken if s.statement.name == "workflows.suspended_count"]

    plan = await plan_of(explaining, count)

    assert {"mpy_wf_suspended_idx"} == indexes_in(plan)
    assert not [n for n in nodes_of(plan) if "Filter" in n]


async def test_node_finds_suspended_runs_through_its_own_index(
    store: PostgresStorage, query: Query
) -> None:
    """Node's own filter needs no scan of a database that we created."""
    fill(query)
    lines = query(
        "EXPLAIN SELECT * FROM mastra_workflow_snapshot WHERE workflow_name = 'agentic-loop' "
        "AND snapshot ->> 'status' = 'running' ORDER BY \"createdAt\" DESC LIMIT 10"
    )

    assert "mastra_workflow_snapshot_name_status_createdat_idx" in str(lines)
