"""Binds the soak of threads that several processes keep busy."""

from __future__ import annotations

from mastra_conformance.suites.faults.thread_soak import ThreadSoakSuite

__all__ = ("TestThreadSoak",)


class TestThreadSoak(ThreadSoakSuite):
    """The adapters of the command line."""
