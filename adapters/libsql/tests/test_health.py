"""What the store tells about its engine, for ``doctor``."""

from __future__ import annotations

from pathlib import Path

import pytest

from mastra_core.contracts.storage.health import ObservableStorage
from mastra_core.plugins.context import AdapterContext
from mastra_libsql import LibSQLStorage

__all__ = ()

pytestmark = pytest.mark.anyio


async def test_a_file_tells_version_latency_and_connections(store: LibSQLStorage) -> None:
    """The clock is our own, so there is no skew; nobody of the other system was here."""
    assert isinstance(store, ObservableStorage)

    health = await store.health()

    assert health.product == "SQLite"
    assert health.version.startswith("3.")
    assert health.oldest_version == "3.45"
    assert health.setup == "journal wal"
    assert health.latency_ms >= 0
    assert health.clock_skew_ms is None
    assert health.pool is not None
    assert health.pool.size >= 1
    assert not health.node_peers


async def test_tables_of_the_other_system_are_told(
    node_path: Path, context: AdapterContext
) -> None:
    """A database that it wrote says so."""
    async with LibSQLStorage(f"file:{node_path}", context) as store:
        health = await store.health()

    (sentence,) = health.node_peers
    assert "tables that only the TypeScript system makes: mastra_agent" in sentence
