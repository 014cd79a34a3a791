"""``RedisPubSub``: the event engine on Redis Streams."""

from __future__ import annotations

from typing import Any

from mastra_core.bus import EventEngine
from mastra_core.plugins.context import AdapterContext
from mastra_redis.lease import RedisLease
from mastra_redis.pubsub.driver import RedisDriver
from mastra_redis.settings import RedisPubSubSettings

__all__ = ("RedisPubSub",)


class RedisPubSub(EventEngine):
    """
    A bus in Redis; shares topics, groups and leases with TypeScript peers.

    Example::

        async with RedisPubSub("redis://localhost:6379/0") as bus:
            await bus.subscribe("news", print)

    Args:
        settings: URL and options, or just the URL.
        context: Clock, ids, and what storage, pubsub and lease of one URL share.
        options: Settings by name, for those who give just the URL.
    """

    def __init__(
        self,
        settings: RedisPubSubSettings | str,
        context: AdapterContext | None = None,
        **options: Any,
    ) -> None:
        if isinstance(settings, str):
            settings = RedisPubSubSettings(url=settings, **options)
        context = context or AdapterContext()
        _ = settings.driver_url  # refuses a URL that is none of ours
        self._redis = RedisDriver(settings, context)
        self._lease = RedisLease(settings.lease_settings(), context)
        super().__init__(
            self._redis,
            settings=settings.bus_settings(),
            clock=context.clock,
            ids=context.ids,
            name="redis",
        )

    def get_lease_provider(self) -> RedisLease:
        """Leases on the same server, under the same prefix."""
        return self._lease

    def open_resources(self) -> dict[str, int]:
        """What is open right now, by kind."""
        return self._redis.held()

    async def _release_leases(self) -> None:
        await self._lease.aclose()
