"""Rows as models and back: nothing is lost on the way, and what is odd is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.base.isotime import from_epoch_ms
from mastra_core.errors import StorageDataError
from mastra_core.rules.notification_claims import Sidecar
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import NotificationRecord
from mastra_core.wire.schedules import Schedule
from mastra_core.wire.tasks import BackgroundTask
from mastra_core.wire.threads import Resource, Thread
from mastra_libsql.dialect import SqliteDialect
from mastra_sql.rows.codec import RowCodec
from mastra_sql.rows.messages import MessageCodec
from mastra_sql.rows.runs import document_from_text, run_from_row, suspended_from_row, version_of
from mastra_sql.rows.sidecars import SidecarCodec
from mastra_sql.tables import Tables, build_tables

NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)

DIALECT = SqliteDialect(has_own_clock=False)
TABLES = build_tables()

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
moments = st.integers(0, 7_000_000_000_000).map(from_epoch_ms)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
maybe_text = st.none() | texts

records = st.fixed_dictionaries(
    {
        "id": names,
        "thread_id": names,
        "source": names,
        "kind": names,
        "priority": st.sampled_from(["low", "urgent", "unheard of"]),
        "status": st.sampled_from(["pending", "seen"]),
        "summary": texts,
        "payload": json_values,
        "resource_id": maybe_text,
        "dedupe_key": maybe_text,
        "coalesced_count": st.integers(1, 2**62),
        "attributes": st.none() | objects,
        "metadata": st.none() | objects,
        "created_at": moments,
        "updated_at": moments,
        "deliver_at": st.none() | moments,
        "last_delivery_error": maybe_text,
    }
).map(lambda fields: NotificationRecord(**fields))


def row_of(codec: RowCodec[Any], model: Any, table: Any) -> tuple[Any, ...]:
    """What a database gives back for what was written."""
    values = codec.values(model)
    return tuple(values[column.name] for column in table.columns)


@given(records)
def test_a_record_comes_back_as_it_was(record: NotificationRecord) -> None:
    codec = RowCodec(NotificationRecord, TABLES.notifications, DIALECT)

    read = codec.model(row_of(codec, record, TABLES.notifications))

    assert record.model_dump() == read.model_dump()
    assert record.to_wire() == read.to_wire()


@pytest.mark.parametrize(
    ("model", "table"),
    [
        (Thread(id="t", resource_id="u", created_at=NOW, updated_at=NOW), "threads"),
        (
            Thread(id="t", resource_id="u", title="x", metadata={"a": [1, None]}, created_at=NOW,
                   updated_at=NOW),
            "threads",
        ),
        (Resource(id="u", working_memory="# notes", created_at=NOW, updated_at=NOW), "resources"),
        (
            BackgroundTask(id="b", status="running", tool_name="t", tool_call_id="c", args={"x": 1},
                           agent_id="a", run_id="r", error={"message": "no"}, created_at=NOW,
                           started_at=NOW),
            "background_tasks",
        ),
        (
            Schedule(id="s", target={"type": "workflow"}, cron="* * * * *", next_fire_at=1,
                     created_at=2, updated_at=3),
            "schedules",
        ),
    ],
)  # fmt: skip
def test_every_kind_of_row_comes_back_as_it_was(model: Any, table: str) -> None:
    own = getattr(TABLES, table)
    codec = RowCodec(type(model), own, DIALECT)

    read = codec.model(row_of(codec, model, own))

    assert model.model_dump() == read.model_dump()


def test_absent_members_stay_absent(dialect: SqliteDialect, tables: Tables) -> None:
    """A NULL isn't written as null by a model that tells absent from null."""
    codec = RowCodec(Thread, tables.threads, dialect)

    read = codec.model(("t", "u", "", None, "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z"))

    assert "metadata" not in read.to_wire()
    assert read.replace(title="x").title == "x"


def test_a_row_without_a_required_value_is_named(dialect: SqliteDialect, tables: Tables) -> None:
    codec = RowCodec(Thread, tables.threads, dialect)
    row = ("t", None, "", None, "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")

    with pytest.raises(StorageDataError, match="resource_id is NULL"):
        codec.model(row)


@pytest.mark.parametrize("broken", ["yesterday", 17, "2026-13-01T00:00:00.000Z"])
def test_a_time_that_is_none_is_named(
    dialect: SqliteDialect, tables: Tables, broken: object
) -> None:
    codec = RowCodec(Thread, tables.threads, dialect)

    with pytest.raises(StorageDataError, match="mastra_threads"):
        codec.model(("t", "u", "", None, broken, "2026-01-01T00:00:00.000Z"))


