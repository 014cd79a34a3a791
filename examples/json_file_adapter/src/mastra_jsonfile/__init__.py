"""Storage in one JSON file: slow, small, and safe for several processes."""

from __future__ import annotations

__all__ = ("__version__",)

__version__ = "0.1.0"
