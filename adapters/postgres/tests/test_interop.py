"""One database, two languages: what Node wrote reads right, and keeps what we don't know."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mastra_conformance import case
from mastra_conformance.node_scene import ReadsNodeScene
from mastra_core.contracts.storage import OrderBy
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification, NotificationPatch
from mastra_core.wire.snapshots import ResumeClaim
from mastra_postgres import PostgresStorage

pytestmark = pytest.mark.anyio

Query = Callable[..., list[tuple[Any, ...]]]

RUN_ID = "6b220048-5a93-48d8-88b5-e3d23aea5e2d"
RUN = {"workflow_name": "agentic-loop", "run_id": RUN_ID}
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


async def test_nodes_thread_is_listed(node_store: PostgresStorage) -> None:
    page = await node_store.memory.list_threads(resource_id="user_123")

    [thread] = page.threads
    assert ("thread_456", "") == (thread.id, thread.title)
    assert thread.metadata is not None
    assert "k1" == thread.metadata["mastra"]["stateSignals"]["browser"]["currentCacheKey"]
    assert datetime(2026, 11, 30, 5, 36, 34, 773000, tzinfo=UTC) == thread.created_at
    assert datetime(2026, 11, 30, 5, 36, 36, 434000, tzinfo=UTC) == thread.updated_at


@case("notifications", 123)
async def test_every_field_of_nodes_records_is_read(
    node_store: PostgresStorage, node_query: Query
) -> None:
    """All 31 columns come out as the same value; of the twins only one is believed."""
    columns = [
        name
        for (name,) in node_query(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_name = 'mastra_notifications' ORDER BY ordinal_position"
        )
    ]
    assert 41 == len(columns)
    selected = ", ".join(f'"{name}"' for name in columns[:31])
    rows = node_query(f"SELECT {selected} FROM mastra_notifications")
    assert 4 == len(rows)

    for row in rows:
        stored = dict(zip(columns, row, strict=False))
        record = await node_store.notifications.get_notification(stored["threadId"], stored["id"])
        assert record is not None
        read = record.model_dump(by_alias=True)
        for column, value in stored.items():
            expected = value
            if value is not None and column in TIMES:
                expected = value.replace(tzinfo=UTC)
            assert (column, expected) == (column, read[column])


async def test_times_that_a_twin_only_claims_are_not_read(
    node_store: PostgresStorage, node_query: Query
) -> None:
    """Node leaves the time of the insert in eight twins of a record that was never seen."""
    [(lie,)] = node_query("""SELECT "seenAtZ" FROM mastra_notifications WHERE priority = 'low'""")
    records = await node_store.notifications.list_notifications("thread_456")

    assert lie is not None
    assert {None} == {record.seen_at for record in records}


async def test_nodes_suspended_run_is_listed_with_its_parked_call(
    node_store: PostgresStorage,
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


async def test_nodes_run_is_found_by_its_thread(node_store: PostgresStorage) -> None:
    """Through the stream state of its suspended step (snapshots.md 4.4)."""
    found = await node_store.workflows.list_workflow_runs(
        workflow_name="agentic-loop", thread_id="thread_456"
    )
    others = await node_store.workflows.list_workflow_runs(
        workflow_name="agentic-loop", thread_id="thread_457"
    )

    assert ([RUN_ID], []) == ([run.run_id for run in found.runs], others.runs)


# -- writing ----------------------------------------------------------------------------------


async def test_each_time_is_written_twice_and_alike(store: PostgresStorage, query: Query) -> None:
    """After every kind of write a naive column and its twin say the same instant."""
    moment = datetime(2026, 5, 4, 3, 2, 1, 987654, tzinfo=UTC)
    record = await store.notifications.create_notification(
        CreateNotification(
            thread_id="t",
            source="s",
            kind="k",
            summary="hello",
            deliver_at=moment,
            summary_at=moment,
            created_at=moment,
        )
    )
    both = ", ".join(
        f'"{name}" AT TIME ZONE \'UTC\' IS NOT DISTINCT FROM "{name}Z"' for name in TIMES
    )
    selected = f"SELECT {both} FROM mastra_notifications"
    assert {(True,) * 10} == set(query(selected))

    for status in ("delivered", "seen", "dismissed", "archived", "discarded"):
        await store.notifications.update_notification(
            "t",
            record.id,
            NotificationPatch(status=status, last_delivery_attempt_at=moment),
        )
    await store.notifications.mark_notification_delivered(
        "t", record.id, delivered_signal_id="s1", last_delivery_attempt_at=moment
    )

    assert {(True,) * 10} == set(query(selected))
    [(created,)] = query('SELECT "createdAt" FROM mastra_notifications')
    assert datetime(2026, 5, 4, 3, 2, 1, 987000) == created  # noqa: DTZ001 - the column is naive


async def test_a_message_is_stored_as_plain_text_json(store: PostgresStorage, query: Query) -> None:
    """Its content is text as it was written, and a message without a type gets Node's filler."""
    await store.memory.save_messages([message("m1", content={"format": 2, "parts": []})])

    assert [("text", '{"format":2,"parts":[]}', "v2", "2026-01-01 00:00:00")] == query(
        'SELECT pg_typeof(content)::text, content, type, "createdAt"::text FROM mastra_messages'
    )


