"""Runs of durable agents across languages, on the adapters of the command line."""

from __future__ import annotations

from mastra_conformance.suites.interop.durable_agents import DurableAgentInteropSuite

__all__ = ("TestDurableAgentInterop",)


class TestDurableAgentInterop(DurableAgentInteropSuite):
    """Answering."""
