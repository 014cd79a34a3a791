"""Binds the suite of the dispatch schedule and loop."""

from __future__ import annotations

from mastra_conformance.suites.runtime.notification_schedule import ScheduleSuite

__all__ = ("TestSchedule",)


class TestSchedule(ScheduleSuite):
    """The adapters of the command line."""
