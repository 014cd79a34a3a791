"""Binds the suite of transfers."""

from __future__ import annotations

from mastra_conformance.suites.lease.transfer import TransferSuite

__all__ = ("TestTransfer",)


class TestTransfer(TransferSuite):
    """The adapters of the command line."""
