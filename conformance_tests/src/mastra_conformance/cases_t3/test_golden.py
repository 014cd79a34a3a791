"""Binds the suite of recorded scenes."""

from __future__ import annotations

from mastra_conformance.wire.golden_suite import GoldenSceneSuite

__all__ = ("TestGoldenScenes",)


class TestGoldenScenes(GoldenSceneSuite):
    """The adapters of the command line."""
