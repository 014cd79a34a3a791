"""What a backend, model, tool or processor must offer. Protocols and values, no logic."""

from __future__ import annotations

__all__ = ()
