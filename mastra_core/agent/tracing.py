"""The span of a run: what it says when it begins and when it ends (signals.md 16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mastra_core.base.telemetry import Span, TraceLink, Tracer
from mastra_core.streaming.output import ModelOutput
from mastra_core.wire.signals import Signal
from mastra_core.workflows.agent_snapshot import ParkedRun

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent

__all__ = ("end_run_span", "start_run_span")

#: Numbers of a run's usage that its span shows.
_COUNTS: Final = ("inputTokens", "outputTokens", "totalTokens", "reasoningTokens")


def start_run_span(
    tracer: Tracer,
    agent: Agent,
    output: ModelOutput,
    *,
    opening: Sequence[Signal],
    resumed: ParkedRun | None,
) -> Span:
    """
    The span of one segment of a run.

    A resumed segment goes on in the trace of the one that was suspended, in whatever process
    that was (snapshots.md 3.1, ``tracingContext``).
    """
    messages = output.message_list
    facts: dict[str, Any] = {
        "agentId": agent.id,
        "agentName": agent.name,
        "runId": output.run_id,
        "threadId": messages.thread_id,
        "resourceId": messages.resource_id,
    }
    if opening:
        facts["signal"] = _signal_facts(opening[0])
    suffix = "" if resumed is None else " (resumed)"
    span = tracer.start(
        f"agent run: '{agent.id}'{suffix}",
        {name: value for name, value in facts.items() if value is not None},
        kind="agent_run",
        parent=None if resumed is None else _link_of(resumed.tracing_context),
    )
    output.trace = span.link
    return span


def _signal_facts(signal: Signal) -> dict[str, Any]:
    facts = {"id": signal.id, "type": signal.type, "tagName": signal.tag_name}
    return facts if signal.attributes is None else {**facts, "attributes": signal.attributes}


def _link_of(context: Mapping[str, Any]) -> TraceLink | None:
    trace_id, span_id = context.get("traceId"), context.get("spanId")
    if not isinstance(trace_id, str) or not isinstance(span_id, str):
        return None
    return TraceLink(trace_id=trace_id, span_id=span_id)


def end_run_span(span: Span, output: ModelOutput) -> None:
    """How the run ended; a run never raises, so its error is told here."""
    if not span.is_recording:
        return
    record = output.record
    span.set_attribute("status", output.status)
    if record.finish_reason is not None:
        span.set_attribute("finishReason", record.finish_reason)
    span.set_attribute("steps", len(record.steps))
    if record.interruptions:
        span.set_attribute("interruptions", record.interruptions)
    if record.rejected_signals:
        span.set_attribute("rejectedSignals", record.rejected_signals)
    for name in _COUNTS:
        if record.usage.get(name) is not None:
            span.set_attribute(f"usage.{name}", record.usage[name])
    span.set_attribute("output", record.all_text)
    if output.failure is not None:
        span.record_error(output.failure)
