"""The bus in a libSQL database."""

from __future__ import annotations

from mastra_libsql.pubsub.bus import LibSQLPubSub

__all__ = ("LibSQLPubSub",)
