"""What pytest loads through the entry point ``mastra_conformance``."""

from __future__ import annotations

__all__ = ()
