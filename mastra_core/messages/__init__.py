"""What the model sees, and what we store of a conversation."""

from __future__ import annotations

__all__ = ()
