"""Writers of one row that come at the same time, served by one of them; see the core."""

from __future__ import annotations

from mastra_core.base.coalesce import Coalescer

__all__ = ("Coalescer",)
