"""Options of the exporter: ``Mastra(telemetry={"otel": {...}})`` or ``[telemetry.otel]``."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

__all__ = ("OtelOptions",)


class OtelOptions(BaseModel):
    """Where spans and metrics go, and how much they say."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True
    )

    #: An OpenTelemetry tracer provider; None uses the process's own, and measures nothing while
    #: nobody has set one.
    tracer_provider: Any = None
    #: An OpenTelemetry meter provider; None uses the process's own.
    meter_provider: Any = None
    #: Base URL of an OTLP collector, such as ``http://localhost:4318``. Spans and metrics then go
    #: there through providers of our own. Needs ``mastra-otel[otlp]``.
    endpoint: str | None = None
    #: HTTP headers for the collector.
    headers: dict[str, str] = Field(default_factory=dict)
    #: What the service is called at the collector.
    service_name: str = "mastra"
    #: Also send what was said: prompts, answers, arguments and results of tools.
    capture_content: bool = False
    #: Characters after which what was said is cut.
    max_content_length: int = Field(default=16_384, ge=0)
    #: Also measure durations and tokens.
    metrics: bool = True
    #: Milliseconds between two sendings of metrics to the endpoint.
    metrics_every_ms: int = Field(default=60_000, ge=100)
    #: Milliseconds that the last sending may take when the application closes.
    flush_timeout_ms: int = Field(default=5_000, ge=0)
