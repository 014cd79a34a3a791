"""What can be called on an agent."""

from __future__ import annotations

__all__ = ()
