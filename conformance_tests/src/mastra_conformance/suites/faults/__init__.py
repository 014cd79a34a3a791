"""What every adapter must do while something is broken, and afterwards (design 5.5)."""

from __future__ import annotations

__all__ = ()
