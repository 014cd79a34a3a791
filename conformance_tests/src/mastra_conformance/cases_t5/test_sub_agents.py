"""Supervisors and their sub-agents across languages, on the adapters of the command line."""

from __future__ import annotations

from mastra_conformance.suites.interop.sub_agents import SubAgentInteropSuite

__all__ = ("TestSubAgentInterop",)


class TestSubAgentInterop(SubAgentInteropSuite):
    """Answering."""
