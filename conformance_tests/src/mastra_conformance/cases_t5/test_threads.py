"""Binds the suite of threads and messages beside Node."""

from __future__ import annotations

from mastra_conformance.suites.interop.threads import ThreadInteropSuite

__all__ = ("TestNodeThreads",)


class TestNodeThreads(ThreadInteropSuite):
    """The adapters of the command line."""
