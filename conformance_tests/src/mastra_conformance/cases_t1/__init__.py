"""Tier 1, contract: binds the suites that one process can show."""

from __future__ import annotations

__all__ = ()
