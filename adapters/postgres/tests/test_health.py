"""What the store tells about its server, for ``doctor``."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from mastra_core.contracts.storage.health import ObservableStorage
from mastra_postgres import PostgresStorage

__all__ = ()

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(local_server: Callable[[str], Any]) -> str:
    address: str = local_server("postgres").url
    return address


@pytest.fixture
async def schema(url: str) -> AsyncIterator[str]:
    """A schema of the test's own."""
    name = f"t{uuid.uuid4().hex[:8]}"
    yield name
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())


async def test_a_server_tells_version_role_latency_clock_and_pool(url: str, schema: str) -> None:
    """Asking changes nothing, and any account may."""
    async with PostgresStorage(url, schema=schema) as store:
        assert isinstance(store, ObservableStorage)

        health = await store.health()

    assert health.product == "PostgreSQL"
    assert int(health.version.partition(".")[0]) >= 15
    assert health.oldest_version == "15"
    assert health.setup == "primary, no TLS"
    assert 0 < health.latency_ms < 1000
    assert health.clock_skew_ms is not None
    assert abs(health.clock_skew_ms) < 1000
    assert health.pool is not None
    assert 1 <= health.pool.size <= 4
    assert health.pool.limit == 4
    assert not health.node_peers


async def test_tables_of_the_other_system_are_told(url: str, schema: str) -> None:
    """In the schema of the store only."""
    async with PostgresStorage(url, schema=schema) as store:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute(f'CREATE TABLE "{schema}".mastra_agents ()'.encode())

        health = await store.health()

    assert list(health.node_peers) == [
        "tables that only the TypeScript system makes: mastra_agents"
    ]


async def test_settings_that_lose_data_are_warned_of(url: str, schema: str) -> None:
    """A session that doesn't wait for the disk loses what was acknowledged."""
    careless = f"{url}?options=-csynchronous_commit%3Doff"
    async with PostgresStorage(careless, schema=schema) as store:
        health = await store.health()

    assert "synchronous_commit is off" in " ".join(item.summary for item in health.warnings)
