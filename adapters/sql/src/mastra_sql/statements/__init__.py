"""The statements of every domain, built with SQLAlchemy Core; one module per domain."""

from __future__ import annotations

from mastra_sql.statements.base import StatementSet

__all__ = ("StatementSet",)
