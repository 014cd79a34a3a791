"""What mastra-processors offers. Imports none of it until it is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mastra_core.contracts.processor import Processor
from mastra_core.plugins import Placed, ProcessorSpec, hookimpl
from mastra_core.plugins.hookspecs import AgentInfo

__all__ = ("MASTRA_PLUGIN_API", "mastra_input_processors", "mastra_processors")

MASTRA_PLUGIN_API = (1, 0)

_INPUT: Final = ("process_input",)
_STEP: Final = ("process_input_step",)
_STREAM: Final = ("process_output_stream",)
_ERROR: Final = ("process_api_error",)
_ALL_TEXTS: Final = ("process_input", "process_output_stream", "process_output_result")

#: Id → where it is, which hooks it has, what it does.
_OFFERED: Final[Mapping[str, tuple[str, tuple[str, ...], str]]] = {
    "agents-md-injector": (
        "agents_md:AgentsMDInjector",
        _STEP,
        "Tells the model about instruction files where it works.",
    ),
    "background-work-signals": (
        "background_work_signals:BackgroundWorkSignals",
        _STEP,
        "Tells the model about calls that went into the background.",
    ),
    "batch-parts": ("batch_parts:BatchParts", _STREAM, "Fewer, longer pieces of text."),
    "browser-context": (
        "browser_context:BrowserContext",
        ("process_input", "compute_state_signal"),
        "Tells the model which page its browser shows.",
    ),
    "classifier": (
        "classifier:ClassifierProcessor",
        _ALL_TEXTS,
        "A classifier of yours, and what its answers mean.",
    ),
    "language-detector": (
        "language_detector:LanguageDetector",
        _INPUT,
        "Input in the languages that the agent speaks.",
    ),
    "mastra/response-cache": (
        "response_cache:ResponseCache",
        ("process_llm_request", "process_llm_response"),
        "Gives answers again without asking the model.",
    ),
    "memory-input-filter": (
        "memory_input_filter:MemoryInputFilter",
        _INPUT,
        "Takes of a request only what its thread doesn't have.",
    ),
    "model-selection": ("model_selection:ModelSelection", _STEP, "Which model a request is worth."),
    "moderation": ("moderation:Moderation", _ALL_TEXTS, "Has a model judge what hurts."),
    "pii-detector": (
        "pii_detector:PIIDetector",
        _ALL_TEXTS,
        "Has a model look for personal data.",
    ),
    "prefill-error-handler": (
        "prefill_error_handler:PrefillErrorHandler",
        _ERROR,
        "Goes on after a refusal of the assistant's turn at the end.",
    ),
    "prompt-injection-detector": (
        "prompt_injection_detector:PromptInjectionDetector",
        _INPUT,
        "Input that wants to be an instruction.",
    ),
    "provider-history-compat": (
        "provider_history_compat:ProviderHistoryCompat",
        ("process_llm_request", "process_api_error"),
        "Shows histories of one provider to another one.",
    ),
    "regex-filter": (
        "regex_filter:RegexFilter",
        _ALL_TEXTS,
        "Stops, masks or reports what patterns match.",
    ),
    "skill-search": (
        "skill_search:SkillSearch",
        _STEP,
        "Many skills, read when the model has looked for them.",
    ),
    "skills-processor": ("skills:Skills", _STEP, "Lists the skills of some folders."),
    "stream-error-retry-processor": (
        "stream_error_retry:StreamErrorRetry",
        _ERROR,
        "Asks the model again when its provider stumbled.",
    ),
    "system-prompt-scrubber": (
        "system_prompt_scrubber:SystemPromptScrubber",
        ("process_output_stream", "process_output_result"),
        "Keeps instructions of the agent out of its answers.",
    ),
    "token-cost-control": (
        "token_cost_control:TokenCostControl",
        ("process_input_step", "process_llm_response"),
        "No more money than a limit.",
    ),
    "token-limiter": (
        "token_limiter:TokenLimiter",
        (
            *("process_input", "process_input_step", "process_llm_request"),
            *("process_output_stream", "process_output_result"),
        ),
        "No more tokens than a limit, in prompts or answers.",
    ),
    "tool-call-filter": (
        "tool_call_filter:ToolCallFilter",
        ("process_llm_request",),
        "Leaves tool calls out of the prompt.",
    ),
    "tool-search": (
        "tool_search:ToolSearch",
        _STEP,
        "Many tools, seen when the model has looked for them.",
    ),
    "trailing-assistant-guard": (
        "trailing_assistant_guard:TrailingAssistantGuard",
        _STEP,
        "Ends prompts with a user turn for models that insist on one.",
    ),
    "unicode-normalizer": (
        "unicode_normalizer:UnicodeNormalizer",
        _INPUT,
        "One way to write each character of the input.",
    ),
    "working-memory": (
        "working_memory:WorkingMemory",
        ("process_input", "process_input_step", "process_output_result"),
        "Notes that the model reads in each run and may write anew.",
    ),
    "workspace-instructions-processor": (
        "workspace_instructions:WorkspaceInstructions",
        _STEP,
        "Tells where the agent works.",
    ),
}

_WITHOUT_OPTIONS: Final = frozenset({"background-work-signals", "prefill-error-handler"})


@hookimpl
def mastra_processors() -> Iterable[ProcessorSpec]:
    """Every processor of the package, by the name that agents and configurations use."""
    for name, (place, phases, summary) in _OFFERED.items():
        factory = f"mastra_processors.{place}"
        plain = name in _WITHOUT_OPTIONS
        yield ProcessorSpec(
            name=name,
            factory=factory,
            settings="mastra_processors.options:Options" if plain else f"{factory}Options",
            phases=frozenset(phases),
            summary=summary,
        )


@hookimpl
def mastra_input_processors(
    agent: AgentInfo, request_context: Mapping[str, Any], configured: Sequence[Processor]
) -> Iterable[Placed]:
    """
    What runs without being named, because it only does something where it is needed.

    ``browser-context`` for runs whose request context has a ``browser``, and
    ``trailing-assistant-guard`` for models that refuse a prompt without a user turn at its end.
    """
    models: Sequence[Any] = getattr(agent, "resolve_models", lambda _: ())(None)
    if isinstance(request_context.get("browser"), Mapping) and getattr(agent, "memory", None):
        from mastra_processors.browser_context import BrowserContext

        yield Placed(processor=BrowserContext(), slot="browser")
    if models and _may_refuse(models):
        from mastra_processors.trailing_assistant_guard import TrailingAssistantGuard

        yield Placed(processor=TrailingAssistantGuard(), slot="guard")


def _may_refuse(models: Sequence[Any]) -> bool:
    from mastra_processors.trailing_assistant_guard import wants_user_turn

    return any(wants_user_turn(model, is_structured=True) for model in models)
