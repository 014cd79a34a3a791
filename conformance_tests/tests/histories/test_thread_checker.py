"""The checker of threads finds each fault that it is there for, and nothing in a good thread."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_conformance.histories.thread_checker import (
    Answer,
    Sent,
    Told,
    answer_in,
    check_thread,
    check_view,
    open_runs,
)

SENT = [
    Sent(word="a", sender="p"),
    Sent(word="b", sender="q"),
    Sent(word="t1", sender="p", turn=1),
    Sent(word="t2", sender="p", turn=2),
    Sent(word="maybe", sender="q", is_accepted=False),
]


def rows(*texts: str) -> list[Told]:
    """What a thread holds: words, and answers with a colon in them."""
    return [Told(role="assistant" if ":" in text else "signal", text=text) for text in texts]


FIRST = "p.1 after nothing: a b"
SECOND = "p.2 after p.1: t1"
THIRD = "q.1 after p.2: t2"
GOOD = rows("a", "b", FIRST, "t1", SECOND, "t2", THIRD)


def test_a_good_thread_passes() -> None:
    """Also if what was not accepted is answered, once."""
    assert [] == check_thread(GOOD, SENT)
    more = [*GOOD, *rows("maybe", "q.2 after q.1: maybe")]
    assert [] == check_thread(more, SENT)


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (rows("a", "b", FIRST, "t1", SECOND), "t2 was accepted and never answered"),
        (rows("a", "b", FIRST, "t1", SECOND), "t2 was accepted and never entered"),
        ([*GOOD, *rows("a")], "a entered 2 times"),
        ([*GOOD, *rows("q.2 after q.1: b")], "b was answered 2 times"),
        ([*GOOD, *rows("new")], "was never sent"),
        ([*GOOD, *rows("maybe", "q.2 after p.2: maybe")], "only knew of p.2"),
        (rows("a", "b", "p.1 after p.0: a b"), "which is not stored"),
        (rows("a", FIRST, "b"), "before it entered"),
        (rows("a", "b", FIRST, "t1", "t2", "p.2 after p.1: t1 t2"), "2 turns at once"),
        (
            rows("a", "b", FIRST, "t2", "p.2 after p.1: t2", "t1", "p.3 after p.2: t1"),
            "t1 had its turn after t2",
        ),
        (rows("a", "b", FIRST, "p.2 : "), "no whole answer"),
    ],
)
def test_bad_threads_are_found(found: list[Told], fault: str) -> None:
    """Lost, doubled, invented and reordered input; owners that didn't know of each other."""
    assert any(fault in one for one in check_thread(found, SENT))


def test_an_answer_says_what_it_is() -> None:
    """Half of one says nothing."""
    assert Answer(label="p.1", after="nothing", words=("a", "b")) == answer_in(FIRST)
    assert answer_in("p.1 ") is None


def seen(*kinds: str, run: str = "r1") -> list[dict[str, Any]]:
    """Chunks of one run; a word in capitals is the end of a text."""
    made: list[dict[str, Any]] = []
    for kind in kinds:
        if kind.startswith("text:"):
            delta = {"type": "text-delta", "payload": {"text": kind[5:]}}
            made += [{"type": "text-start", "runId": run}, {**delta, "runId": run}]
        else:
            made.append({"type": kind, "runId": run})
    return made


@pytest.mark.parametrize(
    "chunks",
    [
        seen("start", f"text:{FIRST}", "finish"),
        seen("start", "text:half", "error"),
        seen("start", "text:half", "abort") + seen("start", "finish", run="r2"),
        # Another process answers under the id that was promised.
        seen("start", "text:half", "error") + seen("start", f"text:{FIRST}", "finish"),
    ],
)
def test_good_views_pass(chunks: list[dict[str, Any]]) -> None:
    """Whole runs, and explicit ends."""
    assert [] == check_view(chunks, [FIRST])


@pytest.mark.parametrize(
    ("chunks", "fault"),
    [
        (seen("start", "text:half", "finish"), "which is not stored"),
        (seen("start", "text:half"), "never ended"),
        (seen("step-start", "finish"), "began with step-start"),
        (seen("start", "finish", "finish"), "after its finish"),
        (seen("start") + seen("start", "finish", run="r2"), "before r1 had ended"),
        (
            [{"type": "start", "runId": "r"}, {**seen("text:x", run="r")[1]}],
            "a text that never began",
        ),
    ],
)
def test_bad_views_are_found(chunks: list[dict[str, Any]], fault: str) -> None:
    """Gaps, phantoms, ends that never come."""
    assert any(fault in one for one in check_view(chunks, [FIRST]))


@pytest.mark.parametrize(
    ("chunks", "still_open"),
    [
        ([], []),
        (seen("start", "text:half"), ["r1"]),
        (seen("start", "finish") + seen("start", "abort", run="r2"), []),
        (seen("start", "finish") + seen("start", run="r2"), ["r2"]),
        (seen("start", "error", "start"), ["r1"]),
        (seen("start", "error", "start", "error"), []),
        # What is wrong here is no end that a reader waits for.
        (seen("start", "finish", "text:x"), []),
    ],
)
def test_a_reader_knows_whose_end_it_waits_for(
    chunks: list[dict[str, Any]], still_open: list[str]
) -> None:
    """An answer that is tried again is open again."""
    assert still_open == open_runs(chunks)
