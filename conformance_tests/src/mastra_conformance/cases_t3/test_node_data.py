"""Binds the suite of what a TypeScript process wrote."""

from __future__ import annotations

from mastra_conformance.wire.node_suite import NodeDataSuite

__all__ = ("TestNodeData",)


class TestNodeData(NodeDataSuite):
    """The adapters of the command line."""
