"""Binds the suite of what a bus forgets."""

from __future__ import annotations

from mastra_conformance.suites.pubsub.retention import RetentionSuite

__all__ = ("TestRetention",)


class TestRetention(RetentionSuite):
    """The adapters of the command line."""
