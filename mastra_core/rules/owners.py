"""What a refused write means to whoever believed to own the thread (signals.md 22, G2 and G3)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mastra_core.errors import FencedOutError, LeaseLostError

__all__ = ("lost_if_refused",)


@contextmanager
def lost_if_refused() -> Iterator[None]:
    """
    Around a guarded write.

    Raises:
        LeaseLostError: The store has seen a newer owner; nothing was written.
    """
    try:
        yield
    except FencedOutError as exc:
        raise LeaseLostError(
            str((exc.details or {}).get("key", "")),
            message="This process has lost the thread to another one, which has written to it.",
        ) from exc
