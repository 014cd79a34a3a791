"""Binds the suites of the bus and the leases beside Node."""

from __future__ import annotations

from mastra_conformance.suites.interop.bus import BusInteropSuite, LeaseInteropSuite

__all__ = ("TestNodeBus", "TestNodeLeases")


class TestNodeBus(BusInteropSuite):
    """The adapters of the command line."""


class TestNodeLeases(LeaseInteropSuite):
    """The adapters of the command line."""
