"""Guarded writes when their process dies: nobody waits a minute for what it had begun."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pymongo.errors
import pytest

from mastra_conformance.faults.addresses import through_port
from mastra_conformance.faults.proxy import open_network
from mastra_core.errors import FencedOutError
from mastra_core.wire.threads import Thread
from mastra_mongodb import MongoStorage

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THREAD = Thread(id="t", resource_id="u", created_at=NOW, updated_at=NOW)
KEY = "thread"


@pytest.fixture
def url(server: str, database: Any) -> str:
    """A database of our own."""
    mark = "&" if "?" in server else "?"
    return f"{server}{mark}mastra_database={database.name}"


async def test_the_transaction_of_a_dead_owner_ends_with_its_term(url: str) -> None:
    """It has touched the fence and never ends it; a server would keep it for a minute."""
    async with MongoStorage(url) as old, MongoStorage(url) as new:
        await old.memory.raise_fence((KEY, 1))
        await old.memory.guarded((KEY, 1)).save_thread(THREAD)
        host = old._host
        async with host.guards.session(KEY) as session:
            await session.start_transaction()
            await host._raise_fence((KEY, 1), session)

            async with asyncio.timeout(40):
                await new.memory.raise_fence((KEY, 2))
                await new.memory.guarded((KEY, 2)).update_thread("t", title="new")

            with pytest.raises(pymongo.errors.OperationFailure):
                await session.commit_transaction()
        with pytest.raises(FencedOutError):
            await old.memory.guarded((KEY, 1)).update_thread("t", title="old")
        found = await new.memory.get_thread_by_id("t")

    assert found is not None
    assert "new" == found.title


async def test_writes_of_one_key_share_a_session_and_all_happen(url: str) -> None:
    """Also beside others, and after one was cancelled amid its transaction."""
    async with MongoStorage(url) as store:
        for name in "abc":
            await store.memory.save_thread(THREAD.model_copy(update={"id": name}))
        writes = [
            store.memory.guarded((key, 1)).update_thread(name, metadata={key: 1})
            for name in "abc"
            for key in ("k1", "k2", "k3")
        ]
        cancelled = asyncio.ensure_future(
            store.memory.guarded(("k1", 1)).update_thread("a", metadata={"cancelled": 1})
        )
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(*writes)
        found = [await store.memory.get_thread_by_id(name) for name in "abc"]

    for thread in found:
        assert thread is not None
        assert {"k1", "k2", "k3"} <= set(thread.metadata or {})


async def test_what_a_broken_network_left_open_is_ended_once_it_is_back(url: str) -> None:
    """Its transaction can't be given up then; nobody waits for the server to do that."""
    parts = urlsplit(url)
    async with (
        open_network(parts.hostname or "", parts.port or 27017) as network,
        MongoStorage(url) as other,
        MongoStorage(
            through_port(url, network.port), connect_timeout_ms=2_000, request_timeout_ms=3_000
        ) as store,
    ):
        await other.memory.save_thread(THREAD)
        threads = store._host.collection("mastra_threads")

        async def body(session: Any) -> None:
            await threads.update_one({"id": "t"}, {"$set": {"title": "half"}}, session=session)
            network.cut()
            await threads.update_one({"id": "t"}, {"$set": {"title": "whole"}}, session=session)

        with pytest.raises(pymongo.errors.ConnectionFailure):
            await store._host.pool.transact(body, once=True)
        await network.heal()

        async with asyncio.timeout(30):
            await other.memory.update_thread("t", title="other")
        found = await other.memory.get_thread_by_id("t")

    assert found is not None
    assert "other" == found.title
