"""Tests of ``mastra_core.rules.notifications``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mastra_core.errors import StorageArgumentError
from mastra_core.rules import notifications as rules
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)

__all__ = ()

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: int) -> datetime:
    return T0 + timedelta(seconds=seconds)


def event(**members: Any) -> CreateNotification:
    return CreateNotification(
        **{"thread_id": "t", "source": "s", "kind": "k", "summary": "x", **members}
    )


def record(notification_id: str = "n", **members: Any) -> NotificationRecord:
    return rules.new_record(event(**members), notification_id=notification_id, now=T0)


def test_a_record_has_no_due_time_without_a_schedule() -> None:
    """The earlier of both otherwise; sorting one without is a fault of ours."""
    assert rules.due_time(record()) is None
    assert at(1) == rules.due_time(record(deliver_at=at(1)))
    assert at(1) == rules.due_time(record(deliver_at=at(2), summary_at=at(1)))
    with pytest.raises(ValueError, match="no schedule"):
        rules.due_key(record())


def test_due_records_are_ordered_by_time_update_and_id() -> None:
    """notifications.md 3.5."""
    rows = [
        record("c", deliver_at=at(5)),
        record("b", deliver_at=at(5)),
        record("a", deliver_at=at(5)).replace(updated_at=at(1)),
        record("z", summary_at=at(4)),
    ]

    assert ["z", "b", "c", "a"] == [row.id for row in sorted(rows, key=rules.due_key)]


def test_the_inbox_is_ordered_by_update_creation_and_id() -> None:
    """notifications.md 3.4."""
    rows = [
        record("b"),
        record("a"),
        record("c", created_at=at(1)).replace(updated_at=T0),
        record("z").replace(updated_at=at(9)),
    ]

    assert ["z", "c", "a", "b"] == [row.id for row in sorted(rows, key=rules.inbox_key)]


@pytest.mark.parametrize(
    ("stored", "given", "expected"),
    [
        ({"dedupe_key": "k"}, {"dedupe_key": "k"}, True),
        ({"coalesce_key": "k"}, {"coalesce_key": "k"}, True),
        ({"dedupe_key": "k"}, {"coalesce_key": "k"}, False),
        ({"dedupe_key": "a", "coalesce_key": "k"}, {"dedupe_key": "b", "coalesce_key": "k"}, True),
        ({}, {}, False),
        ({"dedupe_key": ""}, {"dedupe_key": ""}, False),
        ({"dedupe_key": "k"}, {"dedupe_key": "k", "agent_id": "a"}, False),
    ],
)
def test_two_keys_are_two_chances(stored: Any, given: Any, expected: bool) -> None:
    """Each is compared with its own column, within one scope."""
    assert expected == rules.matches_key(record(**stored), event(**given))


def test_merging_touches_what_is_given_and_nothing_else() -> None:
    """And shares nothing that it changes."""
    stored = record(payload=1, attributes={"a": 1}, priority="urgent", deliver_at=at(1))

    merged = rules.merged_record(stored, event(summary="y", attributes={"b": 2}), now=at(9))

    assert ("y", 1, {"a": 1, "b": 2}, "urgent", at(1), 2, at(9), T0) == (
        merged.summary,
        merged.payload,
        merged.attributes,
        merged.priority,
        merged.deliver_at,
        merged.coalesced_count,
        merged.updated_at,
        merged.created_at,
    )
    assert stored.attributes == {"a": 1}


def test_a_patch_writes_what_is_set() -> None:
    """None clears, absent leaves, a falsy status is none."""
    stored = record(deliver_at=at(1), summary_at=at(2), payload={"a": 1})

    changed = rules.apply_patch(stored, NotificationPatch(deliver_at=None, status=""), now=at(9))

    assert (None, at(2), {"a": 1}, "pending", at(9)) == (
        changed.deliver_at,
        changed.summary_at,
        changed.payload,
        changed.status,
        changed.updated_at,
    )


@pytest.mark.parametrize(
    "attributes", [{"a b": 1}, {"a": object()}, {"a": float("inf")}, {"a": {"b": 1}}]
)
def test_attributes_must_be_renderable(attributes: Any) -> None:
    """In events and in patches."""
    rules.check_create(event(attributes={"_a.b-c9": "x", "n": None, "t": True, "f": 1.5}))
    with pytest.raises(StorageArgumentError):
        rules.check_create(event(attributes=attributes))
    with pytest.raises(StorageArgumentError):
        rules.check_patch(NotificationPatch(attributes=attributes))


def test_a_summary_may_be_empty_but_not_missing() -> None:
    """Case 48 renders an empty one."""
    rules.check_create(event(summary=""))
    with pytest.raises(StorageArgumentError):
        rules.check_patch(NotificationPatch().model_copy(update={"summary": None}))


@pytest.mark.parametrize(
    ("search", "expected"), [("STAND", True), ("straße", True), ("50%", False), ("", True)]
)
def test_search_folds_case(search: str, expected: bool) -> None:
    """Unicode case folding, literal text."""
    assert expected == rules.matches_search(record(summary="standup in STRASSE"), search)
