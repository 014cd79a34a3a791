"""What the model is told about the tools it may call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mastra_core.contracts.background import BACKGROUND_MEMBER, OVERRIDE_SCHEMA, RunBackground
from mastra_core.contracts.model import ToolSchema
from mastra_core.contracts.tool import Tool
from mastra_core.loop.setup import SuspendedCalls

__all__ = ("offered_tools",)


def offered_tools(
    tools: Mapping[str, Tool],
    active_tools: Sequence[str] | None,
    background: RunBackground | None = None,
    suspended: SuspendedCalls | None = None,
) -> tuple[ToolSchema, ...]:
    """
    Schemas of the active tools; the registry key is the name that the model sees.

    The calls of those that may run in the background take one argument more (streaming.md 6.4).
    """
    return tuple(
        ToolSchema(
            name=name,
            description=tool.description,
            input_schema=_with_members(
                tool.input_json_schema(),
                {
                    **(
                        {BACKGROUND_MEMBER: OVERRIDE_SCHEMA}
                        if background is not None and background.is_eligible(name)
                        else {}
                    ),
                    **(suspended.schema_of(name) if suspended is not None else {}),
                },
            ),
            strict=getattr(tool, "strict", None),
            provider_options=getattr(tool, "provider_options", None),
            input_examples=getattr(tool, "input_examples", ()),
        )
        for name, tool in tools.items()
        if active_tools is None or name in active_tools
    )


def _with_members(schema: dict[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with further members, which the tool itself never sees."""
    if not members:
        return schema
    properties = {**members, **(schema.get("properties") or {})}
    return {"type": "object", **schema, "properties": properties}
