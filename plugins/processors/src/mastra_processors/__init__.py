"""Processors that look at, change, limit, cache and remind; named by an agent, or imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_processors.agents_md import AgentsMDInjector
    from mastra_processors.background_work_signals import BackgroundWorkSignals
    from mastra_processors.batch_parts import BatchParts
    from mastra_processors.browser_context import BrowserContext
    from mastra_processors.browser_state import DevToolsBrowser
    from mastra_processors.classifier import ClassifierProcessor
    from mastra_processors.language_detector import LanguageDetector
    from mastra_processors.memory_input_filter import MemoryInputFilter
    from mastra_processors.model_selection import ModelSelection
    from mastra_processors.moderation import Moderation
    from mastra_processors.pii_detector import PIIDetector
    from mastra_processors.prefill_error_handler import PrefillErrorHandler
    from mastra_processors.prompt_injection_detector import PromptInjectionDetector
    from mastra_processors.provider_history_compat import ProviderHistoryCompat
    from mastra_processors.regex_filter import RegexFilter
    from mastra_processors.response_cache import ResponseCache
    from mastra_processors.skill_search import SkillSearch
    from mastra_processors.skills import Skills
    from mastra_processors.stream_error_retry import StreamErrorRetry
    from mastra_processors.system_prompt_scrubber import SystemPromptScrubber
    from mastra_processors.token_cost_control import TokenCostControl
    from mastra_processors.token_limiter import TokenLimiter
    from mastra_processors.tool_call_filter import ToolCallFilter
    from mastra_processors.tool_search import ToolSearch
    from mastra_processors.trailing_assistant_guard import TrailingAssistantGuard
    from mastra_processors.unicode_normalizer import UnicodeNormalizer
    from mastra_processors.working_memory import WorkingMemory
    from mastra_processors.workspace_instructions import WorkspaceInstructions

__all__ = (
    "AgentsMDInjector",
    "BackgroundWorkSignals",
    "BatchParts",
    "BrowserContext",
    "ClassifierProcessor",
    "DevToolsBrowser",
    "LanguageDetector",
    "MemoryInputFilter",
    "ModelSelection",
    "Moderation",
    "PIIDetector",
    "PrefillErrorHandler",
    "PromptInjectionDetector",
    "ProviderHistoryCompat",
    "RegexFilter",
    "ResponseCache",
    "SkillSearch",
    "Skills",
    "StreamErrorRetry",
    "SystemPromptScrubber",
    "TokenCostControl",
    "TokenLimiter",
    "ToolCallFilter",
    "ToolSearch",
    "TrailingAssistantGuard",
    "UnicodeNormalizer",
    "WorkingMemory",
    "WorkspaceInstructions",
    "__version__",
)

__version__ = "0.1.0"

_HOMES = {
    "AgentsMDInjector": "agents_md",
    "BackgroundWorkSignals": "background_work_signals",
    "BatchParts": "batch_parts",
    "BrowserContext": "browser_context",
    "ClassifierProcessor": "classifier",
    "DevToolsBrowser": "browser_state",
    "LanguageDetector": "language_detector",
    "MemoryInputFilter": "memory_input_filter",
    "ModelSelection": "model_selection",
    "Moderation": "moderation",
    "PIIDetector": "pii_detector",
    "PrefillErrorHandler": "prefill_error_handler",
    "PromptInjectionDetector": "prompt_injection_detector",
    "ProviderHistoryCompat": "provider_history_compat",
    "RegexFilter": "regex_filter",
    "ResponseCache": "response_cache",
    "SkillSearch": "skill_search",
    "Skills": "skills",
    "StreamErrorRetry": "stream_error_retry",
    "SystemPromptScrubber": "system_prompt_scrubber",
    "TokenCostControl": "token_cost_control",
    "TokenLimiter": "token_limiter",
    "ToolCallFilter": "tool_call_filter",
    "ToolSearch": "tool_search",
    "TrailingAssistantGuard": "trailing_assistant_guard",
    "UnicodeNormalizer": "unicode_normalizer",
    "WorkingMemory": "working_memory",
    "WorkspaceInstructions": "workspace_instructions",
}


def __getattr__(name: str) -> Any:
    # Lazily, so that a plugin scan imports none of them.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"mastra_processors.{_HOMES[name]}"), name)
