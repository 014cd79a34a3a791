"""Binds the suite of publishing."""

from __future__ import annotations

from mastra_conformance.suites.pubsub.publishing import PublishingSuite

__all__ = ("TestPublishing",)


class TestPublishing(PublishingSuite):
    """The adapters of the command line."""
