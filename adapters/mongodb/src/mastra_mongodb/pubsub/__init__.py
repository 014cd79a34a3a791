"""The bus in a MongoDB database."""

from __future__ import annotations

from mastra_mongodb.pubsub.bus import MongoPubSub

__all__ = ("MongoPubSub",)
