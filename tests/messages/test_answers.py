"""Which messages answer what was said before them."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_core.messages.answers import is_answer

__all__ = ()

STEP, ERROR = {"type": "step-start"}, {"type": "error"}
TEXT, CALL = {"type": "text", "text": "yes"}, {"type": "tool-invocation"}


@pytest.mark.parametrize(
    ("parts", "is_one"),
    [
        ([STEP, TEXT], True),
        # It was said, whatever went wrong afterwards.
        ([STEP, TEXT, ERROR], True),
        ([STEP, CALL, STEP, TEXT], True),
        ([STEP, ERROR], False),
        ([STEP, CALL], False),
        ([STEP, CALL, ERROR], False),
        ([], False),
    ],
)
def test_what_was_said_is_an_answer(parts: list[dict[str, Any]], is_one: bool) -> None:
    """Errors and calls alone are none."""
    assert is_one == is_answer("assistant", {"parts": parts})
    assert not is_answer("user", {"parts": parts})


def test_what_waits_for_somebody_is_an_answer() -> None:
    """It goes on from storage; asking again would say it twice."""
    content = {"parts": [STEP, CALL], "metadata": {"suspendedTools": {"call": {}}}}
    assert is_answer("assistant", content)
