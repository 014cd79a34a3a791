"""What the tests of the Redis adapter share: a real server, keys of one's own, a look behind."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
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
from mastra_redis import RedisStorage


class Ticking:
    """A clock that goes on by one millisecond with every look; tests may also move it."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self._now += timedelta(milliseconds=1)
        return self._now

    def now_ms(self) -> int:
        return round(self.now().timestamp() * 1000)

    def monotonic(self) -> float:
        return self._now.timestamp()

    def advance(self, **by: float) -> None:
        self._now += timedelta(**by)

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds=seconds)


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
def clock() -> Ticking:
    return Ticking()


@pytest.fixture
def context(clock: Ticking, namespace: str) -> AdapterContext:
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
