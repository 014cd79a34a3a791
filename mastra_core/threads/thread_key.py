"""The key under which everything about a thread is kept (signals.md 0)."""

from __future__ import annotations

__all__ = ("thread_key",)


def thread_key(resource_id: str | None, thread_id: str) -> str:
    """Resource and thread, parted by NUL; no resource is the empty string."""
    return f"{resource_id or ''}\0{thread_id}"
