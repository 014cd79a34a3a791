"""What mastra-redis offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import StorageSpec, hookimpl
from mastra_redis.capabilities import STORAGE_CAPABILITIES

__all__ = (
    "MASTRA_PLUGIN_API",
    "mastra_storage_adapters",
)

MASTRA_PLUGIN_API = (1, 0)

_SCHEMES = ("redis", "rediss", "redis+unix")


@hookimpl
def mastra_storage_adapters() -> Iterable[StorageSpec]:
    """The store."""
    yield StorageSpec(
        name="redis",
        schemes=_SCHEMES,
        factory="mastra_redis.storage:RedisStorage",
        settings="mastra_redis.settings:RedisSettings",
        capabilities=STORAGE_CAPABILITIES,
        extra="redis",
        summary="Everything in plain Redis, shared with Node.",
    )
