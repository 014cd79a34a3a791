"""Binds the suite of leases whose server or network breaks."""

from __future__ import annotations

from mastra_conformance.suites.faults.lease_outages import LeaseOutageSuite

__all__ = ("TestLeaseOutages",)


class TestLeaseOutages(LeaseOutageSuite):
    """The adapters of the command line."""
