"""Binds the suite of inbox records."""

from __future__ import annotations

from mastra_conformance.suites.storage.notifications import NotificationSuite

__all__ = ("TestNotifications",)


class TestNotifications(NotificationSuite):
    """The adapters of the command line."""
