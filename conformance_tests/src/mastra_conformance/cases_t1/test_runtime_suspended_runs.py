"""Suspended runs of real agents, on the adapters of the command line."""

from __future__ import annotations

from mastra_conformance.suites.runtime.suspended_runs import ResumeSuite, SuspendedRunListSuite

__all__ = ("TestResume", "TestSuspendedRunList")


class TestSuspendedRunList(SuspendedRunListSuite):
    """Listing."""


class TestResume(ResumeSuite):
    """Answering."""
