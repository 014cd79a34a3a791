"""What the model is told about the tools it may call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mastra_core.contracts.model import ToolSchema
from mastra_core.contracts.tool import Tool

__all__ = ("offered_tools",)


def offered_tools(
    tools: Mapping[str, Tool], active_tools: Sequence[str] | None
) -> tuple[ToolSchema, ...]:
    """Schemas of the active tools; the registry key is the name that the model sees."""
    return tuple(
        ToolSchema(name=name, description=tool.description, input_schema=tool.input_json_schema())
        for name, tool in tools.items()
        if active_tools is None or name in active_tools
    )
