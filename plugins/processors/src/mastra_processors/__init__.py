"""Processors that look at, change, limit, cache and remind; named by an agent, or imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_processors.agents_md import AgentsMDInjector
    from mastra_processors.batch_parts import BatchParts
    from mastra_processors.memory_input_filter import MemoryInputFilter
    from mastra_processors.prefill_error_handler import PrefillErrorHandler
    from mastra_processors.regex_filter import RegexFilter
    from mastra_processors.response_cache import ResponseCache
    from mastra_processors.stream_error_retry import StreamErrorRetry
    from mastra_processors.token_limiter import TokenLimiter
    from mastra_processors.tool_call_filter import ToolCallFilter
    from mastra_processors.trailing_assistant_guard import TrailingAssistantGuard
    from mastra_processors.unicode_normalizer import UnicodeNormalizer

__all__ = (
    "AgentsMDInjector",
    "BatchParts",
    "MemoryInputFilter",
    "PrefillErrorHandler",
    "RegexFilter",
    "ResponseCache",
    "StreamErrorRetry",
    "TokenLimiter",
    "ToolCallFilter",
    "TrailingAssistantGuard",
    "UnicodeNormalizer",
    "__version__",
)

__version__ = "0.1.0"

_HOMES = {
    "AgentsMDInjector": "agents_md",
    "BatchParts": "batch_parts",
    "MemoryInputFilter": "memory_input_filter",
    "PrefillErrorHandler": "prefill_error_handler",
    "RegexFilter": "regex_filter",
    "ResponseCache": "response_cache",
    "StreamErrorRetry": "stream_error_retry",
    "TokenLimiter": "token_limiter",
    "ToolCallFilter": "tool_call_filter",
    "TrailingAssistantGuard": "trailing_assistant_guard",
    "UnicodeNormalizer": "unicode_normalizer",
}


def __getattr__(name: str) -> Any:
    # Lazily, so that a plugin scan imports none of them.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"mastra_processors.{_HOMES[name]}"), name)
