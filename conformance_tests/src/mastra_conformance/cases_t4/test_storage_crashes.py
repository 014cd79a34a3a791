"""Binds the suite of clients that die or stand still."""

from __future__ import annotations

from mastra_conformance.suites.faults.storage_crashes import StorageCrashSuite

__all__ = ("TestStorageCrashes",)


class TestStorageCrashes(StorageCrashSuite):
    """The adapters of the command line."""
