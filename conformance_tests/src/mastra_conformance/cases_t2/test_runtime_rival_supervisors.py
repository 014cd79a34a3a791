"""Several answers to a supervisor's run at once, on the adapters of the command line."""

from __future__ import annotations

from mastra_conformance.suites.runtime.sub_agents import RivalSupervisorsSuite

__all__ = ("TestRivalSupervisors",)


class TestRivalSupervisors(RivalSupervisorsSuite):
    """Rival answers."""
