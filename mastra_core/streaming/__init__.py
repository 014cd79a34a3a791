"""How a chunk gets out of a run, and who may read it again."""

from __future__ import annotations

__all__ = ()
