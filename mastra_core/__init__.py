"""Agent runtime whose infrastructure is all plugins.

The names below are loaded when they are first used, so that importing the package costs
little and needs no driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent
    from mastra_core.agent.memory import MemoryOptions
    from mastra_core.agent.task_signals import TaskSignals
    from mastra_core.agent.tools import FunctionTool, tool
    from mastra_core.contracts.tool import ToolContext
    from mastra_core.mastra import Mastra
    from mastra_core.messages.ui import ui_messages
    from mastra_core.streaming.output import ModelOutput
    from mastra_core.streaming.ui_stream import UI_STREAM_HEADERS, ui_frames, ui_stream
    from mastra_core.threads.providers import SignalProvider, WebhookRequest, WebhookResponse
    from mastra_core.threads.webhooks import WebhookSignals

__all__ = (
    "UI_STREAM_HEADERS",
    "Agent",
    "FunctionTool",
    "Mastra",
    "MemoryOptions",
    "ModelOutput",
    "SignalProvider",
    "TaskSignals",
    "ToolContext",
    "WebhookRequest",
    "WebhookResponse",
    "WebhookSignals",
    "__version__",
    "tool",
    "ui_frames",
    "ui_messages",
    "ui_stream",
)

__version__ = "0.1.0"

_HOMES = {
    "UI_STREAM_HEADERS": "mastra_core.streaming.ui_stream",
    "Agent": "mastra_core.agent.agent",
    "FunctionTool": "mastra_core.agent.tools",
    "Mastra": "mastra_core.mastra",
    "MemoryOptions": "mastra_core.agent.memory",
    "ModelOutput": "mastra_core.streaming.output",
    "SignalProvider": "mastra_core.threads.providers",
    "TaskSignals": "mastra_core.agent.task_signals",
    "ToolContext": "mastra_core.contracts.tool",
    "WebhookRequest": "mastra_core.threads.providers",
    "WebhookResponse": "mastra_core.threads.providers",
    "WebhookSignals": "mastra_core.threads.webhooks",
    "tool": "mastra_core.agent.tools",
    "ui_frames": "mastra_core.streaming.ui_stream",
    "ui_messages": "mastra_core.messages.ui",
    "ui_stream": "mastra_core.streaming.ui_stream",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
