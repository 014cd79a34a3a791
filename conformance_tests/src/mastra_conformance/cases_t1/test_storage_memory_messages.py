"""Binds the suite of messages."""

from __future__ import annotations

from mastra_conformance.suites.storage.memory_messages import MessageSuite

__all__ = ("TestMessages",)


class TestMessages(MessageSuite):
    """The adapters of the command line."""
