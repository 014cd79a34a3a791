"""What all wire models do with times and with texts that JSON can't hold as they are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from mastra_core.errors import WireEncodeError
from mastra_core.wire.base import WireModel
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import CreateNotification, NotificationPatch, NotificationRecord
from mastra_core.wire.tasks import BackgroundTask
from mastra_core.wire.threads import Resource, Thread

NOW = datetime(2026, 1, 31, 8, tzinfo=UTC)
NAIVE = datetime(2026, 1, 31, 8)  # noqa: DTZ001 - the fault that is tested

Make = Callable[..., WireModel]


def thread(**given: Any) -> Thread:
    return Thread(**{"id": "t", "resource_id": "r", "created_at": NOW, "updated_at": NOW, **given})


def resource(**given: Any) -> Resource:
    return Resource(**{"id": "r", "created_at": NOW, "updated_at": NOW, **given})


def message(**given: Any) -> Message:
    return Message(**{"id": "m", "role": "user", "content": {}, "created_at": NOW, **given})


def create(**given: Any) -> CreateNotification:
    return CreateNotification(
        **{"thread_id": "t", "source": "s", "kind": "k", "summary": "x", **given}
    )


def record(**given: Any) -> NotificationRecord:
    known = {"id": "n", "thread_id": "t", "source": "s", "kind": "k", "summary": "x"}
    state = {"priority": "low", "status": "pending", "created_at": NOW, "updated_at": NOW}
    return NotificationRecord(**{**known, **state, **given})


def task(**given: Any) -> BackgroundTask:
    known = {"id": "k", "status": "pending", "tool_name": "n", "tool_call_id": "c", "args": {}}
    return BackgroundTask(**{**known, "agent_id": "a", "run_id": "r", "created_at": NOW, **given})


@pytest.mark.parametrize(
    ("make", "member"),
    [
        (thread, "created_at"),
        (thread, "updated_at"),
        (resource, "created_at"),
        (message, "created_at"),
        (create, "deliver_at"),
        (create, "summary_at"),
        (create, "created_at"),
        (NotificationPatch, "deliver_at"),
        (NotificationPatch, "last_delivery_attempt_at"),
        (task, "created_at"),
        (task, "completed_at"),
    ],
)
def test_a_time_without_zone_is_refused(make: Make, member: str) -> None:
    """It would be another instant on a machine in another zone (snapshots.md G13)."""
    with pytest.raises(WireEncodeError, match="naive time, 2026-01-31T08:00:00"):
        make(**{member: NAIVE})


@pytest.mark.parametrize(
    "wrong",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))),
    ],
)
def test_a_time_that_has_no_utc_form_is_refused(wrong: datetime) -> None:
    with pytest.raises(WireEncodeError, match="outside the years 1 to 9999"):
        thread(created_at=wrong)


@pytest.mark.parametrize("number", [1e300, float("nan"), -1e18])
def test_a_number_that_is_no_time_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        thread(created_at=number)


def test_times_of_any_zone_and_of_peers_are_read() -> None:
    """As a datetime, as ISO text with or without offset, as milliseconds since 1970."""
    summer = datetime(2026, 1, 31, 10, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    texts = ["2026-01-31T08:00:00.999Z", "2026-01-31 10:00:00.999+02", "2026-01-31T08:00:00.999"]
    given = [summer, *texts, 1_769_846_400_999, 1_769_846_400_999.7]

    read = [thread(created_at=value).to_wire()["createdAt"] for value in given]

    assert ["2026-01-31T08:00:00.999Z"] * len(given) == read


@pytest.mark.parametrize(
    ("make", "member"),
    [(thread, "metadata"), (record, "payload"), (record, "metadata"), (task, "args")],
)
def test_texts_with_lone_surrogates_and_bytes_have_a_wire_form(make: Make, member: str) -> None:
    """Names of members, too; JavaScript has them, so rows of a peer may."""
    odd = {"cut\ud83d": {"\ud800": ["\udfff"]}, "nul\0": b"\xff\x00", "none": None}

    wire = make(**{member: odd}).to_wire()

    assert {"cut\ud83d": {"\ud800": ["\udfff"]}, "nul\0": "/wA=", "none": None} == wire[member]
    assert "2026-01-31T08:00:00.000Z" == wire["createdAt"]
    assert not {"deliverAt", "title", "result"} & set(wire)
