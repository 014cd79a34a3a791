"""Binds the suite of writes that carry a fence."""

from __future__ import annotations

from mastra_conformance.suites.storage.guarded_writes import GuardedWriteSuite

__all__ = ("TestGuardedWrite",)


class TestGuardedWrite(GuardedWriteSuite):
    """The adapters of the command line."""
