"""Storage in Redis."""

from __future__ import annotations

from mastra_redis.storage.store import RedisStorage, StoreFacts

__all__ = ("RedisStorage", "StoreFacts")
