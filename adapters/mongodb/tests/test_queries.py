"""How much the database does for a call: plans that use indexes, and no more commands than needed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase

from mastra_conformance.call_costs import suspended_snapshot
from mastra_core.rules.paging import check_page
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification, NotificationPatch
from mastra_mongodb import MongoStorage
from mastra_mongodb.schema import EPOCH
from mastra_mongodb.storage.notification_claims import due_stages
from mastra_mongodb.storage.workflow_lists import (
    owned_by,
    suspended_count_stages,
    suspended_page_stages,
)

pytestmark = pytest.mark.anyio

Database = AsyncDatabase[dict[str, Any]]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OUTER = "agentic-loop"


async def park(store: MongoStorage, count: int) -> None:
    """Suspended runs of four agents, each with its thread."""
    for number in range(count):
        await store.workflows.persist_workflow_snapshot(
            workflow_name=OUTER,
            run_id=f"r{number:03}",
            resource_id="u",
            snapshot=suspended_snapshot(f"agent-{number % 4}", thread_id=f"t{number % 4}"),
            created_at=NOW + timedelta(seconds=number),
        )


def stages_of(plan: Any) -> list[str]:
    """The names of all stages of a plan."""
    found: list[str] = []
    if isinstance(plan, Mapping):
        if isinstance(plan.get("stage"), str):
            found.append(plan["stage"])
        for name, part in plan.items():
            if name not in {"rejectedPlans", "command", "serverInfo", "allPlansExecution"}:
                found += stages_of(part)
    elif isinstance(plan, list):
        for part in plan:
            found += stages_of(part)
    return found


async def explained(database: Database, command: dict[str, Any]) -> dict[str, Any]:
    """The plan of a command, with what it looked at."""
    return await database.command({"explain": command, "verbosity": "executionStats"}, check=True)


def looked_at(plan: Mapping[str, Any]) -> tuple[int, int]:
    """Index keys and documents that an explained find or aggregate examined."""
    stats = plan.get("executionStats")
    if stats is None:
        [first, *_] = plan["stages"]
        stats = first["$cursor"]["executionStats"]
    return stats["totalKeysExamined"], stats["totalDocsExamined"]


# -- the inbox --------------------------------------------------------------------------------


async def fill_inbox(store: MongoStorage, count: int) -> None:
    for number in range(count):
        await store.notifications.create_notification(
            CreateNotification(
                thread_id="t",
                source="s",
                kind="k",
                summary="x",
                dedupe_key=f"d{number}",
                deliver_at=NOW + timedelta(seconds=number),
            )
        )


async def test_a_page_of_the_inbox_costs_the_page(store: MongoStorage, database: Database) -> None:
    await fill_inbox(store, 60)
    order = {"updatedAt": -1, "createdAt": -1, "id": 1}

    plan = await explained(
        database,
        {"find": "mastra_notifications", "filter": {"threadId": "t"}, "sort": order, "limit": 5},
    )

    assert "SORT" not in stages_of(plan)
    assert (5, 5) == looked_at(plan)


async def test_due_records_are_found_in_the_order_of_their_times(
    store: MongoStorage, database: Database
) -> None:
    """Not the whole backlog is read and sorted, but the first ones."""
    await fill_inbox(store, 60)
    stages = due_stages("mastra_notifications", NOW + timedelta(days=1), {}, limit=5)

    plan = await explained(
        database, {"aggregate": "mastra_notifications", "pipeline": stages[:3], "cursor": {}}
    )

    assert "SORT" not in stages_of(plan)
    assert "IXSCAN" in stages_of(plan)
    assert (5, 5) == looked_at(plan)


async def test_a_key_is_found_among_many_pending_records(
    store: MongoStorage, database: Database
) -> None:
    await fill_inbox(store, 60)
    scope = {
        "threadId": "t",
        "source": "s",
        "kind": "k",
        "status": "pending",
        "agentId": None,
        "resourceId": None,
        "dedupeKey": "d7",
    }

    plan = await explained(database, {"find": "mastra_notifications", "filter": scope})

    keys, documents = looked_at(plan)
    assert keys <= 3
    assert 1 == documents


async def test_unconfirmed_signals_are_found_by_their_time(
    store: MongoStorage, database: Database
) -> None:
    for number in range(30):
        record = await store.notifications.create_notification(
            CreateNotification(thread_id="t", source="s", kind="k", summary=f"{number}")
        )
        if number < 3:
            await store.notifications.record_acceptance("t", record.id, signal_id="x", at=NOW)
    wanted = {"acceptedAt": {"$gt": EPOCH, "$lt": NOW + timedelta(days=1)}}

    plan = await explained(database, {"find": "mastra_py_notification_claims", "filter": wanted})

    assert (3, 3) == looked_at(plan)


# -- suspended runs ---------------------------------------------------------------------------


async def test_a_page_of_suspended_runs_costs_the_page(
    store: MongoStorage, database: Database
) -> None:
    """Keys come from the index; documents of others, and conversations, aren't touched (G7)."""
    await park(store, 40)
    page = check_page(0, 3, store="mongodb", operation="list")
    for thread_id in (None, "t1"):
        branch = {"workflow_name": OUTER, **owned_by("agent-1", thread_id, None)[0]}
        stages = suspended_page_stages("mastra_workflow_snapshot", [branch], page)
        keys_only = [stage for stage in stages if "$lookup" not in stage][:4]

        plan = await explained(
            database,
            {"aggregate": "mastra_workflow_snapshot", "pipeline": keys_only, "cursor": {}},
        )

        assert "SORT" not in stages_of(plan)
        keys, documents = looked_at(plan)
        assert keys <= 4
        assert documents <= 3


