"""What the runtime tells about itself: spans and measurements, thrown away unless somebody asks.

The OpenTelemetry plugin implements these protocols; nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeAlias, runtime_checkable

__all__ = (
    "Attribute",
    "Counter",
    "Histogram",
    "Meter",
    "NoopMeter",
    "NoopTracer",
    "Span",
    "Tracer",
)

#: What a span or measurement may carry.
Attribute: TypeAlias = str | int | float | bool


@runtime_checkable
class Span(Protocol):
    """One piece of work that takes time."""

    def set_attribute(self, name: str, value: Attribute) -> None:
        """Add or replace a fact."""
        ...

    def add_event(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> None:
        """Note that something happened now."""
        ...

    def record_error(self, error: BaseException) -> None:
        """Mark the work as failed."""
        ...


@runtime_checkable
class Tracer(Protocol):
    """Opens spans; the innermost open one is the parent of the next."""

    def span(
        self, name: str, attributes: Mapping[str, Attribute] | None = None
    ) -> AbstractContextManager[Span]:
        """Measure the block; an exception that leaves it is recorded and goes on."""
        ...


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
    __slots__ = ()

    def set_attribute(self, name: str, value: Attribute) -> None:
        pass

    def add_event(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> None:
        pass

    def record_error(self, error: BaseException) -> None:
        pass


class _NoopInstrument:
    __slots__ = ()

    def add(self, amount: float = 1, attributes: Mapping[str, Attribute] | None = None) -> None:
        pass

    def record(self, value: float, attributes: Mapping[str, Attribute] | None = None) -> None:
        pass


class NoopTracer:
    """Measures nothing."""

    __slots__ = ()

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Attribute] | None = None) -> Iterator[Span]:
        yield _NoopSpan()


class NoopMeter:
    """Counts nothing."""

    __slots__ = ()

    def counter(self, name: str, *, unit: str = "1", description: str = "") -> Counter:
        return _NoopInstrument()

    def histogram(self, name: str, *, unit: str = "ms", description: str = "") -> Histogram:
        return _NoopInstrument()
