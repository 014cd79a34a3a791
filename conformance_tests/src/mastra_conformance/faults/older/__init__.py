"""Workers that run beside an earlier version of our own code, see ``versions``."""

from __future__ import annotations

__all__ = ()
