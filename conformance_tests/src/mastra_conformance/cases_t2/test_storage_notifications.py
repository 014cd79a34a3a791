"""Binds the suites of many writers and dispatchers at one inbox."""

from __future__ import annotations

from mastra_conformance.suites.storage.notification_claims import ClaimCrowdSuite
from mastra_conformance.suites.storage.notifications import NotificationCrowdSuite

__all__ = ("TestClaimCrowd", "TestNotificationCrowd")


class TestNotificationCrowd(NotificationCrowdSuite):
    """The adapters of the command line."""


class TestClaimCrowd(ClaimCrowdSuite):
    """The adapters of the command line."""
