"""Binds the suite of races for leases."""

from __future__ import annotations

from mastra_conformance.suites.lease.concurrency import LeaseConcurrencySuite

__all__ = ("TestLeaseConcurrency",)


class TestLeaseConcurrency(LeaseConcurrencySuite):
    """The adapters of the command line."""
