"""How much the database does for a call: statements, documents, plans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

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
from mastra_libsql import LibSQLStorage
from mastra_sql.executor import Executed

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]
OUTER = ["agentic-loop", "durable-agentic-loop"]


# -- statements per call ----------------------------------------------------------------------


class TestCallCosts(CountsStatements):
    """What all SQL adapters keep to."""


async def test_a_keyed_create_that_merges_is_one_look_and_one_write(
    store: LibSQLStorage, executed: list[Executed]
) -> None:
    await store.notifications.create_notification(event(dedupe_key="d"))
    executed.clear()

    await store.notifications.create_notification(event(dedupe_key="d"))

    assert ["notifications.find_match", "notifications.update"] == [e.statement for e in executed]


@case("snapshots", 57)
async def test_a_page_of_suspended_runs_reads_only_its_documents(
    store: LibSQLStorage, executed: list[Executed]
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


async def test_a_listed_run_ships_none_of_the_conversation(
    store: LibSQLStorage, executed: list[Executed], query: Query
) -> None:
    """What comes out of the database is what the page shows, not the stored document."""
    await store.workflows.persist_workflow_snapshot(
        workflow_name="agentic-loop", run_id="r", snapshot=suspended_snapshot("mine")
    )
    executed.clear()

    await store.workflows.list_suspended_runs(
        workflow_names=OUTER, agent_id="mine", page=0, per_page=10
    )

    [listing] = [e for e in executed if e.documents]
    stored = query("SELECT length(json(snapshot)) FROM mastra_workflow_snapshot")[0][0]
    assert stored > 5000
    assert "jsonb_remove" in listing.sql


def plan_of(query: Query, sql: str) -> list[str]:
    """The lines of SQLite's plan for a statement."""
    values = [None] * sql.count("?")
    return [detail for *_, detail in query(f"EXPLAIN QUERY PLAN {sql}", *values)]


# -- plans ------------------------------------------------------------------------------------


async def test_no_hot_call_scans_a_table(
    store: LibSQLStorage, executed: list[Executed], query: Query
) -> None:
    """Every statement on the hot paths goes through an index (field report R25)."""
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
        lambda: runs.list_workflow_runs(workflow_name="agentic-loop", page=0, per_page=20),
        lambda: runs.list_suspended_runs(
            workflow_names=OUTER, agent_id="mine", page=0, per_page=20
        ),
        lambda: runs.list_suspended_runs(
            workflow_names=OUTER, agent_id="mine", thread_id="t", page=0, per_page=20
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
    executed.clear()
    for call in calls:
        await call()

    found = {}
    for sql in {e.sql for e in executed}:
        plan = plan_of(query, sql)
        scans = [
            line
            for line in plan
            if line.startswith("SCAN") and "mastra_" in line and "USING" not in line
        ]
        if scans:
            found[sql] = scans
    assert {} == found


async def test_pages_of_suspended_runs_walk_the_index_in_order(
    store: LibSQLStorage, executed: list[Executed], query: Query
) -> None:
    """Neither page nor count touches a row that isn't on the page."""
    executed.clear()
    await store.workflows.list_suspended_runs(
        workflow_names=OUTER, agent_id="mine", page=0, per_page=20
    )

    plans = {e.statement: plan_of(query, e.sql) for e in executed}

    index = "USING COVERING INDEX mpy_wf_suspended"
    assert any(index in line for line in plans["workflows.suspended_count"])
    assert 2 == sum(index in line for line in plans["workflows.suspended_page"])


async def test_node_finds_suspended_runs_through_our_index(
    store: LibSQLStorage, query: Query
) -> None:
    """Node's own filter, with the status as a constant, needs no scan either."""
    sql = (
        "SELECT * FROM mastra_workflow_snapshot WHERE workflow_name = 'agentic-loop' "
        "AND json_extract(snapshot, '$.status') = 'suspended' ORDER BY \"createdAt\" DESC"
    )

    assert any("mpy_wf_status_idx" in line for line in plan_of(query, sql))
