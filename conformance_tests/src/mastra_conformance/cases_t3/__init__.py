"""Tier 3, wire: binds the suites of golden scenes."""

from __future__ import annotations

__all__ = ()
