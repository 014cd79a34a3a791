"""Fences of guarded writes: what they cost, and what they leave (pubsub_and_lease.md 6.4, L9)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mastra_core.base.isotime import to_iso_ms
from mastra_core.contracts.storage import PruneOptions, PrunePolicy
from mastra_core.errors import FencedOutError
from mastra_core.plugins.context import AdapterContext
from mastra_core.wire.messages import Message
from mastra_core.wire.threads import Thread
from mastra_libsql import LibSQLStorage
from mastra_sql.executor import Executed

pytestmark = pytest.mark.anyio

KEY = "r\0t"


async def test_a_fence_is_one_statement_beside_the_write(
    store: LibSQLStorage, executed: list[Executed], context: AdapterContext
) -> None:
    """Nothing is read first: the statement refuses by itself, and takes the rest with it."""
    now = context.clock.now()
    row = Message(
        id="m",
        role="user",
        created_at=now,
        thread_id="t",
        resource_id="r",
        content={"format": 2, "parts": []},
    )
    await store.memory.save_messages([row])
    plain = [one.statement for one in executed]
    executed.clear()

    await store.memory.guarded((KEY, 2)).save_messages([row])
    guarded = [one.statement for one in executed]
    executed.clear()
    with pytest.raises(FencedOutError):
        await store.memory.guarded((KEY, 1)).save_messages([row])

    assert sorted(["fences.raise", *plain]) == sorted(guarded)
    # Only who is refused asks by whom.
    assert "fences.newest" == executed[-1].statement


async def test_keys_hold_what_no_text_may(store: LibSQLStorage, query: Any) -> None:
    """The NUL of a thread's key is written out, so that every tool shows the rows."""
    await store.memory.raise_fence((KEY, 7))
    await store.memory.raise_fence(("r\\0t", 8))

    rows = query("SELECT key, token FROM mastra_py_fences ORDER BY token")

    assert [("r\\0t", 7), ("r\\\\0t", 8)] == rows


async def test_clearing_forgets_them(store: LibSQLStorage, context: AdapterContext) -> None:
    """With the threads that they belong to."""
    await store.memory.raise_fence((KEY, 7))

    await store.memory.dangerously_clear_all()

    now = context.clock.now()
    thread = Thread(id="t", resource_id="r", created_at=now, updated_at=now)
    assert "t" == (await store.memory.guarded((KEY, 1)).save_thread(thread)).id


async def test_those_that_nobody_can_be_behind_go_when_somebody_prunes(
    store: LibSQLStorage, query: Any, context: AdapterContext
) -> None:
    """A week after the last write; those of others stay, whatever becomes of their threads."""
    for key in ("new", "old", "older"):
        await store.memory.raise_fence((key, 7))
    for key, days in (("old", 6), ("older", 8)):
        written = to_iso_ms(context.clock.now() - timedelta(days=days))
        query("UPDATE mastra_py_fences SET updatedAt = ? WHERE key = ?", written, key)
    policy = PrunePolicy(table="threads", max_age_ms=1)

    await store.memory.prune([policy], PruneOptions(dry_run=True))
    before = query("SELECT key FROM mastra_py_fences ORDER BY key")
    results = await store.memory.prune([policy], PruneOptions(batch_size=1))
    left = query("SELECT key FROM mastra_py_fences ORDER BY key")

    assert [("new",), ("old",), ("older",)] == before
    assert ["threads"] == [one.table for one in results]
    assert [("new",), ("old",)] == left
    with pytest.raises(FencedOutError):
        await store.memory.raise_fence(("old", 6))
    await store.memory.raise_fence(("older", 6))
