"""One database, two languages: what Node wrote reads right, and keeps what we don't know."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase

from mastra_conformance import case
from mastra_conformance.node_scene import ReadsNodeScene
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification, NotificationPatch
from mastra_core.wire.snapshots import ResumeClaim
from mastra_mongodb import MongoStorage

pytestmark = pytest.mark.anyio

Database = AsyncDatabase[dict[str, Any]]

#: With transactions and change streams, and without.
BOTH = pytest.mark.parametrize("product", ["mongodb", "mongodb-standalone"])

OUTER = ["agentic-loop", "durable-agentic-loop"]


async def run_id_of(database: Database) -> str:
    row = await database.mastra_workflow_snapshot.find_one({"workflow_name": "agentic-loop"})
    assert row is not None
    return str(row["run_id"])


# -- reading ----------------------------------------------------------------------------------


@BOTH
class TestNodeScene(ReadsNodeScene):
    """What all adapters read alike."""


@BOTH
async def test_nodes_thread_is_listed(node_store: MongoStorage) -> None:
    page = await node_store.memory.list_threads(resource_id="user_123")

    [thread] = page.threads
    assert ("thread_456", "") == (thread.id, thread.title)
    assert thread.metadata is not None
    assert "k1" == thread.metadata["mastra"]["stateSignals"]["browser"]["currentCacheKey"]
    assert datetime(2026, 11, 30, 5, 36, 40, 519000, tzinfo=UTC) == thread.created_at


async def test_every_field_of_nodes_records_is_read(
    node_store: MongoStorage, database: Database
) -> None:
    """All 31 members of every document come out as the same value, per member."""
    rows = await database.mastra_notifications.find({}, {"_id": 0}).to_list()
    assert 4 == len(rows)

    for row in rows:
        record = await node_store.notifications.get_notification(row["threadId"], row["id"])

        assert record is not None
        read = record.model_dump(by_alias=True)
        assert 31 == len(row)
        assert row == {name: read[name] for name in row}


async def test_nodes_suspended_run_is_listed_with_its_parked_call(
    node_store: MongoStorage, database: Database
) -> None:
    """The approval of ``deploy`` is found, without the conversation that goes with it."""
    page = await node_store.workflows.list_suspended_runs(
        workflow_names=OUTER,
        agent_id="support-agent",
        thread_id="thread_456",
        resource_id="user_123",
        page=0,
        per_page=10,
    )

    [row] = page.rows
    run_id = await run_id_of(database)
    assert (1, run_id, "support-agent") == (page.total, row.run_id, row.agent_id)
    assert ("thread_456", "user_123") == (row.thread_id, row.resource_id)
    approval = row.steps["executionWorkflow"]["requireToolApproval"]
    assert {"toolCallId": "call_1", "toolName": "deploy", "args": {"env": "prod"}} == approval
    assert "__streamState" not in json.dumps(row.steps)
    assert "call_1" in row.resume_labels


@case("snapshots", 46)
async def test_a_snapshot_loads_as_document_and_as_text(
    node_store: MongoStorage, database: Database
) -> None:
    """Node writes sub-documents; text by older versions parses just as well, and can be merged."""
    key = {"workflow_name": "agentic-loop", "run_id": await run_id_of(database)}
    as_document = await node_store.workflows.load_workflow_snapshot(**key)
    assert as_document is not None

    await database.mastra_workflow_snapshot.update_one(
        key, {"$set": {"snapshot": json.dumps(as_document)}}
    )
    as_text = await node_store.workflows.load_workflow_snapshot(**key)
    merged = await node_store.workflows.update_workflow_results(
        **key, step_id="s", result={"status": "success"}
    )

    assert "suspended" == as_document["status"]
    assert as_document == as_text
    assert {"status": "success"} == merged["s"]
    assert merged.keys() > as_document["context"].keys()


async def test_dates_inside_of_nodes_snapshots_are_text(
    node_store: MongoStorage, database: Database
) -> None:
    """Node leaves JavaScript dates in there; a document of JSON has none."""
    key = {"workflow_name": "executionWorkflow", "run_id": await run_id_of(database)}

    document = await node_store.workflows.load_workflow_snapshot(**key)

    assert document is not None
    metadata = document["context"]["llm-execution"]["output"]["metadata"]["providerMetadata"]
    assert metadata is None
    stamp = document["context"]["llm-execution"]["output"]["metadata"]["timestamp"]
    assert "1970-01-01T00:00:00.000Z" == stamp
    assert isinstance(document["context"]["llm-execution"]["startedAt"], int)


async def test_nodes_schedule_is_listed(node_store: MongoStorage) -> None:
    [schedule] = await node_store.schedules.list_schedules(
        workflow_id="__mastra_notification_dispatcher"
    )

    assert ["type", "workflowId", "inputData"] == list(schedule.target)
    assert {"internal": True, "feature": "notifications"} == schedule.metadata
    assert 1796017020000 == schedule.next_fire_at


# -- writing ----------------------------------------------------------------------------------


@case("notifications", 125)
async def test_what_we_write_has_nodes_form(store: MongoStorage, database: Database) -> None:
    """Every field exists, times are dates, counts are 32-bit; the four indexes are there."""
    moment = datetime(2026, 5, 4, 3, 2, 1, 987654, tzinfo=UTC)
    await store.notifications.create_notification(
        CreateNotification(
            thread_id="t",
            source="s",
            kind="k",
            summary="hello",
            payload={"at": moment, "n": [1, 2.5, None]},
            deliver_at=moment,
            created_at=moment,
        )
    )

    row = await database.mastra_notifications.find_one({}, {"_id": 0})
    indexes = await database.mastra_notifications.index_information()
    kinds = await database.mastra_notifications.aggregate(
        [{"$project": {"_id": 0, "n": {"$type": "$coalescedCount"}, "at": {"$type": "$deliverAt"}}}]
    )

    assert row is not None
    assert 31 == len(row)
    assert {"at": "2026-05-04T03:02:01.987Z", "n": [1, 2.5, None]} == row["payload"]
    assert row["attributes"] is None
    assert [{"n": "int", "at": "date"}] == await kinds.to_list()
    assert {
        "threadId_1_id_1",
        "threadId_1_status_1_updatedAt_-1",
        "threadId_1_source_1_kind_1_status_1_agentId_1_resourceId_1_dedupeKey_1_coalesceKey_1",
        "status_1_deliverAt_1_summaryAt_1",
    } <= indexes.keys()


async def test_a_message_is_stored_as_text(store: MongoStorage, database: Database) -> None:
    """Its content is no sub-document, and a message without a type gets Node's filler."""
    await store.memory.save_messages(
        [
            Message(
                id="m1",
                role="assistant",
                created_at=datetime(2026, 1, 1, tzinfo=UTC),
                thread_id="t",
                resource_id="u",
                content={"format": 2, "parts": []},
            )
        ]
    )

    row = await database.mastra_messages.find_one({}, {"_id": 0})

    assert {
        "id": "m1",
        "thread_id": "t",
        "content": '{"format":2,"parts":[]}',
        "role": "assistant",
        "type": "v2",
        "createdAt": datetime(2026, 1, 1, tzinfo=UTC),
        "resourceId": "u",
    } == row