async def test_suspended_runs_are_counted_without_reading_them(
    store: MongoStorage, database: Database
) -> None:
    await park(store, 40)
    branch = {"workflow_name": OUTER, **owned_by("agent-1", None, None)[0]}

    plan = await explained(
        database,
        {
            "aggregate": "mastra_workflow_snapshot",
            "pipeline": suspended_count_stages("mastra_workflow_snapshot", [branch]),
            "cursor": {},
        },
    )

    keys, documents = looked_at(plan)
    assert keys <= 11
    assert 0 == documents


async def test_listing_ships_no_conversation(store: MongoStorage, database: Database) -> None:
    """The bytes of the answer are those of the page."""
    await park(store, 8)
    await database.command({"profile": 2})

    page = await store.workflows.list_suspended_runs(
        workflow_names=[OUTER], agent_id="agent-1", page=0, per_page=10
    )

    await database.command({"profile": 0})
    answers = (
        await database["system.profile"].find({"command.aggregate": {"$exists": True}}).to_list()
    )
    assert 2 == page.total
    assert ["u", "u"] == [row.resource_id for row in page.rows]
    assert max(answer["responseLength"] for answer in answers) < 3_000


# -- histories --------------------------------------------------------------------------------


async def test_a_page_of_a_history_costs_the_page(store: MongoStorage, database: Database) -> None:
    messages = [
        Message(
            id=f"m{number:03}",
            role="user",
            thread_id="t",
            resource_id="u",
            created_at=NOW + timedelta(seconds=number),
            content={"format": 2, "parts": []},
        )
        for number in range(100)
    ]
    await store.memory.save_messages(messages)

    for member, value in (("thread_id", "t"), ("resourceId", "u")):
        plan = await explained(
            database,
            {
                "find": "mastra_messages",
                "filter": {member: value},
                "sort": {"createdAt": -1, "id": -1},
                "limit": 7,
            },
        )
        assert "SORT" not in stages_of(plan)
        assert (7, 7) == looked_at(plan)


# -- commands per call ------------------------------------------------------------------------


async def test_one_command_is_enough_for_the_plain_calls(
    store: MongoStorage, database: Database
) -> None:
    """The minimum of round trips is one (perf.md, lever 1)."""
    inbox, runs = store.notifications, store.workflows
    event = CreateNotification(
        thread_id="t", source="s", kind="k", summary="x", dedupe_key="d", deliver_at=None
    )
    record = await inbox.create_notification(event)
    key = {"workflow_name": "w", "run_id": "r"}
    await runs.persist_workflow_snapshot(**key, snapshot={"status": "running", "context": {}})
    await database.command({"profile": 2})
    calls = [
        inbox.create_notification(event),
        inbox.get_notification("t", record.id),
        inbox.update_notification("t", record.id, NotificationPatch(status="seen")),
        inbox.list_notifications("t"),
        inbox.list_due_notifications(NOW),
        runs.persist_workflow_snapshot(**key, snapshot={"status": "running", "context": {}}),
        runs.load_workflow_snapshot(**key),
        runs.update_workflow_results(**key, step_id="a.$b", result={"status": "success"}),
        runs.update_workflow_state(**key, opts={"status": "success"}),
        store.memory.get_thread_by_id("t"),
        store.memory.list_messages("t", include_total=False),
        store.thread_state.set_state("t", "x", {"a": 1}),
    ]

    for call in calls:
        await call

    await database.command({"profile": 0})
    wanted = {"op": {"$in": ["command", "query", "insert", "update", "remove"]}}
    seen = await database["system.profile"].find(wanted).to_list()
    ours = [one for one in seen if one.get("appName") == "mastra-core-python"]
    assert len(calls) == len(ours), [one["command"] for one in ours]
