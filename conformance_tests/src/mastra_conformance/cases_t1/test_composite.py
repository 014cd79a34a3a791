"""Binds the suite of the composite store."""

from __future__ import annotations

from mastra_conformance.suites.storage.composite import CompositeSuite

__all__ = ("TestComposite",)


class TestComposite(CompositeSuite):
    """The adapters of the command line."""
