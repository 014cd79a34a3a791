"""Storage, pubsub and leases in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastra_redis.cache import RedisCache
    from mastra_redis.lease import RedisLease
    from mastra_redis.pubsub import RedisPubSub
    from mastra_redis.settings import RedisLeaseSettings, RedisPubSubSettings, RedisSettings
    from mastra_redis.storage import RedisStorage

__all__ = (
    "RedisCache",
    "RedisLease",
    "RedisLeaseSettings",
    "RedisPubSub",
    "RedisPubSubSettings",
    "RedisSettings",
    "RedisStorage",
    "__version__",
)

__version__ = "0.1.0"

_HOMES = {
    "RedisCache": "cache",
    "RedisLease": "lease",
    "RedisLeaseSettings": "settings",
    "RedisPubSub": "pubsub",
    "RedisPubSubSettings": "settings",
    "RedisSettings": "settings",
    "RedisStorage": "storage",
}


def __getattr__(name: str) -> Any:
    # The driver is imported with the first use, not with the package.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"mastra_redis.{home}"), name)
