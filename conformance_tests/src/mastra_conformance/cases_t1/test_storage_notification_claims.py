"""Binds the suite of claims on inbox records."""

from __future__ import annotations

from mastra_conformance.suites.storage.notification_claims import ClaimSuite

__all__ = ("TestClaims",)


class TestClaims(ClaimSuite):
    """The adapters of the command line."""
