"""Hosted models through pydantic-ai: requests, answers and errors are translated, no more."""

from __future__ import annotations

__all__ = ()
