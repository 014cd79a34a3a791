"""What peers write and read: recorded scenes, replayed and compared member by member."""

from __future__ import annotations

__all__ = ()
