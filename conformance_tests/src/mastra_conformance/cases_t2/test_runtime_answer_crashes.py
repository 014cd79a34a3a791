"""Binds the suite of crashes around answers."""

from __future__ import annotations

from mastra_conformance.suites.runtime.answer_crashes import AnswerCrashSuite

__all__ = ("TestAnswerCrashes",)


class TestAnswerCrashes(AnswerCrashSuite):
    """The adapters of the command line."""
