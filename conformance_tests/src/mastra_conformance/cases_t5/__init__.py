"""Tier 5, live interop: binds the suites that a Node process takes part in."""

from __future__ import annotations

__all__ = ()
