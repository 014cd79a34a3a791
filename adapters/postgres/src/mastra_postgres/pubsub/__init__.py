"""The bus in a PostgreSQL database."""

from __future__ import annotations

from mastra_postgres.pubsub.bus import PostgresPubSub

__all__ = ("PostgresPubSub",)