@case("notifications", 124)
async def test_a_text_that_looks_like_json_stays_a_text(store: PostgresStorage) -> None:
    record = await store.notifications.create_notification(
        CreateNotification(thread_id="t", source="s", kind="k", summary="x", payload="5")
    )

    found = await store.notifications.get_notification("t", record.id)

    assert found is not None
    assert "5" == found.payload


async def test_naive_times_are_read_and_written_in_their_zone(
    node_url: str, node_query: Query, context: AdapterContext
) -> None:
    """With the TZ of the Node processes as an option both sides mean the same instants."""
    node_query(
        """UPDATE mastra_notifications SET "summaryAt" = '2026-11-30 00:36:36.332' """
        "WHERE priority = 'low'"
    )
    async with PostgresStorage(node_url, context, naive_timezone="America/New_York") as there:
        [low] = [
            record
            for record in await there.notifications.list_notifications("thread_456")
            if record.priority == "low"
        ]
        at = datetime(2026, 7, 1, 12, tzinfo=UTC)
        await there.notifications.update_notification(
            "thread_456", low.id, NotificationPatch(deliver_at=at)
        )
        again = await there.notifications.get_notification("thread_456", low.id)
        due = await there.notifications.list_due_notifications(at)
        page = await there.memory.list_threads(resource_id="user_123")

    assert datetime(2026, 11, 30, 5, 36, 36, 332000, tzinfo=UTC) == low.summary_at
    assert again is not None
    assert at == again.deliver_at
    assert [low.id] == [record.id for record in due]
    # Threads have twins that everybody keeps right, so the zone doesn't matter.
    assert datetime(2026, 11, 30, 5, 36, 34, 773000, tzinfo=UTC) == page.threads[0].created_at
    assert [("2026-07-01 08:00:00", datetime(2026, 7, 1, 12, tzinfo=UTC))] == node_query(
        """SELECT "deliverAt"::text, "deliverAtZ" FROM mastra_notifications """
        "WHERE priority = 'low'"
    )


async def test_columns_and_members_that_we_do_not_know_survive(
    node_store: PostgresStorage, node_query: Query
) -> None:
    """A newer peer's additions are still there after every kind of write of ours."""
    for table in ("threads", "messages", "notifications", "workflow_snapshot"):
        node_query(f"ALTER TABLE mastra_{table} ADD COLUMN \"newer\" TEXT DEFAULT 'kept'")
    node_query(
        """UPDATE mastra_threads SET metadata = jsonb_set(metadata, '{newer}', '{"x": [1]}')"""
    )
    [(message_id,)] = node_query("SELECT id FROM mastra_messages WHERE type = 'user'")
    [(record_id,)] = node_query("SELECT id FROM mastra_notifications WHERE priority = 'low'")

    thread = await node_store.memory.update_thread("thread_456", title="Deployments")
    await node_store.memory.save_thread(thread)
    await node_store.memory.update_messages([{"id": message_id, "content": {"ours": 1}}])
    await node_store.notifications.update_notification(
        "thread_456", record_id, NotificationPatch(status="seen")
    )
    await node_store.workflows.update_workflow_state(**RUN, opts={"status": "suspended"})

    for table in ("threads", "messages", "notifications", "workflow_snapshot"):
        assert [("kept",)] == node_query(f"SELECT DISTINCT newer FROM mastra_{table}")
    [(metadata,)] = node_query("SELECT metadata FROM mastra_threads")
    assert {"x": [1]} == metadata["newer"]
    [(content,)] = node_query("SELECT content FROM mastra_messages WHERE id = %s", message_id)
    assert "signal" in json.loads(content)["metadata"]


