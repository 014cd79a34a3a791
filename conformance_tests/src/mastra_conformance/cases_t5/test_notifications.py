"""Binds the suite of the inbox beside Node."""

from __future__ import annotations

from mastra_conformance.suites.interop.notifications import NotificationInteropSuite

__all__ = ("TestNodeNotifications",)


class TestNodeNotifications(NotificationInteropSuite):
    """The adapters of the command line."""
