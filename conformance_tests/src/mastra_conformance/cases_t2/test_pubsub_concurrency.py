"""Binds the suite of concurrent publishers and members."""

from __future__ import annotations

from mastra_conformance.suites.pubsub.concurrency import PubSubConcurrencySuite

__all__ = ("TestPubSubConcurrency",)


class TestPubSubConcurrency(PubSubConcurrencySuite):
    """The adapters of the command line."""