async def test_a_claimed_run_goes_back_as_it_was(
    node_store: PostgresStorage, node_query: Query
) -> None:
    """Claim and release change two members; everything of Node's comes back equal."""
    text = (
        "SELECT snapshot::text FROM mastra_workflow_snapshot WHERE workflow_name = 'agentic-loop'"
    )
    before = node_query(text)
    now = datetime.now(UTC)
    claim = ResumeClaim(
        claim_id="c1",
        owner="p1",
        payload_hash="h",
        acquired_at=now,
        expires_at=now + timedelta(minutes=1),
    )

    claimed = await node_store.workflows.claim_resume(**RUN, claim=claim)
    during = json.loads(node_query(text)[0][0])
    released = await node_store.workflows.release_resume_claim(**RUN, claim_id="c1")

    assert claimed
    assert ("running", "c1") == (during["status"], during["resumeClaim"]["claimId"])
    assert released
    assert before == node_query(text)


# -- bad rows ---------------------------------------------------------------------------------


async def test_a_message_that_is_no_json_hides_no_other(
    store: PostgresStorage, query: Query
) -> None:
    """Also from a search by metadata, which has to look into all of them (field report R1)."""
    await store.memory.save_messages(
        [
            message("m1", content={"format": 2, "parts": [], "metadata": {"topic": "a"}}),
            message("m2", content={"format": 2, "parts": [], "metadata": {"topic": "a\0b"}}),
            message("m3", content={"format": 2, "parts": [], "metadata": {"topic": "b"}}),
            message("m4", content={"format": 2, "parts": [], "metadata": {"topic": "a"}}),
        ]
    )
    query("UPDATE mastra_messages SET content = 'plain old text' WHERE id = 'm3'")

    everything = await store.memory.list_messages("t")
    found = await store.memory.list_messages("t", metadata={"topic": "a"}, per_page=1)
    second = await store.memory.list_messages(
        "t", metadata={"topic": "a"}, per_page=1, page=1, order_by=OrderBy(direction="ASC")
    )

    assert ["m1", "m2", "m3", "m4"] == [m.id for m in everything.messages]
    assert (["m1"], 2, True) == ([m.id for m in found.messages], found.total, found.has_more)
    assert (["m4"], 2, False) == ([m.id for m in second.messages], second.total, second.has_more)


async def test_an_odd_document_hides_no_suspended_run(store: PostgresStorage) -> None:
    """Lists and texts where a document has objects are no error, and no match."""
    parked = {"status": "suspended", "suspendPayload": {"__agentId": "a"}}
    odd: list[dict[str, Any]] = [
        {"executionWorkflow": parked},
        {"executionWorkflow": parked, "input": ["x"]},
        {"executionWorkflow": {**parked, "payload": 5}, "input": "text"},
        {"executionWorkflow": {"suspendPayload": {"__agentId": "a", "__streamState": [1]}}},
        {"executionWorkflow": [1], "input": {"agentId": "a", "messageListState": []}},
    ]
    for number, context in enumerate([*odd, [1]]):
        await store.workflows.persist_workflow_snapshot(
            workflow_name="agentic-loop",
            run_id=f"r{number}",
            snapshot={"status": "suspended", "context": context},
        )

    page = await store.workflows.list_suspended_runs(
        workflow_names=["agentic-loop"], agent_id="a", page=0, per_page=10
    )

    assert {f"r{number}" for number in range(len(odd))} == {row.run_id for row in page.rows}
    assert len(odd) == page.total


async def test_rows_older_than_the_twins_have_their_naive_times(
    node_store: PostgresStorage, node_query: Query
) -> None:
    node_query('UPDATE mastra_threads SET "createdAtZ" = NULL, "updatedAtZ" = NULL')

    thread = await node_store.memory.get_thread_by_id("thread_456")

    assert thread is not None
    assert datetime(2026, 11, 30, 5, 36, 34, 773000, tzinfo=UTC) == thread.created_at


def message(message_id: str, *, content: dict[str, Any]) -> Message:
    return Message(
        id=message_id,
        role="assistant",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        thread_id="t",
        resource_id="u",
        content=content,
    )
