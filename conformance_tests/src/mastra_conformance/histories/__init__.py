"""Histories of concurrent runs and the checkers that judge them afterwards."""

from __future__ import annotations

__all__ = ()
