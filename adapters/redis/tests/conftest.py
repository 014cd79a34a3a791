"""What the tests of the Redis adapter share: a real server, keys of one's own, a look behind."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from mastra_conformance.outcomes import not_run
from mastra_conformance.servers import (
    Missing,
    RunningServer,
    find_server,
    product_named,
    start_server,
)
from mastra_core.plugins.context import AdapterContext
from mastra_core.testing.ticking_clock import TickingClock
from mastra_redis import RedisStorage


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def url(local_server: Callable[[str], Any]) -> str:
    """A server with an append-only file."""
    address: str = local_server("redis").url
    return address


@pytest.fixture
def own_server() -> Iterator[RunningServer]:
    """A server of the test alone, which it may spoil."""
    product = product_named("redis")
    found = find_server(product, environ={"PATH": os.environ.get("PATH", "")})
    if isinstance(found, Missing):
        not_run(found.reason)
    with start_server(product, found) as server:
        yield server


@pytest.fixture
def namespace() -> str:
    """Before all keys of one test."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def context(clock: TickingClock, namespace: str) -> AdapterContext:
    return AdapterContext(clock=clock, namespace=namespace)


@pytest.fixture
async def store(url: str, context: AdapterContext) -> AsyncIterator[RedisStorage]:
    """An open store with keys of its own."""
    async with RedisStorage(url, context) as opened:
        yield opened
        await opened.dangerously_clear_all()


@pytest.fixture
async def client(url: str) -> AsyncIterator[Redis]:
    """Somebody else at the same server."""
    async with Redis.from_url(url) as opened:
        yield opened


@pytest.fixture
def executed(store: RedisStorage) -> list[tuple[Any, ...]]:
    """Every command that the store sends from now on."""
    seen: list[tuple[Any, ...]] = []
    store.observe(seen.append)
    return seen
