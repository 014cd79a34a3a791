"""What mastra-redis offers. Imports no driver."""

from __future__ import annotations

from collections.abc import Iterable

from mastra_core.plugins import LeaseSpec, PubSubSpec, StorageSpec, hookimpl
from mastra_redis.capabilities import (
    LEASE_CAPABILITIES,
    PUBSUB_CAPABILITIES,
    STORAGE_CAPABILITIES,
)

__all__ = (
    "MASTRA_PLUGIN_API",
    "mastra_lease_adapters",
    "mastra_pubsub_adapters",
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


@hookimpl
def mastra_pubsub_adapters() -> Iterable[PubSubSpec]:
    """The bus on Redis Streams."""
    yield PubSubSpec(
        name="redis",
        schemes=_SCHEMES,
        factory="mastra_redis.pubsub:RedisPubSub",
        settings="mastra_redis.settings:RedisPubSubSettings",
        capabilities=PUBSUB_CAPABILITIES,
        extra="redis",
        summary="Events in Redis Streams, shared with Node.",
    )


@hookimpl
def mastra_lease_adapters() -> Iterable[LeaseSpec]:
    """Leases in Redis keys."""
    yield LeaseSpec(
        name="redis",
        schemes=_SCHEMES,
        factory="mastra_redis.lease:RedisLease",
        settings="mastra_redis.settings:RedisLeaseSettings",
        capabilities=LEASE_CAPABILITIES,
        extra="redis",
        summary="Leases in Redis, by the server's clock, shared with Node.",
    )
