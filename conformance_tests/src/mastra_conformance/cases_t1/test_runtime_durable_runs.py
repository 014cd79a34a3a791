"""Recorded runs of durable agents, on the adapters of the command line."""

from __future__ import annotations

from mastra_conformance.suites.runtime.durable_runs import DurableRunSuite

__all__ = ("TestDurableRun",)


class TestDurableRun(DurableRunSuite):
    """Answering."""