def test_true_is_not_one_when_changes_are_looked_for(
    dialect: SqliteDialect, tables: Tables
) -> None:
    """Python finds them equal; JSON doesn't, so the column is written."""
    codec = RowCodec(Thread, tables.threads, dialect)
    before = Thread(id="t", resource_id="u", metadata={"a": 1}, created_at=NOW, updated_at=NOW)

    changes = codec.changes(before, before.replace(metadata={"a": True}))

    assert {"metadata": '{"a":true}'} == changes
    assert {} == codec.changes(before, before.replace(title=before.title))


# -- messages ---------------------------------------------------------------------------------


@given(objects, maybe_text.filter(lambda kind: kind not in {"", "v2"}))
def test_a_message_comes_back_as_it_was(content: dict[str, Any], kind: str | None) -> None:
    codec = MessageCodec(DIALECT)
    message = Message(
        id="m", role="user", type=kind, thread_id="t", resource_id="u", created_at=NOW,
        content=content,
    )  # fmt: skip
    values = codec.values(message)
    row = tuple(values[column.name] for column in TABLES.messages.columns)

    [read] = codec.messages([row])

    assert message.model_dump() == read.model_dump()


@pytest.mark.parametrize(
    ("stored", "text"), [("just text", "just text"), ('"quoted"', "quoted"), ("[1]", "[1]")]
)
def test_old_plain_text_becomes_a_text_message(
    dialect: SqliteDialect, stored: str, text: str
) -> None:
    """Also if it stands between messages that are as they should be."""
    codec = MessageCodec(dialect)
    stamp = "2026-01-01T00:00:00.000Z"
    rows = [
        ("a", "t", '{"format":2,"parts":[]}', "user", "v2", stamp, "u"),
        ("b", "t", stored, "user", "v2", stamp, "u"),
    ]

    first, second = codec.messages(rows)

    assert {"format": 2, "parts": []} == first.content
    assert [{"type": "text", "text": text}] == second.content["parts"]


# -- snapshots --------------------------------------------------------------------------------


def test_a_snapshot_that_is_no_json_stays_text(dialect: SqliteDialect) -> None:
    row = ("w", "r", None, "{oops", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z")

    run = run_from_row(row, dialect)

    assert "{oops" == run.snapshot
    with pytest.raises(StorageDataError, match="is no JSON"):
        document_from_text("{oops", run_id="r")
    with pytest.raises(StorageDataError, match="no JSON object"):
        document_from_text("[1]", run_id="r")


def test_a_version_follows_the_stored_bytes() -> None:
    assert version_of(b"abc") == version_of("abc") != version_of(b"abd")
    assert version_of(None) is None


REGULAR = (
    '{"context":{"executionWorkflow":{"status":"suspended","suspendPayload":{"__agentId":"a"}}}}'
)
DURABLE = (
    '{"context":{"input":{"agentId":"a"},'
    '"step":{"status":"suspended","suspendPayload":{"type":"approval"}}}}'
)


@pytest.mark.parametrize(
    ("document", "regular", "durable", "thread_id"),
    [
        (
            REGULAR,
            '{"threadId":"t1","resourceId":"u1"}',
            None,
            "t1",
        ),
        (
            DURABLE,
            None,
            '{"threadId":"t2","resourceId":"u2"}',
            "t2",
        ),
        (
            REGULAR,
            "null",
            '{"threadId":"t3"}',
            None,
        ),
    ],
)
def test_a_projection_still_knows_its_conversation(
    dialect: SqliteDialect,
    document: str,
    regular: str | None,
    durable: str | None,
    thread_id: str | None,
) -> None:
    """What was cut out in the database comes back as far as the extraction rule needs it."""
    stamp = "2026-01-01T00:00:00.000Z"

    has_state = regular is not None
    row = suspended_from_row(
        ("w", "r", None, stamp, stamp, document, has_state, regular, durable), dialect
    )

    assert ("a", thread_id) == (row.agent_id, row.thread_id)


# -- sidecars ---------------------------------------------------------------------------------


def test_a_sidecar_comes_back_as_it_was(dialect: SqliteDialect, tables: Tables) -> None:
    codec = SidecarCodec(dialect)
    sidecar = Sidecar(
        token=3,
        generation=2,
        owner="p1",
        expires_at=NOW,
        full_due=True,
        original_deliver_at=NOW - timedelta(hours=1),
        claimed_count=4,
        guard_at=NOW,
        merged_guard_at=NOW,
        accepted_signal_id="s",
        accepted_at=NOW,
    )
    values = codec.values("t", "n", sidecar)

    read = codec.sidecar(tuple(values[column.name] for column in tables.claims.columns))

    assert sidecar == read
    assert codec.sidecar((None,) * len(tables.claims.columns)) is None
