"""Binds the suite of groups."""

from __future__ import annotations

from mastra_conformance.suites.pubsub.groups import GroupSuite

__all__ = ("TestGroups",)


class TestGroups(GroupSuite):
    """The adapters of the command line."""
