"""Storage, pubsub and leases in Redis."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

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

_HOMES: Final = MappingProxyType(
    {
        "RedisCache": "cache",
        "RedisLease": "lease",
        "RedisLeaseSettings": "settings",
        "RedisPubSub": "pubsub",
        "RedisPubSubSettings": "settings",
        "RedisSettings": "settings",
        "RedisStorage": "storage",
    }
)


def __getattr__(name: str) -> Any:
    # The driver is imported with the first use, not with the package.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
