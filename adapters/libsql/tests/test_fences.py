"""Fences of guarded writes: what they cost, and what they leave (pubsub_and_lease.md 6.4, L9)."""

from __future__ import annotations

from typing import Any

import pytest

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
