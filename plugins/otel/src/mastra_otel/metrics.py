"""How long things take and how many tokens they cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry import metrics

from mastra_core.base.telemetry import SpanKind
from mastra_otel.attributes import OtelValue, gen_ai_facts

__all__ = ("SpanMetrics",)

_TOKENS: Final = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
}


class SpanMetrics:
    """
    Measures spans that end, by the names of the semantic conventions where they have one.

    ``gen_ai.client.operation.duration`` and ``gen_ai.client.token.usage`` of requests,
    ``mastra.run.duration`` of runs and ``mastra.tool.duration`` of tool calls.
    """

    def __init__(self, provider: Any = None) -> None:
        known: metrics.MeterProvider = provider or metrics.get_meter_provider()
        meter = known.get_meter("mastra_core")
        self._durations = {
            "model_generation": meter.create_histogram(
                "gen_ai.client.operation.duration", unit="s", description="Requests to models."
            ),
            "agent_run": meter.create_histogram(
                "mastra.run.duration", unit="s", description="Runs, up to their end or suspension."
            ),
            "tool_call": meter.create_histogram(
                "mastra.tool.duration", unit="s", description="Tool calls."
            ),
        }
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", unit="{token}", description="Tokens of requests."
        )

    def ended(self, kind: SpanKind, seconds: float, attributes: Mapping[str, OtelValue]) -> None:
        """Take a span that is over into account."""
        histogram = self._durations.get(kind)
        if histogram is None:
            return
        facts = gen_ai_facts(attributes)
        histogram.record(seconds, facts)
        if kind != "model_generation":
            return
        for token_type, name in _TOKENS.items():
            count = attributes.get(name)
            if isinstance(count, int):
                self._tokens.record(count, {**facts, "gen_ai.token.type": token_type})
