"""Suites of the runtime: agents at work on the store under test."""

from __future__ import annotations

__all__ = ()
