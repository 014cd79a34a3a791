"""Tier 2, concurrency: binds the suites of many tasks and processes."""

from __future__ import annotations

__all__ = ()
