"""A small real model on this machine's CPU; the engine runs in a child process."""

from __future__ import annotations

__all__ = ()
