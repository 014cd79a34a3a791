"""Binds the suite of buses whose server or network breaks."""

from __future__ import annotations

from mastra_conformance.suites.faults.pubsub_outages import PubSubOutageSuite

__all__ = ("TestPubSubOutages",)


class TestPubSubOutages(PubSubOutageSuite):
    """The adapters of the command line."""
