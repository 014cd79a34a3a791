"""Binds the suite of the inbox tool."""

from __future__ import annotations

from mastra_conformance.suites.runtime.notification_tool import InboxToolSuite

__all__ = ("TestInboxTool",)


class TestInboxTool(InboxToolSuite):
    """The adapters of the command line."""
