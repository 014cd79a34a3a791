"""Binds the suite of web pages."""

from __future__ import annotations

from mastra_conformance.suites.interop.pages import PageSuite

__all__ = ("TestPages",)


class TestPages(PageSuite):
    """The adapters of the command line."""
