"""Providers of our own that send to a collector by OTLP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mastra_core.errors import ConfigError
from mastra_otel.options import OtelOptions

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider

__all__ = ("Providers", "providers_for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Providers:
    """What was made for one endpoint; whoever made it closes it."""

    tracer: TracerProvider
    meter: MeterProvider | None

    def close(self, timeout_ms: int) -> None:
        """Send what is left and stop; blocks for at most about that time."""
        self.tracer.force_flush(timeout_ms)
        self.tracer.shutdown()
        if self.meter is not None:
            self.meter.shutdown(timeout_millis=timeout_ms)


def providers_for(options: OtelOptions, endpoint: str) -> Providers:
    """
    Send spans and metrics to this endpoint.

    Raises:
        ConfigError: What sends isn't installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as exc:
        raise ConfigError(
            "To send to an endpoint, install: pip install 'mastra-otel[otlp]'",
            details={"exporter": "otel", "missing": exc.name},
        ) from exc
    base = endpoint.rstrip("/")
    resource = Resource.create({"service.name": options.service_name})
    tracer = TracerProvider(resource=resource)
    tracer.add_span_processor(
        BatchSpanProcessor(
            OTLPSpanExporter(endpoint=f"{base}/v1/traces", headers=dict(options.headers))
        )
    )
    if not options.metrics:
        return Providers(tracer=tracer, meter=None)
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint=f"{base}/v1/metrics", headers=dict(options.headers)),
        export_interval_millis=options.metrics_every_ms,
    )
    meter = MeterProvider(resource=resource, metric_readers=[reader])
    return Providers(tracer=tracer, meter=meter)
