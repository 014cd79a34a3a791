"""Helpers for tests of agents, adapters and plugins; nothing imports this room."""

from __future__ import annotations

__all__ = ()
