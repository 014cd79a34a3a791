"""The commands, one module each; a module is imported when its command is called."""

from __future__ import annotations

__all__ = ()
