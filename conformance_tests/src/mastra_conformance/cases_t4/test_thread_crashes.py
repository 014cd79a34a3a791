"""Binds the suite of processes that share a thread and die or stand still."""

from __future__ import annotations

from typing import ClassVar

from mastra_conformance.suites.faults.thread_crashes import ThreadCrashSuite

__all__ = ("TestThreadCrashes",)


class TestThreadCrashes(ThreadCrashSuite):
    """The adapters of the command line."""

    other: ClassVar[str | None] = "redis"
