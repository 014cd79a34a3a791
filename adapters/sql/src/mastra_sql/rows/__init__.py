"""Rows and models: pure conversions, tested without a database."""

from __future__ import annotations

from mastra_sql.rows.codec import RowCodec

__all__ = ("RowCodec",)
