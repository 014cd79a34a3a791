"""What every lease provider must do (pubsub_and_lease.md 6)."""

from __future__ import annotations

__all__ = ()
