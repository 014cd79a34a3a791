"""Time, ids, JSON, retry: what every room needs and nothing about agents.

Import from the module that has the noun: ``from mastra_core.base.clock import Clock``.
"""

from __future__ import annotations

__all__ = ()
