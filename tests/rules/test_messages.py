"""Tests of ``mastra_core.rules.messages``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mastra_core.contracts.storage import DateRange, OrderBy
from mastra_core.errors import StorageArgumentError
from mastra_core.rules import messages
from mastra_core.wire.messages import Message

__all__ = ()

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def message(message_id: str = "m", text: str = "", seconds: int = 0, **members: Any) -> Message:
    given = {"role": "user", "thread_id": "t", "resource_id": "r", **members}
    given.setdefault("content", {"content": text})
    return Message(id=message_id, created_at=T0 + timedelta(seconds=seconds), **given)


def test_a_batch_has_each_id_once() -> None:
    """The place and time of the first, the content of the last."""
    batch = [message("a", "1", 1), message("b", "2", 2), message("a", "3", 3)]

    collapsed = messages.collapse_batch(batch)

    assert [("a", "3", 1), ("b", "2", 2)] == [
        (one.id, one.content["content"], (one.created_at - T0).seconds) for one in collapsed
    ]


def test_content_and_its_metadata_merge() -> None:
    """One level deep each; the stored message is untouched."""
    stored = message(content={"a": 1, "b": {"x": 1}, "metadata": {"k": 1, "l": {"x": 1}}})

    merged = messages.merge_patch(
        stored, {"id": "m", "content": {"b": {"y": 2}, "metadata": {"l": {"y": 2}}}}
    )

    assert merged.content == {"a": 1, "b": {"y": 2}, "metadata": {"k": 1, "l": {"y": 2}}}
    assert stored.content["b"] == {"x": 1}


@pytest.mark.parametrize(("stored", "given"), [(None, {"k": 1}), ({"k": 1}, None), ("x", {"k": 1})])
def test_metadata_of_another_kind_is_replaced(stored: Any, given: Any) -> None:
    """Nothing can be merged with what is no object."""
    before = message(content={"metadata": stored})

    merged = messages.merge_patch(before, {"id": "m", "content": {"metadata": given}})

    assert merged.content == {"metadata": given}


def test_the_filler_is_no_type() -> None:
    """Neither read nor patched in."""
    assert messages.without_filler(message(type="v2")).type is None
    assert messages.without_filler(message(type="note")).type == "note"
    assert messages.merge_patch(message(type="note"), {"id": "m", "type": "v2"}).type is None


def test_moving_is_explicit() -> None:
    """Saving to another thread is refused."""
    messages.refuse_move(message(), message(text="new"))
    with pytest.raises(StorageArgumentError):
        messages.refuse_move(message(), message(thread_id="other"))


def test_both_threads_of_a_move_are_touched() -> None:
    """None and homeless messages touch nothing."""
    rows = (message(), message(thread_id="u"), message(thread_id=None), None)

    assert {"t", "u"} == messages.threads_touched(*rows)


@pytest.mark.parametrize("count", [-1, 1.0, True, None])
def test_windows_have_sizes(count: Any) -> None:
    """Whole numbers from 0."""
    messages.check_include((0, 5))
    with pytest.raises(StorageArgumentError):
        messages.check_include((0, count))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, True),
        ({"seconds": -1}, False),
        ({"seconds": 61}, False),
        ({"thread_id": "elsewhere"}, False),
        ({"resource_id": "somebody else"}, False),
        ({"topic": "b"}, False),
    ],
)
def test_an_included_message_may_match_the_filter_too(
    members: dict[str, Any], expected: bool
) -> None:
    """Its time is in the range, and thread, resource and metadata are those of the filter."""
    start = message().created_at
    is_match = messages.matcher(
        ["t"], "r", DateRange(start=start, end=start + timedelta(seconds=60)), {"topic": "a"}
    )
    topic = members.get("topic", "a")
    placed = {name: value for name, value in members.items() if name != "topic"}
    found = message(content={"metadata": {"topic": topic}}, **placed)

    assert expected == is_match(found)


@pytest.mark.parametrize(("direction", "expected"), [("ASC", "abc"), ("DESC", "cba")])
def test_page_and_windows_have_each_message_once(direction: Any, expected: str) -> None:
    a, b, c = message("a", seconds=1), message("b", seconds=1), message("c", seconds=2)

    found = messages.joined([c, a], [a, b], OrderBy(direction=direction))

    assert list(expected) == [one.id for one in found]
