"""Binds the suites of owners that write at once, and of one that stood still."""

from __future__ import annotations

from mastra_conformance.suites.storage.guarded_writes import (
    GuardedCrowdSuite,
    GuardedProcessSuite,
)

__all__ = ("TestGuardedCrowd", "TestGuardedProcesses")


class TestGuardedCrowd(GuardedCrowdSuite):
    """The adapters of the command line."""


class TestGuardedProcesses(GuardedProcessSuite):
    """The adapters of the command line."""
