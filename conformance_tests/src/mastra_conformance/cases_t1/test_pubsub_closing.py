"""Binds the suite of flushing and closing."""

from __future__ import annotations

from mastra_conformance.suites.pubsub.closing import ClosingSuite

__all__ = ("TestClosing",)


class TestClosing(ClosingSuite):
    """The adapters of the command line."""
