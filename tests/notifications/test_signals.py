"""The signals that records become, as values and as the model sees them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core.messages.signals import model_turn
from mastra_core.notifications import (
    create_notification_signal,
    create_notification_summary_signal,
    summarize_notifications,
)
from mastra_core.notifications.collation import collation_key
from mastra_core.wire.notifications import NotificationRecord
from mastra_core.wire.signals import Signal

NOW = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


def record(**members: Any) -> NotificationRecord:
    given = {
        "id": "n1",
        "thread_id": "t1",
        "resource_id": "r1",
        "agent_id": "helper",
        "source": "github",
        "kind": "ci",
        "priority": "high",
        "status": "delivered",
        "summary": "CI failed",
        "created_at": NOW,
        "updated_at": NOW,
        **members,
    }
    return NotificationRecord(**given)


def full(**members: Any) -> Signal:
    return create_notification_signal(record(**members), signal_id="s1", created_at=NOW)


def shown(signal: Signal) -> Any:
    return model_turn(signal)["content"]


def summary(*records: NotificationRecord) -> Signal:
    return create_notification_summary_signal(records, signal_id="s1", created_at=NOW)


FACTS = 'id="n1" source="github" type="ci" kind="ci" priority="high" status="delivered"'


@case("notifications", 44)
def test_custom_attributes_come_first_and_reserved_ones_keep_their_place() -> None:
    """A custom ``id`` stands where it stood, with the record's value."""
    signal = full(attributes={"b": 1, "a": 2, "id": "mine"})

    assert ["b", "a", "id", "source", "type", "kind", "priority", "status"] == list(
        signal.attributes or {}
    )
    assert f'<notification b="1" a="2" {FACTS}>CI failed</notification>' == shown(signal)


@case("notifications", 45)
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"coalesced_count": 1}, f"<notification {FACTS}>"),
        ({"coalesced_count": 3}, f'<notification {FACTS} coalescedCount="3">'),
        (
            {"coalesced_count": 1, "attributes": {"coalescedCount": 9}},
            f'<notification coalescedCount="9" {FACTS}>',
        ),
        (
            {"coalesced_count": 3, "attributes": {"coalescedCount": 9, "z": 1}},
            f'<notification coalescedCount="3" z="1" {FACTS}>',
        ),
    ],
)
def test_the_count_is_shown_only_above_one(members: dict[str, Any], expected: str) -> None:
    """It comes last, unless a custom attribute of that name has a place already."""
    assert shown(full(**members)).startswith(expected)


@case("notifications", 46)
def test_text_and_attribute_values_are_escaped() -> None:
    """Quotes only in attribute values."""
    signal = full(summary='A < b & "c"', attributes={"q": 'q"<'})

    assert f'<notification q="q&quot;&lt;" {FACTS}>A &lt; b &amp; "c"</notification>' == shown(
        signal
    )


@case("notifications", 47)
def test_attribute_values_are_written_as_javascript_writes_them() -> None:
    """Nothing is dropped, booleans are lower-case, whole numbers have no decimals."""
    signal = full(attributes={"nil": None, "yes": True, "half": 1.50, "two": 2.0})

    assert shown(signal).startswith(f'<notification yes="true" half="1.5" two="2" {FACTS}>')


@case("notifications", 48)
def test_an_empty_summary_closes_itself() -> None:
    """One blank before the slash."""
    assert f"<notification {FACTS} />" == shown(full(summary=""))


@case("notifications", 49)
def test_a_summary_counts_pending_records_by_source() -> None:
    """Sorted by source in text and groups; the highest priority is an attribute."""
    signal = summary(
        record(id="a", source="slack", priority="low", status="pending"),
        record(id="b", source="github", priority="medium", status="pending"),
        record(id="c", source="github", priority="urgent", status="seen"),
    )

    assert (
        '<notification-summary pending="2" priority="medium">github: 1, slack: 1'
        "</notification-summary>" == shown(signal)
    )
    metadata = signal.metadata or {}
    assert [
        {"source": "github", "count": 1},
        {"source": "slack", "count": 1},
    ] == metadata["notification"]["groups"]
    assert ["a", "b"] == metadata["notificationIds"]
    assert {
        "threadId": "t1",
        "resourceId": "r1",
        "agentId": "helper",
        "pending": 2,
        "bySource": {"slack": 1, "github": 1},
        "byPriority": {"low": 1, "medium": 1},
        "notificationIds": ["a", "b"],
    } == metadata["notificationSummary"]


@case("notifications", 50)
@pytest.mark.parametrize("records", [(), (record(status="seen"),)])
def test_a_summary_of_nothing_says_so(records: tuple[NotificationRecord, ...]) -> None:
    """No priority, count 0."""
    signal = summary(*records)

    assert {"pending": 0} == signal.attributes
    assert (
        '<notification-summary pending="0">No pending notifications</notification-summary>'
        == shown(signal)
    )
    assert records == () or summarize_notifications(records).thread_id == "t1"


@case("notifications", 51)
def test_sources_are_sorted_as_a_dictionary_would() -> None:
    """Punctuation, digits, letters; accents and case only break ties."""
    # fmt: off
    expected = [
        "__proto__", "10", "2", "a_b", "a-b", "émile", "github", "Github", "GitHub", "github:x",
        "Slack", "zeta",
    ]
    # fmt: on

    by_code_point = sorted(expected)
    assert expected == sorted(by_code_point, key=collation_key)
    assert ["e", "E", "é", "É", "f"] == sorted(["f", "É", "é", "E", "e"], key=collation_key)
    assert ["a b", "a_b", "a-b", "ab"] == sorted(["ab", "a-b", "a_b", "a b"], key=collation_key)


@case("notifications", 52)
def test_the_block_of_the_system_replaces_one_of_the_record() -> None:
    """Other keys of the record's metadata are kept; the payload never shows."""
    signal = full(
        metadata={"notification": {"x": 1}, "other": 1},
        payload={"hidden": 1},
        coalesced_count=2,
        delivered_at=NOW,
        seen_at=NOW,
    )

    assert {
        "notification": {
            "signal": "notification",
            "recordId": "n1",
            "source": "github",
            "kind": "ci",
            "priority": "high",
            "status": "delivered",
            "coalescedCount": 2,
            "deliveredAt": "2026-03-01T08:00:00.000Z",
            "seenAt": "2026-03-01T08:00:00.000Z",
        },
        "other": 1,
    } == signal.metadata
    assert "hidden" not in str(signal.to_wire())


def test_a_stored_attribute_name_that_cant_be_rendered_is_cleaned() -> None:
    """A peer may have stored one; the event is delivered all the same."""
    signal = full(attributes={"bad name": 1, "1st": 2})

    assert shown(signal).startswith(f'<notification bad_name="1" _1st="2" {FACTS}>')
