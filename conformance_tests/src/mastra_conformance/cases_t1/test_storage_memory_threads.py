"""Binds the suite of threads."""

from __future__ import annotations

from mastra_conformance.suites.storage.memory_threads import ThreadSuite

__all__ = ("TestThreads",)


class TestThreads(ThreadSuite):
    """The adapters of the command line."""
