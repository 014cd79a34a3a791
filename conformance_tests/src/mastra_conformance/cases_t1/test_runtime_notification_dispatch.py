"""Binds the suite of notification dispatch."""

from __future__ import annotations

from mastra_conformance.suites.runtime.notification_dispatch import DispatchSuite

__all__ = ("TestDispatch",)


class TestDispatch(DispatchSuite):
    """The adapters of the command line."""
