"""What mastra-postgres offers. Imports no driver."""

from __future__ import annotations

__all__ = ("MASTRA_PLUGIN_API",)

MASTRA_PLUGIN_API = (1, 0)
