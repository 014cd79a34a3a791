"""Binds the suite of processes that share a thread and are cut off."""

from __future__ import annotations

from mastra_conformance.suites.faults.thread_outages import ThreadOutageSuite

__all__ = ("TestThreadOutages",)


class TestThreadOutages(ThreadOutageSuite):
    """The adapters of the command line."""
