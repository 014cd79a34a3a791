"""Binds the suite of notification dispatch."""

from __future__ import annotations

from mastra_conformance.suites.runtime.notification_dispatch import DispatchCrowdSuite

__all__ = ("TestDispatchCrowd",)


class TestDispatchCrowd(DispatchCrowdSuite):
    """The adapters of the command line."""
