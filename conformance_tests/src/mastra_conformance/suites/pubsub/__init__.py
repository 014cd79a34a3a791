"""What every event bus must do (pubsub_and_lease.md 3)."""

from __future__ import annotations

__all__ = ()
