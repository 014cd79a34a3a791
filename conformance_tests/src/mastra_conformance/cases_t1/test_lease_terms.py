"""Binds the suite of terms of leases."""

from __future__ import annotations

from mastra_conformance.suites.lease.terms import TermSuite

__all__ = ("TestTerms",)


class TestTerms(TermSuite):
    """The adapters of the command line."""
