"""Binds the suite of many writers of one run."""

from __future__ import annotations

from mastra_conformance.suites.storage.workflows import SnapshotCrowdSuite

__all__ = ("TestSnapshotCrowd",)


class TestSnapshotCrowd(SnapshotCrowdSuite):
    """The adapters of the command line."""
