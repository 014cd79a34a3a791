"""The event bus on Redis Streams."""

from __future__ import annotations

from mastra_redis.pubsub.bus import RedisPubSub

__all__ = ("RedisPubSub",)
