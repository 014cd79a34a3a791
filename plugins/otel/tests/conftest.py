"""Providers that keep what is measured, and applications that use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mastra_core import Agent, Mastra
from mastra_core.testing.scripted_model import ScriptedModel


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Everything here runs on asyncio."""
    return "asyncio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """OpenTelemetry's own in-memory ends."""

    spans: InMemorySpanExporter
    metrics: InMemoryMetricReader
    tracer_provider: TracerProvider
    meter_provider: MeterProvider

    def options(self, **further: Any) -> dict[str, dict[str, Any]]:
        """What an application is given to measure here."""
        providers = {
            "tracer_provider": self.tracer_provider,
            "meter_provider": self.meter_provider,
        }
        return {"otel": {**providers, **further}}

    def named(self, name: str) -> ReadableSpan:
        """The first finished span of this name."""
        finished = self.spans.get_finished_spans()
        found = next((span for span in finished if span.name == name), None)
        assert found is not None, [span.name for span in finished]
        return found

    def parent_name(self, span: ReadableSpan) -> str | None:
        """Name of the span above; None for a root."""
        if span.parent is None:
            return None
        above = span.parent.span_id
        finished = self.spans.get_finished_spans()
        return next((s.name for s in finished if s.context.span_id == above), "elsewhere")

    def points(self, metric: str) -> list[Any]:
        """The data points of one metric."""
        data = self.metrics.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]


@pytest.fixture
def measured() -> Measured:
    """A place where spans and metrics end."""
    spans, metrics = InMemorySpanExporter(), InMemoryMetricReader()
    tracer_provider = TracerProvider()
    tracer_provider.add_span_processor(SimpleSpanProcessor(spans))
    return Measured(
        spans=spans,
        metrics=metrics,
        tracer_provider=tracer_provider,
        meter_provider=MeterProvider(metric_readers=[metrics]),
    )


@pytest.fixture
def make_app(measured: Measured) -> Callable[..., tuple[Mastra, Agent]]:
    """An application that is measured, and its agent."""

    def make(
        *calls: Any, options: dict[str, Any] | None = None, storage: Any = None, **agent: Any
    ) -> tuple[Mastra, Agent]:
        one = Agent(id="desk", model=ScriptedModel(calls), **agent)
        app = Mastra(agents=[one], storage=storage, telemetry=measured.options(**(options or {})))
        return app, one

    return make
