"""Tests of the small rules: arguments, metadata, JSON equality, tasks, timers, copies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.contracts.storage import TaskFilter
from mastra_core.errors import StorageArgumentError
from mastra_core.rules import arguments, cloning, metadata, schedules, tasks
from mastra_core.rules.json_values import same_json
from mastra_core.wire.messages import Message
from mastra_core.wire.schedules import Schedule, ScheduleTrigger
from mastra_core.wire.tasks import BackgroundTask
from mastra_core.wire.threads import Thread

__all__ = ()

T0 = datetime(2026, 1, 1, tzinfo=UTC)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


# -- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1"])
def test_a_limit_is_a_whole_number_from_one(limit: Any) -> None:
    """None is no limit."""
    assert arguments.check_limit(None) is None
    assert arguments.check_limit(3) == 3
    with pytest.raises(StorageArgumentError):
        arguments.check_limit(limit)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), ("", None), ("a", ("a",)), (["a", "b", "a"], ("a", "b")), ([], ())],
)
def test_a_filter_is_one_word_or_several(value: Any, expected: Any) -> None:
    """Absent and empty don't filter; an empty list matches nothing."""
    assert expected == arguments.choices(value)


def test_a_moment_is_in_utc_and_cut_to_milliseconds() -> None:
    """Never rounded, so a value equals its stored self."""
    given_time = datetime(2026, 1, 1, 9, 0, 0, 1999, tzinfo=timezone(timedelta(hours=9)))

    assert datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=UTC) == arguments.moment(given_time)


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), "2026-01-01", None])  # noqa: DTZ001 – the fault that is tested
def test_a_time_without_a_zone_is_refused(value: Any) -> None:
    """Nobody knows which instant it is."""
    with pytest.raises(StorageArgumentError):
        arguments.moment(value)


# -- metadata and JSON ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "wanted", "expected"),
    [
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        ("1", 1, False),
        (None, None, True),
        ([1], 1, False),
        (0.5, 0.5, True),
    ],
)
def test_scalars_are_compared_with_their_type(stored: Any, wanted: Any, expected: bool) -> None:
    """As JSON, not as Python."""
    assert expected == metadata.metadata_matches({"k": stored}, {"k": wanted})


def test_none_matches_what_is_not_there() -> None:
    """A missing key, and no metadata at all."""
    assert metadata.metadata_matches({}, {"k": None})
    assert metadata.metadata_matches(None, {"k": None})
    assert not metadata.metadata_matches(None, {"k": 1})
    assert {} == metadata.check_metadata_filter(None)


@given(JSON)
def test_json_equals_itself_in_any_order(value: Any) -> None:
    """Members may stand in any order."""
    assert same_json(value, _reversed(value))
    assert not same_json({"v": value}, {"v": [value]})


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (1, True, False),
        ([0], [False], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": None}, {}, False),
        ([1, 2], [2, 1], False),
        ("a", ["a"], False),
        ((1,), [1], True),
    ],
)
def test_json_equality_by_example(left: Any, right: Any, expected: bool) -> None:
    """Types count, the order of members doesn't, that of elements does."""
    assert expected == same_json(left, right)


# -- tasks ------------------------------------------------------------------------------------


def task(**members: Any) -> BackgroundTask:
    given_members = {
        "id": "task1",
        "status": "pending",
        "tool_name": "t",
        "tool_call_id": "c",
        "args": {},
        "agent_id": "a",
        "run_id": "r",
        "created_at": T0,
        **members,
    }
    return BackgroundTask(**given_members)


def test_a_task_without_the_time_sorts_first() -> None:
    """Whatever the others are."""
    early = task(id="b", started_at=datetime(1970, 1, 2, tzinfo=UTC))
    never = task(id="a")

    assert [never, early] == sorted(
        [early, never], key=lambda one: tasks.order_key(one, "startedAt")
    )


