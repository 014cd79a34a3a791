"""Binds the suite of several processes on one bus."""

from __future__ import annotations

from mastra_conformance.suites.pubsub.processes import PubSubProcessSuite

__all__ = ("TestPubSubProcesses",)


class TestPubSubProcesses(PubSubProcessSuite):
    """The adapters of the command line."""
