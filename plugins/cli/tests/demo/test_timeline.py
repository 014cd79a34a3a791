"""The timeline, with and without colours."""

from __future__ import annotations

import io

import pytest

from mastra_cli.demo.timeline import PlainTimeline, RichTimeline


def play(timeline: PlainTimeline | RichTimeline) -> None:
    timeline.title("Part")
    timeline.note("inbox", "something [bold]came[/bold]")
    timeline.speak(" Two")
    timeline.speak(" words")
    timeline.end_speech()
    timeline.end_speech()
    timeline.facts([("a", "1"), ("longer", "2")])
    timeline.commands(["mastra-py doctor"])


@pytest.mark.parametrize("make", [PlainTimeline, RichTimeline])
def test_both_tell_the_same(
    make: type[PlainTimeline | RichTimeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    out, seconds = io.StringIO(), iter(range(100))

    play(make(out, lambda: float(next(seconds))))

    told = out.getvalue()
    for words in (
        "Part",
        "something [bold]came[/bold]",
        "“Two words”",
        "longer",
        "mastra-py doctor",
    ):
        assert words in told
    assert 1 == told.count("”")


def test_plain_lines_carry_the_seconds() -> None:
    out, seconds = io.StringIO(), iter((10.0, 12.5))

    PlainTimeline(out, lambda: next(seconds)).note("tool", "answers")

    assert "   2.5s  tool     answers\n" == out.getvalue()
