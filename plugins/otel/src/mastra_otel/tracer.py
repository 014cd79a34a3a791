"""The tracer of the core, in terms of OpenTelemetry.

A span that is active here is OpenTelemetry's current span: what other instrumentation opens
inside a request or a tool lies below it, and a run lies below the span of whoever started it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from mastra_core.base.telemetry import (
    NOOP_SPAN,
    Attribute,
    Span,
    SpanKind,
    TraceLink,
    started_span,
)
from mastra_otel.attributes import OtelValue, SpanFacts
from mastra_otel.metrics import SpanMetrics

__all__ = ("OtelTracer",)

_SCOPE: Final = "mastra_core"


class _OtelSpan:
    """One span of the core."""

    __slots__ = ("_began", "_facts", "_is_over", "_kind", "_metrics", "_said", "_span")

    def __init__(
        self,
        span: trace.Span,
        kind: SpanKind,
        facts: SpanFacts,
        metrics: SpanMetrics | None,
        said: dict[str, OtelValue],
    ) -> None:
        self._span = span
        self._kind: SpanKind = kind
        self._facts = facts
        self._metrics = metrics
        self._said = said
        self._began = time.monotonic()
        self._is_over = False

    @property
    def link(self) -> TraceLink | None:
        context = self._span.get_span_context()
        if not context.is_valid:
            return None
        return TraceLink(
            trace_id=trace.format_trace_id(context.trace_id),
            span_id=trace.format_span_id(context.span_id),
        )

    @property
    def is_recording(self) -> bool:
        return self._metrics is not None or self._span.is_recording()

    def set_attribute(self, name: str, value: Attribute) -> None:
        made = self._facts.one(self._kind, name, value)
        self._said.update(made)
        self._span.set_attributes(made)

    def add_event(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> None:
        made: dict[str, OtelValue] = {}
        for key, value in (attributes or {}).items():
            made.update(self._facts.one(self._kind, key, value))
        self._span.add_event(name, made)

    def record_error(self, error: BaseException) -> None:
        self._said["error.type"] = type(error).__name__
        self._span.set_attribute("error.type", type(error).__name__)
        self._span.record_exception(error)
        self._span.set_status(Status(StatusCode.ERROR, str(error) or type(error).__name__))

    @contextmanager
    def active(self) -> Iterator[None]:
        # Errors are told by whoever knows whether they are one.
        with trace.use_span(self._span, record_exception=False, set_status_on_exception=False):
            yield

    def end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._metrics is not None:
            self._metrics.ended(self._kind, time.monotonic() - self._began, self._said)
        self._span.end()


class OtelTracer:
    """
    Opens spans of the core as spans of OpenTelemetry.

    Args:
        provider: A tracer provider; None asks for the process's own at each span, so that it
            may be set later. While nobody has set one, nothing is measured.
        facts: Names the attributes.
        metrics: Measures spans that end; None for none.
    """

    def __init__(
        self, provider: Any = None, *, facts: SpanFacts, metrics: SpanMetrics | None = None
    ) -> None:
        self._given = provider
        self._facts = facts
        self._metrics = metrics
        self._known: tuple[object, trace.Tracer] | None = None

    def start(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> Span:
        """A span that goes on until its ``end``."""
        tracer = self._tracer()
        if tracer is None:
            return NOOP_SPAN
        said = self._facts.of(kind, attributes)
        span = tracer.start_span(
            name,
            context=None if parent is None else _context_of(parent),
            kind=(trace.SpanKind.CLIENT if kind == "model_generation" else trace.SpanKind.INTERNAL),
            attributes=said,
        )
        return _OtelSpan(span, kind, self._facts, self._metrics, said)

    def span(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> AbstractContextManager[Span]:
        """Measure the block."""
        span = self.start(name, attributes, kind=kind, parent=parent)
        return NOOP_SPAN if span is NOOP_SPAN else started_span(span)

    def _tracer(self) -> trace.Tracer | None:
        provider = self._given or trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            return None
        if self._known is None or self._known[0] is not provider:
            self._known = (provider, provider.get_tracer(_SCOPE))
        return self._known[1]


def _context_of(link: TraceLink) -> Context | None:
    """Where a span of another process was; None if its ids are none of OpenTelemetry's."""
    try:
        context = SpanContext(
            trace_id=int(link.trace_id, 16),
            span_id=int(link.span_id, 16),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
    except ValueError:
        return None
    return trace.set_span_in_context(NonRecordingSpan(context)) if context.is_valid else None
