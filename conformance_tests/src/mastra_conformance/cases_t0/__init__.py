"""Tier 0, static: what can be said about an adapter without opening it."""

from __future__ import annotations

__all__ = ()
