"""Hooks around tool calls, and what of their payloads others may see (streaming.md 6.5, 6.7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mastra_core.contracts.tool import ToolContext

__all__ = (
    "PayloadPhase",
    "PayloadTarget",
    "PayloadTransform",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolHooks",
    "ToolInput",
    "ToolPayload",
    "ToolSkip",
)

PayloadTarget = Literal["display", "transcript"]
PayloadPhase = Literal["input", "input_delta", "output", "error", "approval", "suspend", "resume"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStart:
    """A tool is about to run, with arguments that fit."""

    tool_name: str
    tool_call_id: str
    input: Any
    context: ToolContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSkip:
    """Returned by a start hook: the tool doesn't run, and this is its result."""

    output: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEnd:
    """A tool has run."""

    tool_name: str
    tool_call_id: str
    input: Any
    output: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolHooks:
    """
    Observers of the tool calls of a run.

    Args:
        before: Called with each call whose arguments fit; may return a ``ToolSkip``. What it
            raises fails the call, so that a policy can't be got round by breaking it.
        after: Called with what came of it; what it raises is logged.
    """

    before: Callable[[ToolCallStart], ToolSkip | Awaitable[ToolSkip | None] | None] | None = None
    after: Callable[[ToolCallEnd], Awaitable[None] | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInput:
    """Arguments of a call as they arrive: a piece of their text, or all of them."""

    tool_name: str
    tool_call_id: str
    delta: str | None = None
    input: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPayload:
    """A payload of a call on its way to clients (display) or into storage (transcript)."""

    target: PayloadTarget
    phase: PayloadPhase
    tool_name: str
    tool_call_id: str
    value: Any
    request_context: Mapping[str, Any] = field(default_factory=dict)


#: Returns what stands in the payload's place; its ``value`` leaves it as it is.
PayloadTransform: TypeAlias = Callable[[ToolPayload], Any]
