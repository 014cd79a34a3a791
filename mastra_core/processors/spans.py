"""The span of one call of a processor's hook, which the processor may name itself
(processors.md 1.1)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Final, cast, get_args

from mastra_core.base.telemetry import Span, SpanKind, Tracer
from mastra_core.contracts.processor import Processor

__all__ = ("processor_span",)

logger = logging.getLogger(__name__)

#: Hooks in the words of span names.
_PHASES: Final = MappingProxyType(
    {
        "process_input": "input",
        "process_input_step": "input step",
        "compute_state_signal": "state signal",
        "process_llm_request": "llm request",
        "process_llm_response": "llm response",
        "process_output_step": "output step",
        "process_tool_result": "tool result",
        "process_output_result": "output",
        "process_api_error": "api error",
    }
)


def processor_span(
    tracer: Tracer, processor: Processor, phase: str, *, run_id: str
) -> AbstractContextManager[Span]:
    """
    Measure one call of a hook.

    ``span_name`` and ``span_attributes`` of a processor are values, or functions of the hook's
    name; ``span_type`` is one of the kinds of spans.
    """
    name = _said(processor, "span_name", phase)
    facts = {"processorId": processor.id, "phase": phase, "runId": run_id}
    own = _said(processor, "span_attributes", phase)
    if isinstance(own, Mapping):
        facts.update({str(key): value for key, value in own.items()})
    kind = getattr(processor, "span_type", None)
    return tracer.span(
        name if isinstance(name, str) else f"{_PHASES.get(phase, phase)} processor: {processor.id}",
        facts,
        kind=cast(SpanKind, kind) if kind in get_args(SpanKind) else "processor_run",
    )


def _said(processor: Processor, member: str, phase: str) -> Any:
    value = getattr(processor, member, None)
    if not callable(value):
        return value
    try:
        return value(phase)
    except Exception:
        logger.exception("span member failed", extra={"processor": processor.id, "member": member})
        return None
