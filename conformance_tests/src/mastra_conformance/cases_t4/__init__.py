"""Tier 4: something breaks."""

from __future__ import annotations

__all__ = ()
