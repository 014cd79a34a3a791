"""Binds the suite of buses that deliver badly."""

from __future__ import annotations

from mastra_conformance.suites.faults.unreliable_events import UnreliableEventsSuite

__all__ = ("TestUnreliableEvents",)


class TestUnreliableEvents(UnreliableEventsSuite):
    """The adapters of the command line."""
