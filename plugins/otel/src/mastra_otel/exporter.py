"""The exporter that an application opens."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Any, Self

from mastra_core.base.telemetry import Tracer
from mastra_otel.attributes import SpanFacts
from mastra_otel.metrics import SpanMetrics
from mastra_otel.options import OtelOptions
from mastra_otel.sending import Providers, providers_for
from mastra_otel.tracer import OtelTracer

__all__ = ("OtelExporter",)

logger = logging.getLogger(__name__)


class OtelExporter:
    """
    Measures with OpenTelemetry.

    Without an endpoint it uses the providers of the process, or those that it is given, and
    closes neither. With one it has providers of its own, and sends what is left when the
    application closes.
    """

    def __init__(self, options: OtelOptions | None = None, context: Any = None) -> None:
        self._options = options or OtelOptions()
        self._own: Providers | None = None
        self._tracer: OtelTracer | None = None

    @property
    def tracer(self) -> Tracer:
        """Opens the spans."""
        if self._tracer is None:
            self._tracer = self._new_tracer()
        return self._tracer

    def _new_tracer(self) -> OtelTracer:
        options = self._options
        if options.endpoint is not None and self._own is None:
            self._own = providers_for(options, options.endpoint)
        own = self._own
        metrics = None
        if options.metrics:
            metrics = SpanMetrics(options.meter_provider or (own.meter if own else None))
        return OtelTracer(
            options.tracer_provider or (own.tracer if own else None),
            facts=SpanFacts(
                capture_content=options.capture_content,
                max_content_length=options.max_content_length,
            ),
            metrics=metrics,
        )

    async def __aenter__(self) -> Self:
        """Begin; a wrong option is found out now."""
        _ = self.tracer
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Send what is left to the endpoint, if there is one."""
        own, self._own, self._tracer = self._own, None, None
        if own is None:
            return
        timeout_ms = self._options.flush_timeout_ms
        try:
            async with asyncio.timeout(2 * timeout_ms / 1000 + 1):
                # It sends in a thread and waits for it.
                await asyncio.to_thread(own.close, timeout_ms)
        except TimeoutError:
            logger.warning("spans were not sent in time", extra={"timeout_ms": timeout_ms})
