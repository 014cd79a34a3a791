"""Binds the suite of events that real agents get."""

from __future__ import annotations

from mastra_conformance.suites.runtime.notifications import NotificationsSuite

__all__ = ("TestNotifications",)


class TestNotifications(NotificationsSuite):
    """The adapters of the command line."""
