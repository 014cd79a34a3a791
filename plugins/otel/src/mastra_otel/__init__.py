"""Spans and metrics of runs for OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_otel.exporter import OtelExporter
    from mastra_otel.options import OtelOptions
    from mastra_otel.tracer import OtelTracer

__all__ = ("OtelExporter", "OtelOptions", "OtelTracer", "__version__")

__version__ = "0.1.0"

_HOMES = {
    "OtelExporter": "mastra_otel.exporter",
    "OtelOptions": "mastra_otel.options",
    "OtelTracer": "mastra_otel.tracer",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
