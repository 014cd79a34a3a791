"""Supervisors and their sub-agents, on the adapters of the command line."""

from __future__ import annotations

from mastra_conformance.suites.runtime.sub_agents import SubAgentSuite

__all__ = ("TestSubAgents",)


class TestSubAgents(SubAgentSuite):
    """Answering."""
