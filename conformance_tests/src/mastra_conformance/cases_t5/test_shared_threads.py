"""Binds the suite of a thread that both languages run and reach."""

from __future__ import annotations

from mastra_conformance.suites.interop.shared_threads import SharedThreadInteropSuite

__all__ = ("TestNodeSharedThreads",)


class TestNodeSharedThreads(SharedThreadInteropSuite):
    """The adapters of the command line."""
