"""A tracer that keeps its spans for a test to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mastra_core.base.telemetry import Attribute, Span, SpanKind, TraceLink, started_span

__all__ = ("RecordedSpan", "RecordingTracer")


@dataclass(slots=True, kw_only=True)
class RecordedSpan:
    """One span, and what was said about it."""

    name: str
    kind: SpanKind
    link: TraceLink
    parent: TraceLink | None
    current: ContextVar[TraceLink | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    is_ended: bool = False

    @property
    def is_recording(self) -> bool:
        """Always."""
        return True

    def set_attribute(self, name: str, value: Attribute) -> None:
        """Keep it."""
        self.attributes[name] = value

    def add_event(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> None:
        """Keep its name."""
        self.events.append(name)

    def record_error(self, error: BaseException) -> None:
        """Keep it."""
        self.errors.append(error)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Be the parent of what is opened inside the block."""
        token = self.current.set(self.link)
        try:
            yield
        finally:
            self.current.reset(token)

    def end(self) -> None:
        """Say that it is over."""
        self.is_ended = True


class RecordingTracer:
    """
    Keeps every span in the order in which they were opened.

    ``tree()`` is the easiest to compare: names, indented below their parents.
    """

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []
        self._current: ContextVar[TraceLink | None] = ContextVar("current", default=None)
        self._traces = 0

    def start(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> Span:
        """Open a span below ``parent``, else below the active one."""
        above = parent or self._current.get()
        if above is None:
            self._traces += 1
        link = TraceLink(
            trace_id=above.trace_id if above is not None else f"{self._traces:032x}",
            span_id=f"{len(self.spans) + 1:016x}",
        )
        span = RecordedSpan(
            name=name,
            kind=kind,
            link=link,
            parent=above,
            current=self._current,
            attributes=dict(attributes or {}),
        )
        self.spans.append(span)
        return span

    def span(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> AbstractContextManager[Span]:
        """Measure the block."""
        return started_span(self.start(name, attributes, kind=kind, parent=parent))

    def named(self, name: str) -> RecordedSpan:
        """
        The first span of this name.

        Raises:
            LookupError: There is none; the message lists those that are.
        """
        for span in self.spans:
            if span.name == name:
                return span
        raise LookupError(f"No span is called {name!r}. Known: {[s.name for s in self.spans]}.")

    def tree(self) -> list[str]:
        """Names, each below its parent and indented by two."""
        lines: list[str] = []
        known = {span.link for span in self.spans}

        def show(parent: TraceLink | None, depth: int) -> None:
            for span in self.spans:
                above = span.parent if span.parent in known else None
                if above == parent:
                    lines.append("  " * depth + span.name)
                    show(span.link, depth + 1)

        show(None, 0)
        return lines
