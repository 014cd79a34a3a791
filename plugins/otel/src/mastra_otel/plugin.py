"""What mastra-otel offers. Imports no OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import ExporterSpec, hookimpl

__all__ = ("MASTRA_PLUGIN_API", "mastra_span_exporters")

MASTRA_PLUGIN_API = (1, 0)


@hookimpl
def mastra_span_exporters() -> Iterable[ExporterSpec]:
    """Everything that is measured, to OpenTelemetry."""
    yield ExporterSpec(
        name="otel",
        factory="mastra_otel.exporter:OtelExporter",
        settings="mastra_otel.options:OtelOptions",
        extra="otel",
        summary="Spans and metrics through OpenTelemetry.",
    )
