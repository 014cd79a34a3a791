"""Several tracers as one, none of which can disturb what it measures.

What a tracer raises is swallowed; one that fails again and again is switched off with a single
warning (design 4.2, *observe*).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import attrgetter, methodcaller
from typing import Any, Final, TypeVar

from mastra_core.base.telemetry import (
    NOOP_SPAN,
    Attribute,
    Span,
    SpanKind,
    TraceLink,
    Tracer,
    started_span,
)

__all__ = ("GuardedTracer",)

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Failures in a row after which a tracer isn't asked any more.
_MAX_FAILURES: Final = 10


class _Guard:
    """Calls one tracer and counts what it raises."""

    def __init__(self, name: str, tracer: Tracer) -> None:
        self.name = name
        self.tracer = tracer
        self.is_off = False
        self._failures = 0

    def call(self, method: Callable[[Any], T], target: object) -> T | None:
        """What the method of a tracer, a span or a block returns; None if it raised."""
        if self.is_off:
            return None
        try:
            result = method(target)
        except Exception:
            self._failures += 1
            logger.debug("tracer failed", exc_info=True, extra={"tracer": self.name})
            if self._failures >= _MAX_FAILURES:
                self.is_off = True
                logger.warning("tracer switched off", extra={"tracer": self.name})
            return None
        self._failures = 0
        return result


class _GuardedSpan:
    """The same piece of work in every tracer."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Sequence[tuple[_Guard, Span]]) -> None:
        self._spans = spans

    @property
    def link(self) -> TraceLink | None:
        links = (guard.call(attrgetter("link"), span) for guard, span in self._spans)
        return next((link for link in links if link is not None), None)

    @property
    def is_recording(self) -> bool:
        return any(guard.call(attrgetter("is_recording"), span) for guard, span in self._spans)

    def set_attribute(self, name: str, value: Attribute) -> None:
        for guard, span in self._spans:
            guard.call(methodcaller("set_attribute", name, value), span)

    def add_event(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> None:
        for guard, span in self._spans:
            guard.call(methodcaller("add_event", name, attributes), span)

    def record_error(self, error: BaseException) -> None:
        for guard, span in self._spans:
            guard.call(methodcaller("record_error", error), span)

    def end(self) -> None:
        for guard, span in self._spans:
            guard.call(methodcaller("end"), span)

    @contextmanager
    def active(self) -> Iterator[None]:
        entered: list[tuple[_Guard, AbstractContextManager[None]]] = []
        for guard, span in self._spans:
            block = guard.call(methodcaller("active"), span)
            if block is not None and guard.call(_enter, block):
                entered.append((guard, block))
        try:
            yield
        finally:
            for guard, block in reversed(entered):
                guard.call(methodcaller("__exit__", None, None, None), block)


def _enter(block: AbstractContextManager[None]) -> bool:
    block.__enter__()
    return True


class GuardedTracer:
    """
    Measures with each of these tracers.

    Args:
        tracers: Tracers by name, for the log. The first that gives a link gives that of all.
    """

    def __init__(self, tracers: Mapping[str, Tracer]) -> None:
        self._guards = [_Guard(name, tracer) for name, tracer in tracers.items()]

    def start(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> Span:
        """A span in every tracer that is on."""
        spans: list[tuple[_Guard, Span]] = []
        for guard in self._guards:
            open_span = methodcaller("start", name, attributes, kind=kind, parent=parent)
            span: Span | None = guard.call(open_span, guard.tracer)
            if span is not None and span is not NOOP_SPAN:
                spans.append((guard, span))
        return _GuardedSpan(spans) if spans else NOOP_SPAN

    def span(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> AbstractContextManager[Span]:
        """Measure the block in every tracer that is on."""
        span = self.start(name, attributes, kind=kind, parent=parent)
        return NOOP_SPAN if span is NOOP_SPAN else started_span(span)
