"""The conformance suite: what a backend is worth, shown by tests."""

from __future__ import annotations

__all__ = ("__version__",)

__version__ = "0.1.0"
