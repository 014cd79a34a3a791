"""Binds the suite of batching."""

from __future__ import annotations

from mastra_conformance.suites.pubsub.batching import BatchingSuite

__all__ = ("TestBatching",)


class TestBatching(BatchingSuite):
    """The adapters of the command line."""
