"""Binds the suites of files on bad disks."""

from __future__ import annotations

from mastra_conformance.suites.faults.file_faults import (
    BusFileSuite,
    FileFaultSuite,
    FullDiskSuite,
)

__all__ = ("TestBusFile", "TestFileFaults", "TestFullDisk")


class TestFullDisk(FullDiskSuite):
    """The adapters of the command line."""


class TestFileFaults(FileFaultSuite):
    """The adapters of the command line."""


class TestBusFile(BusFileSuite):
    """The adapters of the command line."""
