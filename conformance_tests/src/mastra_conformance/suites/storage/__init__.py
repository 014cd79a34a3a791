"""Suites of the storage domains, one module per domain."""

from __future__ import annotations

__all__ = ()
