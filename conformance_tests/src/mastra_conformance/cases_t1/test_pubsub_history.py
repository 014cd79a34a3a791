"""Binds the suite of history."""

from __future__ import annotations

from mastra_conformance.suites.pubsub.history import HistorySuite

__all__ = ("TestHistory",)


class TestHistory(HistorySuite):
    """The adapters of the command line."""
