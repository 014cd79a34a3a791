"""Documents and models, without a server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from hypothesis import given
from hypothesis import strategies as st

from mastra_conformance import case
from mastra_core.base import jsonjs
from mastra_core.errors import StorageArgumentError, StorageDataError, WireEncodeError
from mastra_core.wire.notifications import NotificationRecord
from mastra_mongodb.documents import (
    JSON,
    ODD,
    ROWS,
    is_bson,
    json_from_member,
    member_from_json,
)
from mastra_mongodb.storage.memory_documents import message_document, messages_from
from mastra_mongodb.storage.notification_pairs import RECORDS
from mastra_mongodb.storage.snapshots import (
    ESCAPED,
    encode_part,
    encode_snapshot,
    snapshot_from_row,
)

NOW = datetime(2026, 5, 4, 3, 2, 1, 987000, tzinfo=UTC)
LIMIT = 15 * 1024 * 1024

TEXTS = st.text(st.characters(exclude_categories=()), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def stored(value: Any) -> Any:
    """As a document is read again."""
    return bson.decode(bson.encode({"v": value}), ROWS)["v"]


# -- JSON members -----------------------------------------------------------------------------


@given(VALUES)
def test_every_json_value_comes_back(value: Any) -> None:
    """Whatever a text, a name or a number holds: nothing is lost, nothing is rounded."""
    assert jsonjs.encode(value) == jsonjs.encode(json_from_member(stored(member_from_json(value))))


@pytest.mark.parametrize(
    "value",
    [
        {"nul\x00key": 1},
        {"cut \ud83d": 1},
        ["cut \ud83d"],
        {"n": 2**70},
        {ODD: "1"},
    ],
)
def test_what_bson_cannot_hold_is_one_member_of_text(value: Any) -> None:
    kept = member_from_json(value)

    assert [ODD] == list(kept)
    assert value == json_from_member(stored(kept))


@pytest.mark.parametrize("value", [{"a.b": {"$x": 1}}, {"": 1}, 2**63 - 1, "a\x00b", [None]])
def test_what_bson_can_hold_stays_as_it_is(value: Any) -> None:
    assert is_bson(value)
    assert value == stored(member_from_json(value))


def test_a_time_of_nodes_is_text_inside_of_json() -> None:
    """Node stores dates inside a payload as dates; as JSON they are text."""
    read = json_from_member(stored({"at": NOW, "list": [NOW]}))

    assert {"at": "2026-05-04T03:02:01.987Z", "list": ["2026-05-04T03:02:01.987Z"]} == read


def test_a_whole_number_of_nodes_is_an_integer() -> None:
    read = bson.decode(bson.encode({"a": 1.0, "b": 2.5, "c": 2**40, "d": 1e300}), JSON)

    assert [int, float, int, float] == [type(value) for value in read.values()]
    assert {"a": 1, "b": 2.5, "c": 2**40, "d": 1e300} == read


# -- records ----------------------------------------------------------------------------------


def record(**members: Any) -> NotificationRecord:
    given = {
        "id": "n",
        "thread_id": "t",
        "source": "s",
        "kind": "k",
        "priority": "high",
        "status": "pending",
        "summary": "x",
        "created_at": NOW,
        "updated_at": NOW,
        **members,
    }
    return NotificationRecord.model_validate(given)


@case("notifications", 125)
def test_a_record_has_all_fields_with_dates_and_small_counts() -> None:
    """What is absent is null; times are dates; counts are 32-bit integers."""
    document = RECORDS.document(record(payload={"a": [1]}, deliver_at=NOW))
    raw = RawBSONDocument(bson.encode(document))

    assert 31 == len(document)
    assert dict.fromkeys(("agentId", "summaryAt", "metadata")) == {
        name: document[name] for name in ("agentId", "summaryAt", "metadata")
    }
    assert NOW == raw["deliverAt"].replace(tzinfo=UTC)
    assert b"\x10coalescedCount\x00\x01\x00\x00\x00" in raw.raw


def test_a_record_comes_back() -> None:
    before = record(payload=[1, {"a": None}], attributes={"n": 1}, metadata={"m": {"x": True}})

    after = RECORDS.model(bson.decode(bson.encode(RECORDS.document(before)), ROWS))

    assert before.model_dump() == after.model_dump()


def test_a_record_without_its_times_cannot_be_read() -> None:
    document = RECORDS.document(record())
    del document["createdAt"]

    with pytest.raises(StorageDataError, match="created_at is missing"):
        RECORDS.model(document)


def test_only_what_differs_is_written() -> None:
    before = record(payload={"a": 1})

    changed = RECORDS.changes(before, before.replace(status="seen", payload={"a": 1}))

    assert {"status": "seen", "payload": {"a": 1}} == changed


# -- messages ---------------------------------------------------------------------------------


def test_old_and_odd_contents_are_messages_all_the_same() -> None:
    base = {"role": "user", "createdAt": NOW, "thread_id": "t", "resourceId": "u", "type": "v2"}
    documents = [
        {"id": "a", "content": '{"format":2,"parts":[]}', **base},
        {"id": "b", "content": "plain text", **base},
        {"id": "c", "content": '"quoted"', **base},
        {"id": "d", "content": {"format": 2, "parts": [{"at": NOW}]}, **base},
    ]

    messages = messages_from(documents)

    assert ["a", "b", "c", "d"] == [message.id for message in messages]
    assert "plain text" == messages[1].content["content"]
    assert "quoted" == messages[2].content["content"]
    assert "2026-05-04T03:02:01.987Z" == messages[3].content["parts"][0]["at"]
    assert message_document(messages[0]) == documents[0]


# -- snapshots --------------------------------------------------------------------------------


@given(st.dictionaries(TEXTS.filter(lambda key: key != "encoding"), VALUES, max_size=5))
def test_every_snapshot_comes_back(document: dict[str, Any]) -> None:
    encoded = encode_snapshot(document, run_id="r", max_bytes=LIMIT)

    read = snapshot_from_row(encoded, run_id="r")

    assert jsonjs.encode(document) == jsonjs.encode(read)


def test_escapes_are_reversible_and_marked() -> None:
    """snapshots.md G13: a private prefix, doubled where it stands by itself."""
    document = {"context": {"a\x00b": "cut \ud83d", "own": "\uf8ff"}, "n": 2**80}

    encoded = encode_snapshot(document, run_id="r", max_bytes=LIMIT)
    raw = bson.decode(encoded.raw)

    assert ESCAPED == raw["encoding"]
    assert {"a\uf8ff0000b": "cut \uf8ffd83d", "own": "\uf8ff\uf8ff"} == raw["context"]
    assert document == snapshot_from_row(encoded, run_id="r")


def test_a_document_that_looks_escaped_is_refused() -> None:
    with pytest.raises(WireEncodeError, match="encoding"):
        encode_snapshot({"encoding": ESCAPED}, run_id="r", max_bytes=LIMIT)


@case("snapshots", 46)
def test_a_snapshot_that_is_text_is_parsed() -> None:
    text = json.dumps({"status": "success", "context": {}})

    assert {"status": "success", "context": {}} == snapshot_from_row(text, run_id="r")


@pytest.mark.parametrize("text", ["no json", "[1]", None, 5])
def test_a_snapshot_that_is_no_document_cannot_be_read(text: Any) -> None:
    with pytest.raises(StorageDataError):
        snapshot_from_row(text, run_id="r")


def test_small_numbers_in_long_lists_may_be_too_much_for_a_document() -> None:
    """As JSON this is under the limit, as BSON over what MongoDB can hold."""
    document = {"runId": "r", "value": {"n": [1] * 1_500_000}}

    with pytest.raises(StorageArgumentError) as caught:
        encode_snapshot(document, run_id="r", max_bytes=LIMIT)

    assert "SNAPSHOT_TOO_LARGE" == caught.value.id
    assert "$.value.n" in str(caught.value.details["largest"])


def test_parts_that_need_escapes_are_not_for_the_server() -> None:
    assert {"a": 1} == encode_part({"a": 1})
    for odd in ("\ud83d", "\uf8ff"):
        assert encode_part({"a": odd}) is None
    assert encode_part({"a\x00": 1}) is None
