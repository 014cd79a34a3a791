"""Fences of guarded writes: how long they are known (pubsub_and_lease.md 6.4, L9)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mastra_core.contracts.storage import PruneOptions, PrunePolicy
from mastra_core.errors import FencedOutError
from mastra_core.plugins.context import AdapterContext
from mastra_postgres import PostgresStorage

pytestmark = pytest.mark.anyio


async def test_those_that_nobody_can_be_behind_go_when_somebody_prunes(
    store: PostgresStorage, query: Any, context: AdapterContext
) -> None:
    """A week after the last write; those of others stay."""
    for key, days in (("new", 0), ("old", 6), ("older", 8)):
        await store.memory.raise_fence((key, 7))
        written = context.clock.now() - timedelta(days=days)
        query('UPDATE mastra_py_fences SET "updatedAt" = %s WHERE key = %s', written, key)
    policy = PrunePolicy(table="threads", max_age_ms=1)

    await store.memory.prune([policy], PruneOptions(dry_run=True))
    before = query("SELECT key FROM mastra_py_fences ORDER BY key")
    await store.memory.prune([policy], PruneOptions(batch_size=1))
    left = query("SELECT key FROM mastra_py_fences ORDER BY key")

    assert [("new",), ("old",), ("older",)] == before
    assert [("new",), ("old",)] == left
    with pytest.raises(FencedOutError):
        await store.memory.raise_fence(("old", 6))
    await store.memory.raise_fence(("older", 6))
