"""Binds the suite of several processes that want one lease."""

from __future__ import annotations

from mastra_conformance.suites.lease.processes import LeaseProcessSuite

__all__ = ("TestLeaseProcesses",)


class TestLeaseProcesses(LeaseProcessSuite):
    """The adapters of the command line."""
