"""Binds the suite of suspended runs."""

from __future__ import annotations

from mastra_conformance.suites.storage.suspended_runs import SuspendedRunSuite

__all__ = ("TestSuspendedRuns",)


class TestSuspendedRuns(SuspendedRunSuite):
    """The adapters of the command line."""
