"""What happens to input for a thread: routing, queues, runs, subscriptions."""

from __future__ import annotations

__all__ = ()
