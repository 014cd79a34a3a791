"""How a conformance test can end; absence is an outcome with a name, never silence."""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

from _pytest.outcomes import Skipped

__all__ = ("DishonestError", "NotRunError", "Outcome", "not_run")


class Outcome(StrEnum):
    """The end of one test, worst first where several phases disagree."""

    FAILED = "failed"
    DISHONEST = "dishonest"
    NOT_RUN = "not-run"
    EXPECTED_FAILURE = "expected-failure"
    REFUSED = "refused"
    PASSED = "passed"

    @property
    def is_failure(self) -> bool:
        """Whether the adapter did something wrong that nobody announced."""
        return self in {Outcome.FAILED, Outcome.DISHONEST}


class DishonestError(AssertionError):
    """The adapter does something else than its descriptor declares."""


class NotRunError(Skipped):
    """The environment lacks something; shown with its reason, never counted as green."""


def not_run(reason: str, *, command: str | None = None) -> NoReturn:
    """
    End a test that this machine can't run.

    Args:
        reason: What is missing, as a sentence.
        command: What would provide it.
    """
    advice = f" Try: {command}" if command else ""
    raise NotRunError(f"{reason}{advice}")