@BOTH
async def test_members_that_we_do_not_know_survive(
    node_store: MongoStorage, database: Database
) -> None:
    """A newer peer's additions are still there after every kind of write of ours."""
    names = ("threads", "messages", "notifications", "workflow_snapshot")
    for name in names:
        await database[f"mastra_{name}"].update_many({}, {"$set": {"newer": "kept"}})
    await database.mastra_threads.update_many({}, {"$set": {"metadata.newer": {"x": [1]}}})
    message = await database.mastra_messages.find_one({"type": "user"})
    low = await database.mastra_notifications.find_one({"priority": "low"})
    assert message is not None
    assert low is not None
    run_id = await run_id_of(database)

    thread = await node_store.memory.update_thread("thread_456", title="Deployments")
    await node_store.memory.save_thread(thread)
    await node_store.memory.update_messages([{"id": message["id"], "content": {"ours": 1}}])
    await node_store.notifications.update_notification(
        "thread_456", low["id"], NotificationPatch(status="seen")
    )
    key = {"workflow_name": "agentic-loop", "run_id": run_id}
    await node_store.workflows.update_workflow_state(**key, opts={"status": "suspended"})
    document = await node_store.workflows.load_workflow_snapshot(**key)
    assert document is not None
    await node_store.workflows.persist_workflow_snapshot(**key, snapshot=document)

    for name in names:
        assert ["kept"] == await database[f"mastra_{name}"].distinct("newer")
    stored = await database.mastra_threads.find_one({})
    assert stored is not None
    assert {"x": [1]} == stored["metadata"]["newer"]
    patched = await database.mastra_messages.find_one({"id": message["id"]})
    assert patched is not None
    assert "signal" in json.loads(patched["content"])["metadata"]


@BOTH
async def test_a_claimed_run_goes_back_as_it_was(
    node_store: MongoStorage, database: Database
) -> None:
    """Claim and release change two members; everything of Node's comes back in its order."""
    key = {"workflow_name": "agentic-loop", "run_id": await run_id_of(database)}
    before = await node_store.workflows.load_workflow_snapshot(**key)
    now = datetime.now(UTC)
    claim = ResumeClaim(
        claim_id="c1",
        owner="p1",
        payload_hash="h",
        acquired_at=now,
        expires_at=now + timedelta(minutes=1),
    )

    claimed = await node_store.workflows.claim_resume(**key, claim=claim)
    during = await database.mastra_workflow_snapshot.find_one(key)
    released = await node_store.workflows.release_resume_claim(**key, claim_id="c1")

    assert claimed
    assert during is not None
    snapshot: dict[str, Any] = during["snapshot"]
    assert ("running", "c1") == (snapshot["status"], snapshot["resumeClaim"]["claimId"])
    assert released
    after = await node_store.workflows.load_workflow_snapshot(**key)
    assert json.dumps(before) == json.dumps(after)
