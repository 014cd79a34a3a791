"""What a plugin that sends spans somewhere offers."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from mastra_core.base.telemetry import Tracer

__all__ = ("SpanExporter",)


@runtime_checkable
class SpanExporter(Protocol):
    """
    Measures and sends; opened with the application and closed after everything else.

    Making one opens nothing. Its tracer may be used before it is open; what was measured by then
    is sent later, or never.
    """

    @property
    def tracer(self) -> Tracer:
        """Opens its spans. What it raises is swallowed, and it is switched off if it goes on."""
        ...

    async def __aenter__(self) -> Any:
        """Begin to send."""
        ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Send what is left, within the exporter's own deadline."""
        ...
