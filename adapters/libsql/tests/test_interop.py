"""One database, two languages: what Node wrote reads right, and keeps what we don't know."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mastra_conformance import case
from mastra_conformance.node_scene import ReadsNodeScene
from mastra_core.base.isotime import parse_iso
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification, NotificationPatch
from mastra_core.wire.snapshots import ResumeClaim
from mastra_libsql import LibSQLStorage

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]

RUN_ID = "1d2c1594-18e9-443e-a625-cb02a6162be1"
ISO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
TIMES = (
    "createdAt",
    "updatedAt",
    "deliveredAt",
    "seenAt",
    "dismissedAt",
    "archivedAt",
    "discardedAt",
    "deliverAt",
    "summaryAt",
    "lastDeliveryAttemptAt",
)


# -- reading ----------------------------------------------------------------------------------


class TestNodeScene(ReadsNodeScene):
    """What all adapters read alike."""


async def test_nodes_thread_is_listed(node_store: LibSQLStorage) -> None:
    page = await node_store.memory.list_threads(resource_id="user_123")

    [thread] = page.threads
    assert ("thread_456", "") == (thread.id, thread.title)
    assert thread.metadata is not None
    assert "k1" == thread.metadata["mastra"]["stateSignals"]["browser"]["currentCacheKey"]
    assert datetime(2026, 11, 30, 5, 37, 1, 376000, tzinfo=UTC) == thread.created_at


async def test_every_field_of_nodes_records_is_read(
    node_store: LibSQLStorage, query: Query
) -> None:
    """All 31 columns of every row come out as the same value, per field."""
    columns = [
        name for (name,) in query("SELECT name FROM pragma_table_info('mastra_notifications')")
    ]
    json_columns = {"payload", "attributes", "metadata"}
    selected = ", ".join(f'json("{c}")' if c in json_columns else f'"{c}"' for c in columns)
    rows = query(f"SELECT {selected} FROM mastra_notifications")
    assert 31 == len(columns)
    assert 4 == len(rows)

    for row in rows:
        stored = dict(zip(columns, row, strict=True))
        record = await node_store.notifications.get_notification(stored["threadId"], stored["id"])
        assert record is not None
        read = record.model_dump(by_alias=True)
        for column, value in stored.items():
            expected = value
            if value is not None and column in json_columns:
                expected = json.loads(value)
            elif value is not None and column in TIMES:
                expected = parse_iso(value)
            assert (column, expected) == (column, read[column])


@case("snapshots", 43)
async def test_a_snapshot_loads_as_jsonb_and_as_text(
    node_store: LibSQLStorage, query: Query
) -> None:
    """Node writes JSONB blobs; plain text by anybody else parses just as well."""
    key = {"workflow_name": "agentic-loop", "run_id": RUN_ID}
    assert [("blob",)] == query(
        "SELECT typeof(snapshot) FROM mastra_workflow_snapshot WHERE workflow_name = 'agentic-loop'"
    )
    as_blob = await node_store.workflows.load_workflow_snapshot(**key)

    query("UPDATE mastra_workflow_snapshot SET snapshot = json(snapshot)")
    as_text = await node_store.workflows.load_workflow_snapshot(**key)

    assert as_blob is not None
    assert "suspended" == as_blob["status"]
    assert as_blob == as_text
    assert list(as_blob) == list(as_text or {})


async def test_nodes_suspended_run_is_listed_with_its_parked_call(
    node_store: LibSQLStorage,
) -> None:
    """The approval of ``deploy`` is found, without the conversation that goes with it."""
    page = await node_store.workflows.list_suspended_runs(
        workflow_names=["agentic-loop", "durable-agentic-loop"],
        agent_id="support-agent",
        thread_id="thread_456",
        resource_id="user_123",
        page=0,
        per_page=10,
    )

    [row] = page.rows
    assert (1, RUN_ID, "support-agent") == (page.total, row.run_id, row.agent_id)
    assert ("thread_456", "user_123") == (row.thread_id, row.resource_id)
    approval = row.steps["executionWorkflow"]["requireToolApproval"]
    assert {"toolCallId": "call_1", "toolName": "deploy", "args": {"env": "prod"}} == approval
    assert "__streamState" not in json.dumps(row.steps)
    assert "call_1" in row.resume_labels


async def test_nodes_schedule_is_listed(node_store: LibSQLStorage) -> None:
    [schedule] = await node_store.schedules.list_schedules(
        workflow_id="__mastra_notification_dispatcher"
    )

    assert ["type", "workflowId", "inputData"] == list(schedule.target)
    assert {"internal": True, "feature": "notifications"} == schedule.metadata


# -- writing ----------------------------------------------------------------------------------


@case("notifications", 122)
async def test_what_we_write_has_nodes_form(store: LibSQLStorage, query: Query) -> None:
    """Times are ISO text with three decimals and Z; JSON columns are JSONB blobs."""
    moment = datetime(2026, 5, 4, 3, 2, 1, 987654, tzinfo=UTC)
    record = await store.notifications.create_notification(
        CreateNotification(
            thread_id="t",
            source="s",
            kind="k",
            summary="hello",
            payload={"at": moment, "n": [1, 2.5, None]},
            attributes={"pr": 12},
            metadata={"a": {"b": True}},
            deliver_at=moment,
            summary_at=moment,
            created_at=moment,
        )
    )
    for status in ("delivered", "seen", "dismissed", "archived", "discarded"):
        await store.notifications.update_notification(
            "t",
            record.id,
            NotificationPatch(status=status, last_delivery_attempt_at=moment),
        )

    selected = ", ".join(f'"{name}"' for name in TIMES)
    [times] = query(f"SELECT {selected} FROM mastra_notifications")
    [kinds] = query(
        "SELECT typeof(payload), typeof(attributes), typeof(metadata) FROM mastra_notifications"
    )
    [texts] = query(
        "SELECT json(payload), json(attributes), json(metadata) FROM mastra_notifications"
    )

    assert [] == [(name, at) for name, at in zip(TIMES, times, strict=True) if not ISO.match(at)]
    assert "2026-05-04T03:02:01.987Z" == times[0]
    assert ("blob", "blob", "blob") == kinds
    assert (
        '{"at":"2026-05-04T03:02:01.987Z","n":[1,2.5,null]}',
        '{"pr":12}',
        '{"a":{"b":true}}',
    ) == texts


async def test_a_message_is_stored_as_plain_text_json(store: LibSQLStorage, query: Query) -> None:
    """Its content is no JSONB, and a message without a type gets Node's filler."""
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

    assert [("text", '{"format":2,"parts":[]}', "v2", "2026-01-01T00:00:00.000Z")] == query(
        'SELECT typeof(content), content, type, "createdAt" FROM mastra_messages'
    )


