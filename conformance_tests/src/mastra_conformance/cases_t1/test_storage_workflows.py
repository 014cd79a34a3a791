"""Binds the suite of run snapshots."""

from __future__ import annotations

from mastra_conformance.suites.storage.workflows import SnapshotSuite

__all__ = ("TestSnapshots",)


class TestSnapshots(SnapshotSuite):
    """The adapters of the command line."""
