"""Binds the suite of subscribing."""

from __future__ import annotations

from mastra_conformance.suites.pubsub.subscribing import SubscribingSuite

__all__ = ("TestSubscribing",)


class TestSubscribing(SubscribingSuite):
    """The adapters of the command line."""
