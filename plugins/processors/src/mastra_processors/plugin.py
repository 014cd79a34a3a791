"""What mastra-processors offers. Imports none of it."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import ProcessorSpec, hookimpl

__all__ = ("MASTRA_PLUGIN_API", "mastra_processors")

MASTRA_PLUGIN_API = (1, 0)


def _spec(name: str, home: str, *phases: str, summary: str, options: bool = True) -> ProcessorSpec:
    module, _, processor = home.partition(":")
    where = f"mastra_processors.{module}"
    return ProcessorSpec(
        name=name,
        factory=f"{where}:{processor}",
        settings=f"{where}:{processor}Options" if options else "mastra_processors.options:Options",
        phases=frozenset(phases),
        summary=summary,
    )


@hookimpl
def mastra_processors() -> Iterable[ProcessorSpec]:
    """Every processor of the package, by the name that agents and configurations use."""
    yield _spec(
        "unicode-normalizer",
        "unicode_normalizer:UnicodeNormalizer",
        "process_input",
        summary="One way to write each character of the input.",
    )
    yield _spec(
        "token-limiter",
        "token_limiter:TokenLimiter",
        "process_input",
        "process_input_step",
        "process_llm_request",
        "process_output_stream",
        "process_output_result",
        summary="No more tokens than a limit, in prompts or answers.",
    )
    yield _spec(
        "tool-call-filter",
        "tool_call_filter:ToolCallFilter",
        "process_llm_request",
        summary="Leaves tool calls out of the prompt.",
    )
    yield _spec(
        "batch-parts",
        "batch_parts:BatchParts",
        "process_output_stream",
        summary="Fewer, longer pieces of text on the stream.",
    )
    yield _spec(
        "regex-filter",
        "regex_filter:RegexFilter",
        "process_input",
        "process_output_stream",
        "process_output_result",
        summary="Stops, masks or reports what patterns match.",
    )
    yield _spec(
        "mastra/response-cache",
        "response_cache:ResponseCache",
        "process_llm_request",
        "process_llm_response",
        summary="Gives answers again without asking the model.",
    )
    yield _spec(
        "memory-input-filter",
        "memory_input_filter:MemoryInputFilter",
        "process_input",
        summary="Takes of a request only what its thread doesn't have.",
    )
    yield _spec(
        "prefill-error-handler",
        "prefill_error_handler:PrefillErrorHandler",
        "process_api_error",
        summary="Goes on after a refusal of the assistant's turn at the end.",
        options=False,
    )
    yield _spec(
        "stream-error-retry-processor",
        "stream_error_retry:StreamErrorRetry",
        "process_api_error",
        summary="Asks the model again when its provider stumbled.",
    )
    yield _spec(
        "trailing-assistant-guard",
        "trailing_assistant_guard:TrailingAssistantGuard",
        "process_input_step",
        summary="Ends prompts with a user turn for models that insist on one.",
    )
    yield _spec(
        "agents-md-injector",
        "agents_md:AgentsMDInjector",
        "process_input_step",
        summary="Tells the model about instruction files where it works.",
    )
