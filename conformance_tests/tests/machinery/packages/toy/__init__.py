"""Adapters for the tests of the suite: a right one, and some that are wrong on purpose."""

from __future__ import annotations

__all__ = ()
