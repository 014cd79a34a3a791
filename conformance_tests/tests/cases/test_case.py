"""The mark ``@case`` and the index behind it."""

from __future__ import annotations

import pytest

from mastra_conformance import case, requires, tier
from mastra_conformance.cases import UnknownCaseError, case_index

__all__ = ()


def test_the_index_holds_every_specification() -> None:
    """Nine pages, counted from 1 without a gap."""
    counts = {spec: len(texts) for spec, texts in case_index().texts.items()}

    assert 9 == len(counts)
    assert 827 == sum(counts.values())
    assert all(
        list(texts) == list(range(1, len(texts) + 1)) for texts in case_index().texts.values()
    )


def test_a_marked_function_still_works() -> None:
    """Outside of pytest the mark changes nothing."""

    @case("signals", 1, 2)
    def answer() -> int:
        return 42

    assert 42 == answer()


@pytest.mark.parametrize(
    ("spec", "numbers", "text"),
    [
        ("signal", (1,), "Unknown specification 'signal'"),
        ("signals", (0,), "Unknown case 0 of 'signals'. Known: 1 … 140"),
        ("signals", (1, 141), "Unknown case 141"),
        ("signals", ("7",), "Unknown case '7'"),
        ("signals", (True,), "Unknown case True"),
    ],
)
def test_unknown_cases_are_errors(spec: str, numbers: tuple[int, ...], text: str) -> None:
    """The message names what was written and what exists."""
    with pytest.raises(UnknownCaseError, match=text):
        case(spec, *numbers)


def test_marks_without_content_are_errors() -> None:
    """A mark that says nothing is a mistake."""
    with pytest.raises(ValueError, match="names no case"):
        case("signals")
    with pytest.raises(ValueError, match="names no capability"):
        requires()
    with pytest.raises(ValueError, match=r"'memory\.telepathy' is not a capability"):
        requires("memory.telepathy")
    with pytest.raises(ValueError, match="Tier 7"):
        tier(7)
