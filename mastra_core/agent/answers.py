"""What parked calls may be answered with (snapshots.md 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastra_core.base.json_schema import schema_problems
from mastra_core.base.jsonjs import decode
from mastra_core.contracts.tool import Tool
from mastra_core.errors import ResumeKindMismatchError, SchemaError, ToolInputError
from mastra_core.loop.delegating import delegated_call

__all__ = ("check_answer", "check_told_schema")


def check_answer(tool: Tool, payload: Any, data: Any) -> None:
    """
    Refuse an answer that a suspended call won't take, before anything is changed.

    Args:
        tool: The call's.
        payload: What the call suspended with, as it is stored.
        data: The answer.

    Raises:
        SchemaError: It doesn't fit.
        ResumeKindMismatchError: A sub-agent waits for a decision, and this is none.
    """
    inner = delegated_call(payload) if isinstance(payload, Mapping) else None
    if inner is None or not getattr(tool, "delegates", False):
        try:
            tool.parse_resume(data)
        except ToolInputError as exc:
            raise SchemaError(
                exc.message, id="WORKFLOW_SCHEMA_VALIDATION_FAILED", details=exc.details
            ) from exc
        return
    if inner.needs_approval:
        if not isinstance(data, Mapping) or not isinstance(data.get("approved"), bool):
            raise ResumeKindMismatchError(
                run_id=inner.run_id, tool_call_id=inner.tool_call_id or "", waits_for="approval"
            )
        return
    check_told_schema(decode(inner.resume_schema), inner.tool_name, data)


def check_told_schema(schema: Mapping[str, Any], tool_name: str, data: Any) -> None:
    """
    Refuse data that don't fit what the person was told who gave them.

    Raises:
        SchemaError: They don't fit.
    """
    problems = schema_problems(data, schema)
    if problems:
        text = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        raise SchemaError(
            f"Tool {tool_name!r} got resume data that don't fit: {text}.",
            id="WORKFLOW_SCHEMA_VALIDATION_FAILED",
            details={"tool": tool_name, "fields": problems},
        )
