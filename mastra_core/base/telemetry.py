"""What the runtime tells about itself: spans and measurements, thrown away unless somebody asks.

The OpenTelemetry plugin implements these protocols; nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, runtime_checkable

__all__ = (
    "NOOP_SPAN",
    "Attribute",
    "Counter",
    "Histogram",
    "Meter",
    "NoopMeter",
    "NoopTracer",
    "Span",
    "SpanKind",
    "TraceLink",
    "Tracer",
    "started_span",
)

#: What a span or measurement may carry: JSON values.
Attribute: TypeAlias = str | int | float | bool | Sequence[Any] | Mapping[str, Any] | None

#: What a span measures, in the words of the TypeScript system.
SpanKind = Literal[
    "agent_run",
    "agent_signal",
    "generic",
    "memory_operation",
    "model_generation",
    "model_step",
    "processor_run",
    "tool_call",
    "workflow_run",
    "workflow_step",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLink:
    """Where a span of another time or process is: ids as W3C writes them, in hexadecimal."""

    trace_id: str
    span_id: str


@runtime_checkable
class Span(Protocol):
    """One piece of work that takes time."""

    @property
    def link(self) -> TraceLink | None:
        """Where it is, for what goes on with it later; None if nobody measures."""
        ...

    @property
    def is_recording(self) -> bool:
        """Whether attributes reach anybody; those that cost much can be left out else."""
        ...

    def set_attribute(self, name: str, value: Attribute) -> None:
        """Add or replace a fact."""
        ...

    def add_event(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> None:
        """Note that something happened now."""
        ...

    def record_error(self, error: BaseException) -> None:
        """Mark the work as failed."""
        ...

    def active(self) -> AbstractContextManager[None]:
        """Be the parent of spans that are opened inside the block."""
        ...

    def end(self) -> None:
        """The work is over; ending twice is harmless."""
        ...


@runtime_checkable
class Tracer(Protocol):
    """Opens spans; the innermost active one is the parent of the next."""

    def start(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> Span:
        """A span that goes on until its ``end``; not active by itself."""
        ...

    def span(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> AbstractContextManager[Span]:
        """Measure the block; an exception that leaves it is recorded and goes on."""
        ...


@contextmanager
def started_span(span: Span) -> Iterator[Span]:
    """Measure the block with this span, which has been started; what ``Tracer.span`` does."""
    with span.active():
        try:
            yield span
        except Exception as exc:
            span.record_error(exc)
            raise
        finally:
            span.end()


@runtime_checkable
class Counter(Protocol):
    """A number that only grows."""

    def add(self, amount: float = 1, attributes: Mapping[str, Attribute] | None = None) -> None:
        """Count so many more."""
        ...


@runtime_checkable
class Histogram(Protocol):
    """A distribution of measured values."""

    def record(self, value: float, attributes: Mapping[str, Attribute] | None = None) -> None:
        """Add one measured value."""
        ...


@runtime_checkable
class Meter(Protocol):
    """Gives instruments by name; asking twice gives the same one or an equal one."""

    def counter(self, name: str, *, unit: str = "1", description: str = "") -> Counter:
        """A counter."""
        ...

    def histogram(self, name: str, *, unit: str = "ms", description: str = "") -> Histogram:
        """A histogram."""
        ...


class _NoopSpan:
    """Nobody measures; a block of its own, so that opening one costs next to nothing."""

    __slots__ = ()

    @property
    def link(self) -> TraceLink | None:
        return None

    @property
    def is_recording(self) -> bool:
        return False

    def set_attribute(self, name: str, value: Attribute) -> None:
        pass

    def add_event(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> None:
        pass

    def record_error(self, error: BaseException) -> None:
        pass

    def active(self) -> AbstractContextManager[None]:
        return _NOTHING

    def end(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None


_NOTHING: Final = nullcontext()
NOOP_SPAN: Final = _NoopSpan()


class _NoopInstrument:
    __slots__ = ()

    def add(self, amount: float = 1, attributes: Mapping[str, Attribute] | None = None) -> None:
        pass

    def record(self, value: float, attributes: Mapping[str, Attribute] | None = None) -> None:
        pass


class NoopTracer:
    """Measures nothing."""

    __slots__ = ()

    def start(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> Span:
        return NOOP_SPAN

    def span(
        self,
        name: str,
        attributes: Mapping[str, Attribute] | None = None,
        *,
        kind: SpanKind = "generic",
        parent: TraceLink | None = None,
    ) -> AbstractContextManager[Span]:
        return NOOP_SPAN


class NoopMeter:
    """Counts nothing."""

    __slots__ = ()

    def counter(self, name: str, *, unit: str = "1", description: str = "") -> Counter:
        return _NoopInstrument()

    def histogram(self, name: str, *, unit: str = "ms", description: str = "") -> Histogram:
        return _NoopInstrument()
