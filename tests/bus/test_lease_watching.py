"""What a watcher concludes from two looks at a key."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.bus.lease_watching import NOTHING, LeaseWatch, Sight, events_between


def sight(owner: str | None, fence: int, **more: Any) -> Sight:
    given: dict[str, Any] = {
        "holder": None,
        "origin": "acquired",
        "left_ms": 1_000,
        "lives": owner is not None,
    }
    return Sight(owner=owner, fence=fence, **{**given, **more})


FREE = sight(None, 1)
A = sight("a", 1)
B = sight("b", 2)


@pytest.mark.parametrize(
    ("before", "now", "is_over", "expected"),
    [
        (NOTHING, A, False, [("acquired", "a", 1)]),
        (A, A, False, []),
        (A, FREE, False, [("released", "a", 1)]),
        (A, FREE, True, [("released", "a", 1)]),
        (A, sight("a", 1, lives=False), True, [("expired", "a", 1)]),
        (sight("a", 1, lives=False), sight("a", 1, lives=False), True, []),
        (FREE, B, False, [("acquired", "b", 2)]),
        (A, B, False, [("released", "a", 1), ("acquired", "b", 2)]),
        (A, B, True, [("expired", "a", 1), ("acquired", "b", 2)]),
        (A, sight("b", 2, origin="transferred"), False, [("transferred", "b", 2)]),
        (A, sight("a", 2), False, [("acquired", "a", 2)]),
        (A, sight(None, 3), False, [("released", "a", 1), ("released", None, 3)]),
        (FREE, sight("b", 2, lives=False), False, [("acquired", "b", 2), ("expired", "b", 2)]),
    ],
)
def test_two_looks_tell_what_happened(
    before: Sight, now: Sight, is_over: bool, expected: list[tuple[str, str | None, int]]
) -> None:
    """Kind, owner and fence of each event, in order."""
    events = events_between("k", before, now, is_over=is_over)

    assert expected == [(event.kind, event.owner, event.fence) for event in events]


def test_a_late_answer_to_an_early_question_changes_nothing() -> None:
    watch = LeaseWatch("k")

    told = [watch.saw(one, 0.0) for one in (A, B, A)]

    assert [False, True, False] == told
    assert B is watch.seen


@pytest.mark.parametrize(
    ("seen", "now", "expected"),
    [(None, 0.0, 5.0), (FREE, 0.0, 5.0), (A, 0.4, 0.62), (A, 2.0, 0.02), (A, -9.0, 5.0)],
)
def test_a_watch_looks_again_when_the_term_must_be_over(
    seen: Sight | None, now: float, expected: float
) -> None:
    """A term of a second, seen at 0, looked at again every 5 seconds at least."""
    watch = LeaseWatch("k", seen=seen)

    assert expected == pytest.approx(watch.patience_s(now, 5.0))
