"""Binds the suite of resources."""

from __future__ import annotations

from mastra_conformance.suites.storage.memory_resources import ResourceSuite

__all__ = ("TestResources",)


class TestResources(ResourceSuite):
    """The adapters of the command line."""
