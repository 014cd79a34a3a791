"""Binds the suite of watching leases."""

from __future__ import annotations

from mastra_conformance.suites.lease.watching import WatchSuite

__all__ = ("TestWatching",)


class TestWatching(WatchSuite):
    """The adapters of the command line."""
