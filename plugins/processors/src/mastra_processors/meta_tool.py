"""Tools that processors themselves give to the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mastra_core import FunctionTool, ToolContext

__all__ = ("meta_tool",)


def meta_tool(
    id: str,
    description: str,
    texts: Mapping[str, str],
    execute: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]],
) -> FunctionTool:
    """
    A tool that takes a few texts and may be repeated.

    Args:
        id: What the model calls it.
        description: What it does.
        texts: Name of each argument → what it is.
        execute: Gets the arguments.
    """

    async def run(given: Mapping[str, Any], _: ToolContext) -> dict[str, Any]:
        return await execute(given)

    return FunctionTool(
        id=id,
        description=description,
        input_schema={
            "type": "object",
            "properties": {
                name: {"type": "string", "description": words} for name, words in texts.items()
            },
            "required": list(texts),
        },
        execute=run,
        idempotent=True,
    )
