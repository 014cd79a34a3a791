"""The comparer: what counts as equal, and where it says that something isn't."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_conformance.wire.compare import compare

__all__ = ()

ONE = "8d1c9d9e-0000-4000-8000-000000000001"
TWO = "8d1c9d9e-0000-4000-8000-000000000002"
EARLY = "2026-01-01T00:00:00.000Z"
LATE = 1_800_000_000_000


def pointers(recorded: Any, replayed: Any, *excused: str) -> tuple[list[str], list[str]]:
    faults, allowed = compare(recorded, replayed, is_excused=lambda place: place in excused)
    return [fault.pointer for fault in faults], [fault.pointer for fault in allowed]


@pytest.mark.parametrize(
    ("recorded", "replayed"),
    [
        ({"a": 1, "b": None}, {"b": None, "a": 1}),
        ({"id": "id1", "again": "id1"}, {"id": ONE, "again": ONE}),
        ({"text": "run id2 of id1"}, {"text": f"run {TWO} of {ONE}"}),
        ({"at": "t3", "same": "t3", "then": "t7"}, {"at": EARLY, "same": EARLY, "then": LATE}),
        ({"at": "t3", "then": "t7"}, {"at": LATE, "then": LATE}),
        (
            {"error": {"name": "Error", "message": "down"}},
            {"error": {"name": "ModelError", "message": "down", "code": "MODEL_ERROR"}},
        ),
    ],
    ids=["order", "ids", "ids in text", "times", "equal times", "class of an error"],
)
def test_these_are_equal(recorded: Any, replayed: Any) -> None:
    assert ([], []) == pointers(recorded, replayed)


@pytest.mark.parametrize(
    ("recorded", "replayed", "place"),
    [
        ({"a": {"b/c": 1}}, {"a": {"b/c": 2}}, "/a/b~1c"),
        ({"a": 1}, {"a": True}, "/a"),
        ({"a": None}, {}, "/a"),
        ({}, {"a": 1}, "/a"),
        ({"attributes": {"a": 1, "b": 2}}, {"attributes": {"b": 2, "a": 1}}, "/attributes"),
        ({"id": "id1", "other": "id1"}, {"id": ONE, "other": TWO}, "/other"),
        ({"id": "id1", "other": "id2"}, {"id": ONE, "other": ONE}, "/other"),
        ({"at": "t3", "same": "t3"}, {"at": EARLY, "same": LATE}, "/same"),
        ({"at": "t3"}, {"at": "soon"}, "/at"),
        (
            {"error": {"name": "Error", "message": "down", "code": "E_DOWN"}},
            {"error": {"name": "Error", "message": "down", "code": "OTHER"}},
            "/error/code",
        ),
        ({"error": {"name": "Error", "message": "down"}}, {"error": {"a": 1}}, "/error"),
    ],
    ids=[
        "value",
        "type",
        "absent is not null",
        "more than recorded",
        "order of attributes",
        "two ids for one name",
        "one id for two names",
        "two times for one name",
        "no time",
        "code of an error",
        "no error",
    ],
)
def test_this_differs_in_one_place(recorded: Any, replayed: Any, place: str) -> None:
    assert ([place], []) == pointers(recorded, replayed)


def test_of_times_out_of_order_the_fewest_are_named() -> None:
    """One that is late among many is named, not those after it."""
    recorded = {name: name for name in ("t0", "t1", "t2", "t3")}
    replayed = {"t0": 10, "t1": 99, "t2": 12, "t3": 13}

    assert (["/t1"], []) == pointers(recorded, replayed)


def test_an_element_more_or_less_shifts_no_other() -> None:
    """Elements are matched by kind; one that only we have is named by its place here."""
    recorded = [{"type": "start"}, {"type": "text", "n": 1}, {"type": "finish"}]
    replayed = [{"type": "start"}, {"type": "abort"}, {"type": "text", "n": 1}]

    assert (["/+1", "/2"], []) == pointers(recorded, replayed)


def test_an_excused_place_decides_about_no_name() -> None:
    """The id there may be another one; what the name stands for is seen elsewhere."""
    recorded = {"odd": "id1", "plain": "id1", "again": "id1"}
    replayed = {"odd": TWO, "plain": ONE, "again": ONE}

    assert ([], ["/odd"]) == pointers(recorded, replayed, "/odd")


def test_an_excused_place_that_is_equal_shows_no_difference() -> None:
    """So that an allowance that isn't needed any more is noticed."""
    assert ([], []) == pointers({"a": {"at": "t1"}}, {"a": {"at": EARLY}}, "/a")
