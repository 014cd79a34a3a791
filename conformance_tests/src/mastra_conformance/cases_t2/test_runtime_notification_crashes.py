"""Binds the suite of crashes around the inbox."""

from __future__ import annotations

from mastra_conformance.suites.runtime.notification_crashes import CrashSuite

__all__ = ("TestCrashes",)


class TestCrashes(CrashSuite):
    """The adapters of the command line."""
