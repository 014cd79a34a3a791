"""Tier 5: a live process of the TypeScript system uses what we use, at the same time."""

from __future__ import annotations

__all__ = ()
