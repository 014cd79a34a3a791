"""Models for agents: a small real one on the CPU, and hosted providers."""

from __future__ import annotations

__all__ = ("__version__",)

__version__ = "0.1.0"
