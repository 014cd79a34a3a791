"""Binds the suite of the state of threads."""

from __future__ import annotations

from mastra_conformance.suites.storage.thread_state import ThreadStateSuite

__all__ = ("TestThreadState",)


class TestThreadState(ThreadStateSuite):
    """The adapters of the command line."""
