"""Binds the suite of suspended runs beside Node."""

from __future__ import annotations

from mastra_conformance.suites.interop.suspended_runs import SuspendedRunInteropSuite

__all__ = ("TestNodeSuspendedRuns",)


class TestNodeSuspendedRuns(SuspendedRunInteropSuite):
    """The adapters of the command line."""
