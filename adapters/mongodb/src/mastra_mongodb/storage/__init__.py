"""The six domains in one MongoDB database."""

from __future__ import annotations

from mastra_mongodb.storage.store import MongoStorage, StoreFacts

__all__ = ("MongoStorage", "StoreFacts")