async def test_columns_and_members_that_we_do_not_know_survive(
    node_store: LibSQLStorage, query: Query
) -> None:
    """A newer peer's additions are still there after every kind of write of ours."""
    for table in ("mastra_threads", "mastra_messages", "mastra_notifications"):
        query(f"ALTER TABLE {table} ADD COLUMN \"newer\" TEXT DEFAULT 'kept'")
    query("ALTER TABLE mastra_workflow_snapshot ADD COLUMN \"newer\" TEXT DEFAULT 'kept'")
    query(
        "UPDATE mastra_threads SET metadata = jsonb_set(metadata, '$.newer', jsonb('{\"x\":[1]}'))"
    )
    [(message_id,)] = query("SELECT id FROM mastra_messages WHERE type = 'user'")
    [(record_id,)] = query("SELECT id FROM mastra_notifications WHERE priority = 'low'")

    thread = await node_store.memory.update_thread("thread_456", title="Deployments")
    await node_store.memory.save_thread(thread)
    await node_store.memory.update_messages([{"id": message_id, "content": {"ours": 1}}])
    await node_store.notifications.update_notification(
        "thread_456", record_id, NotificationPatch(status="seen")
    )
    await node_store.workflows.update_workflow_state(
        workflow_name="agentic-loop", run_id=RUN_ID, opts={"status": "suspended"}
    )

    for table in ("threads", "messages", "notifications", "workflow_snapshot"):
        assert [("kept",)] == query(f"SELECT DISTINCT newer FROM mastra_{table}")
    [(metadata,)] = query("SELECT json(metadata) FROM mastra_threads")
    assert {"x": [1]} == json.loads(metadata)["newer"]
    [(content,)] = query("SELECT content FROM mastra_messages WHERE id = ?", message_id)
    assert "signal" in json.loads(content)["metadata"]


async def test_a_claimed_run_goes_back_byte_for_byte(
    node_store: LibSQLStorage, query: Query
) -> None:
    """Claim and release change two members; everything of Node's comes back in its order."""
    text = (
        "SELECT json(snapshot) FROM mastra_workflow_snapshot WHERE workflow_name = 'agentic-loop'"
    )
    before = query(text)
    now = datetime.now(UTC)
    claim = ResumeClaim(
        claim_id="c1",
        owner="p1",
        payload_hash="h",
        acquired_at=now,
        expires_at=now + timedelta(minutes=1),
    )
    key = {"workflow_name": "agentic-loop", "run_id": RUN_ID}

    claimed = await node_store.workflows.claim_resume(**key, claim=claim)
    during = json.loads(query(text)[0][0])
    released = await node_store.workflows.release_resume_claim(**key, claim_id="c1")

    assert claimed
    assert ("running", "c1") == (during["status"], during["resumeClaim"]["claimId"])
    assert released
    assert before == query(text)