def test_an_empty_filter_filters_nothing() -> None:
    """Orders and pages are no filter, statuses and dates are."""
    assert tasks.filters_nothing(TaskFilter(order_by="startedAt", page=1, per_page=1, status=""))
    assert not tasks.filters_nothing(TaskFilter(status=[]))
    assert not tasks.filters_nothing(TaskFilter(to_date=T0))
    assert not tasks.filters_nothing(TaskFilter(run_id="r"))


def test_a_patch_with_a_value_of_a_wrong_kind_is_refused() -> None:
    """Before it is written."""
    assert tasks.apply_patch(task(), {"retry_count": 2}).retry_count == 2
    with pytest.raises(StorageArgumentError):
        tasks.apply_patch(task(), {"retry_count": "many"})


@pytest.mark.parametrize(
    ("expected", "answer"), [(None, True), ("pending", True), (["a", "b"], False), ([], False)]
)
def test_an_expectation_is_one_status_or_several(expected: Any, answer: bool) -> None:
    """None expects nothing."""
    assert answer == tasks.is_expected("pending", expected)


# -- timers -----------------------------------------------------------------------------------


def timer(**members: Any) -> Schedule:
    given_members = {"id": "s", "target": {"workflowId": "w"}, "cron": "* * * * *",
                     "next_fire_at": 5, "created_at": 1, "updated_at": 1, **members}  # fmt: skip
    return Schedule(**given_members)


def test_a_timer_is_due_while_it_is_active() -> None:
    """From its very millisecond."""
    assert [False, True, True] == [schedules.is_due(timer(), now) for now in (4, 5, 6)]
    assert not schedules.is_due(timer(status="paused"), 9)


def test_a_changed_timer_says_when() -> None:
    """Unless the patch itself does."""
    assert schedules.apply_patch(timer(), {"cron": "1 * * * *"}, now_ms=9).updated_at == 9
    assert schedules.apply_patch(timer(), {"updated_at": 7}, now_ms=9).updated_at == 7
    with pytest.raises(StorageArgumentError):
        schedules.apply_patch(timer(), {"next_fire_at": "soon"}, now_ms=9)


def test_a_history_row_needs_its_ids() -> None:
    """Of itself and of its timer."""
    row = ScheduleTrigger(
        id="f", schedule_id="", scheduled_fire_at=1, actual_fire_at=1, outcome="published"
    )

    with pytest.raises(StorageArgumentError):
        schedules.check_trigger(row)


# -- copies of threads ------------------------------------------------------------------------


def message(message_id: str) -> Message:
    return Message(
        id=message_id, role="user", created_at=T0, thread_id="t", resource_id="r", content={}
    )


def thread(title: str = "Trip") -> Thread:
    return Thread(id="t", resource_id="r", title=title, created_at=T0, updated_at=T0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["a", "b", "c"]),
        ({"message_limit": 2}, ["b", "c"]),
        ({"message_limit": 9}, ["a", "b", "c"]),
        ({"message_ids": ["c", "a", "x"]}, ["a", "c"]),
        ({"message_ids": []}, []),
        ({"message_ids": ["a", "b"], "message_limit": 1}, ["b"]),
    ],
)
def test_a_copy_takes_the_named_and_the_newest(options: Any, expected: list[str]) -> None:
    """Oldest first, whatever the order of the names."""
    chosen = cloning.messages_to_clone([message(name) for name in "abc"], **options)

    assert expected == [one.id for one in chosen]


def test_a_copy_remembers_its_source() -> None:
    """The last message is told if there is one; no title gives no title."""
    copy = cloning.cloned_thread(thread(), [message("a")], thread_id="t2", now=T0)
    bare = cloning.cloned_thread(thread(""), [], thread_id="t2", now=T0, metadata={"k": 1})

    origin = {"sourceThreadId": "t", "clonedAt": "2026-01-01T00:00:00.000Z"}
    assert {"clone": {**origin, "lastMessageId": "a"}} == copy.metadata
    assert {"k": 1, "clone": origin} == bare.metadata
    assert ("Clone of Trip", "") == (copy.title, bare.title)
