"""Binds the suite of background tasks."""

from __future__ import annotations

from mastra_conformance.suites.storage.background_tasks import BackgroundTaskSuite

__all__ = ("TestBackgroundTasks",)


class TestBackgroundTasks(BackgroundTaskSuite):
    """The adapters of the command line."""
