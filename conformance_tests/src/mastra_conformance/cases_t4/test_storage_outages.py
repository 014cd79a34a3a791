"""Binds the suite of stores whose server or network breaks."""

from __future__ import annotations

from mastra_conformance.suites.faults.storage_outages import StorageOutageSuite

__all__ = ("TestStorageOutages",)


class TestStorageOutages(StorageOutageSuite):
    """The adapters of the command line."""
