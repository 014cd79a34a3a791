"""A text in pieces is filtered as if it had come whole, whatever the pieces."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mastra_processors.held_text import HeldText
from mastra_processors.redaction import find_matches, redacted, regions_of
from mastra_processors.regex_presets import Rule

RULES = (
    Rule(name="code", pattern=re.compile(r"INT-\d{4}"), replacement="[CODE]"),
    Rule(name="number", pattern=re.compile(r"\b\d+\b"), replacement="#"),
    Rule(name="tag", pattern=re.compile(r"<\w{0,8}>")),
)
#: The longest match that a rule only sees as a whole.
WAITS = 10

texts = st.lists(
    st.sampled_from(["INT-1234", "INT-", "12", " ", "<b>", "<", "word", "-", "\n", "é"]),
    max_size=30,
).map("".join)


def chunk(text: str) -> dict[str, Any]:
    return {"type": "text-delta", "payload": {"id": "1", "text": text}}


def in_pieces(pieces: list[str]) -> str:
    """What goes out, piece by piece."""
    held = HeldText()
    out: list[str] = []

    def let_go(*, is_end: bool) -> None:
        regions = regions_of(find_matches(held.text, RULES, start=held.start))
        end = len(held.text) if is_end else held.safe_end(regions, waits=WAITS)
        shown = held.let_go(end, [region for region in regions if region.end <= end])
        if shown is not None:
            out.append(shown["payload"]["text"])

    for piece in pieces:
        held.add(chunk(piece))
        let_go(is_end=False)
    let_go(is_end=True)
    return "".join(out)


@given(text=texts, cuts=st.lists(st.integers(0, 200), max_size=20))
def test_pieces_come_out_as_the_whole_would(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(places)] or [""]

    assert redacted(text, regions_of(find_matches(text, RULES))) == in_pieces(pieces)


@given(text=texts)
def test_nothing_of_a_match_is_left(text: str) -> None:
    clean = redacted(text, regions_of(find_matches(text, RULES)))

    assert not re.search(r"INT-\d{4}", clean)
