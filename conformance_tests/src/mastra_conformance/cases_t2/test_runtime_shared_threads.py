"""Threads that several processes share, on the adapters of the command line."""

from __future__ import annotations

from mastra_conformance.suites.runtime.shared_threads import (
    SharedStateSuite,
    SharedThreadCrashSuite,
    SharedThreadSuite,
)

__all__ = ("TestSharedStates", "TestSharedThreadCrashes", "TestSharedThreads")


class TestSharedThreads(SharedThreadSuite):
    """Applications side by side."""


class TestSharedStates(SharedStateSuite):
    """Processes that tell the same states."""


class TestSharedThreadCrashes(SharedThreadCrashSuite):
    """Processes that die or stand still."""
