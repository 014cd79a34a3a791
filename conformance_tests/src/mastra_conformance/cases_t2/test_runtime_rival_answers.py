"""Several answers to one run at once, on the adapters of the command line."""

from __future__ import annotations

from mastra_conformance.suites.runtime.suspended_runs import RivalAnswersSuite

__all__ = ("TestRivalAnswers",)


class TestRivalAnswers(RivalAnswersSuite):
    """Rival answers."""
