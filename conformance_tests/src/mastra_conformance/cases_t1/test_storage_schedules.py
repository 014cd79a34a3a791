"""Binds the suite of timers."""

from __future__ import annotations

from mastra_conformance.suites.storage.schedules import ScheduleSuite

__all__ = ("TestSchedules",)


class TestSchedules(ScheduleSuite):
    """The adapters of the command line."""
