"""What the store tells about its server, for ``doctor``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from mastra_core.contracts.storage.health import ObservableStorage
from mastra_redis.storage.store import RedisStorage

__all__ = ()

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(local_server: Callable[[str], Any]) -> str:
    address: str = local_server("redis").url
    return address


@pytest.fixture
def prefix() -> str:
    """Of keys that only this test has."""
    return f"t{uuid.uuid4().hex[:8]}:"


async def test_a_server_tells_version_latency_clock_and_pool(url: str, prefix: str) -> None:
    """How it keeps what it was given, too."""
    async with RedisStorage(url, prefix=prefix) as store:
        assert isinstance(store, ObservableStorage)

        health = await store.health()
        await store.dangerously_clear_all()

    assert health.product == "Redis"
    assert health.oldest_version == "6.2"
    assert health.setup == "standalone, master, append-only file"
    assert 0 < health.latency_ms < 1000
    assert health.clock_skew_ms is not None
    assert abs(health.clock_skew_ms) < 1000
    assert health.pool is not None
    assert health.pool.size == 1
    assert not health.node_peers
    assert not health.warnings


async def test_peers_are_told_by_what_only_they_write(url: str, prefix: str) -> None:
    """Families of keys that this package has no use for."""
    async with RedisStorage(url, prefix=prefix) as store, Redis.from_url(url) as client:
        await client.set(f"{prefix}mastra_scorers:id:1", "{}")

        health = await store.health()
        await client.delete(f"{prefix}mastra_scorers:id:1")
        await store.dangerously_clear_all()

    assert list(health.node_peers) == ["keys that only the TypeScript system makes: mastra_scorers"]


async def test_settings_that_lose_data_are_warned_of(url: str, prefix: str) -> None:
    """Each with the command that mends it."""
    async with RedisStorage(url, prefix=prefix) as store, Redis.from_url(url) as client:
        await client.config_set("appendonly", "no")
        try:
            health = await store.health()
        finally:
            await client.config_set("appendonly", "yes")
        await store.dangerously_clear_all()

    (warning,) = health.warnings
    assert "appendonly no" in warning.summary
    assert warning.fix == "CONFIG SET appendonly yes"
