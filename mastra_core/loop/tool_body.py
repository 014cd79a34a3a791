"""Run the body of a tool, and whoever looks at it (streaming.md 6.1, 6.3, 6.5)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from mastra_core.base.tasks import call_maybe_async
from mastra_core.contracts.tool import Tool, ToolContext
from mastra_core.contracts.tool_hooks import (
    ToolCallEnd,
    ToolCallStart,
    ToolHooks,
    ToolInput,
    ToolSkip,
)
from mastra_core.errors import ToolError, ToolInputError, shown
from mastra_core.loop.model_step import StepCall
from mastra_core.wire.chunks import Chunk

__all__ = ("InputObservers", "invalid_input", "run_body")

logger = logging.getLogger(__name__)


async def run_body(
    tool: Tool,
    call: StepCall,
    args: Any,
    context: ToolContext,
    hooks: ToolHooks,
    *,
    has_parked: Callable[[], int],
) -> Any:
    """
    The result of a tool, or what a hook put in its place.

    Raises:
        ToolInputError: The result doesn't fit the tool's schema.
        Exception: What body and start hook raise.
    """
    named: dict[str, Any] = {
        "tool_name": call.tool_name,
        "tool_call_id": call.tool_call_id,
        "input": args,
    }
    if hooks.before is not None:
        verdict = await call_maybe_async(hooks.before, ToolCallStart(**named, context=context))
        if isinstance(verdict, ToolSkip):
            return verdict.output
        if verdict is not None:
            raise ToolError(f"A start hook returns a ToolSkip or None, not {shown(verdict)}.")
    assert tool.execute is not None
    try:
        value = await tool.execute(args, context)
        # Who suspends has no result yet.
        parse = getattr(tool, "parse_output", None)
        if parse is not None and not (has_parked() and value is None):
            value = parse(value)
    except Exception as exc:
        await _tell(hooks.after, ToolCallEnd(**named, error=exc))
        raise
    if not has_parked():
        await _tell(hooks.after, ToolCallEnd(**named, output=value))
        await _tell(getattr(tool, "on_output", None), value)
    return value


def invalid_input(error: ToolInputError) -> dict[str, Any]:
    """What the model reads when its arguments don't fit (streaming.md 6.3)."""
    fields = error.details.get("fields")
    return {
        "error": True,
        "message": error.message,
        "validationErrors": {
            "errors": list(fields.values()) if isinstance(fields, Mapping) else [error.message],
            "fields": fields if isinstance(fields, Mapping) else {},
        },
    }


class InputObservers:
    """Tools that want to know of their arguments while these arrive."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        names = ("on_input_start", "on_input_delta", "on_input_available")
        self._tools = {
            name: tool
            for name, tool in tools.items()
            if any(getattr(tool, hook, None) is not None for hook in names)
        }
        self._names: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._tools)

    async def see(self, chunk: Chunk) -> None:
        """Tell the tool of a chunk about one of its calls."""
        payload = chunk.get("payload") or {}
        call_id = str(payload.get("toolCallId"))
        match chunk["type"]:
            case "tool-call-input-streaming-start":
                self._names[call_id] = payload["toolName"]
                await self._tell(call_id, "on_input_start")
            case "tool-call-delta":
                await self._tell(call_id, "on_input_delta", delta=payload["argsTextDelta"])
            case "tool-call":
                self._names[call_id] = payload["toolName"]
                await self._tell(call_id, "on_input_available", input=payload["args"])
            case _:
                pass

    async def _tell(self, call_id: str, hook: str, **members: Any) -> None:
        name = self._names.get(call_id, "")
        tool = self._tools.get(name)
        observer = None if tool is None else getattr(tool, hook, None)
        if observer is not None:
            await _tell(observer, ToolInput(tool_name=name, tool_call_id=call_id, **members))


async def _tell(observer: Callable[[Any], Any] | None, event: Any) -> None:
    """Observers change nothing; what they raise is logged."""
    if observer is None:
        return
    try:
        await call_maybe_async(observer, event)
    except Exception:
        logger.exception("observer of a tool failed")
