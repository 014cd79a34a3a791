"""What the SQL adapters share: tables, statements, rows and domain stores."""

from __future__ import annotations

__all__ = ("__version__",)

__version__ = "0.1.0"
