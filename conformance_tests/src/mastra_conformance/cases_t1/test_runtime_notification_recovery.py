"""Binds the suite of a dispatcher when things go wrong."""

from __future__ import annotations

from mastra_conformance.suites.runtime.notification_recovery import RecoverySuite

__all__ = ("TestRecovery",)


class TestRecovery(RecoverySuite):
    """The adapters of the command line."""
