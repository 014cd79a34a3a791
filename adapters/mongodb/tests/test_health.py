"""What the store tells about its server, for ``doctor``."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from mastra_core.contracts.storage.health import ObservableStorage
from mastra_mongodb import MongoStorage

__all__ = ()

pytestmark = pytest.mark.anyio


@pytest.fixture
def product() -> str:
    return "mongodb"


@pytest.fixture
async def database(
    product: str, local_server: Callable[[str], Any]
) -> AsyncIterator[tuple[str, str]]:
    """The URL of a server, and the name of a database of the test's own."""
    url, name = local_server(product).url, f"t{uuid.uuid4().hex[:8]}"
    yield url, name
    async with AsyncMongoClient[Any](url) as client:
        await client.drop_database(name)


async def test_a_replica_set_tells_version_latency_clock_and_pool(
    database: tuple[str, str],
) -> None:
    """Connections are counted as they open and come back."""
    url, name = database
    async with MongoStorage(url, database=name) as store:
        assert isinstance(store, ObservableStorage)

        health = await store.health()

    assert health.product == "MongoDB"
    assert health.oldest_version is not None
    assert health.setup == "replica set rs0 of 1"
    assert 0 < health.latency_ms < 1000
    assert health.clock_skew_ms is not None
    assert abs(health.clock_skew_ms) < 1000
    assert health.pool is not None
    assert (0, 50) == (health.pool.in_use, health.pool.limit)
    assert health.pool.size >= 1
    assert not health.node_peers
    assert not health.warnings


async def test_peers_are_told_by_what_only_they_make(database: tuple[str, str]) -> None:
    """Collections of the TypeScript store that ours has no use for."""
    url, name = database
    async with MongoStorage(url, database=name) as store, AsyncMongoClient[Any](url) as client:
        await client[name]["mastra_agents"].insert_one({})

        health = await store.health()

    assert list(health.node_peers) == [
        "collections that only the TypeScript system makes: mastra_agents"
    ]


@pytest.mark.parametrize("product", ["mongodb-standalone"])
async def test_a_standalone_is_warned_of(database: tuple[str, str]) -> None:
    """It works, but some steps are repaired instead of atomic."""
    url, name = database
    async with MongoStorage(url, database=name) as store:
        health = await store.health()

    assert health.setup == "standalone"
    assert "no replica set" in health.warnings[0].summary
