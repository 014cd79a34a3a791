"""What the executor raises, as errors of the bus and of leases (design.md 6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mastra_core.errors import (
    FencedOutError,
    LeaseError,
    LeaseUnavailableError,
    PubSubConnectionError,
    PubSubError,
    StorageConnectionError,
    StorageError,
    StorageTimeoutError,
)

__all__ = ("bus_errors", "lease_errors")


@contextmanager
def bus_errors() -> Iterator[None]:
    """Let only ``PubSubError`` out; a lost connection is one that may be tried again."""
    try:
        yield
    except FencedOutError:
        raise
    except StorageError as exc:
        lost = isinstance(exc, StorageConnectionError | StorageTimeoutError)
        kind = PubSubConnectionError if lost else PubSubError
        raise kind(str(exc), hint=exc.hint, details=exc.details) from exc


@contextmanager
def lease_errors() -> Iterator[None]:
    """Let only ``LeaseError`` out; unavailable means that nobody knows who owns the key."""
    try:
        yield
    except StorageError as exc:
        lost = isinstance(exc, StorageConnectionError | StorageTimeoutError)
        kind = LeaseUnavailableError if lost else LeaseError
        raise kind(str(exc), hint=exc.hint, details=exc.details) from exc
