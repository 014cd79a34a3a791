"""What the tests of the MongoDB adapter share: databases of their own, and a look behind."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from bson import CodecOptions, json_util
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from mastra_core.plugins.context import AdapterContext
from mastra_core.testing.ticking_clock import TickingClock
from mastra_mongodb import MongoStorage

NODE_DUMP = Path(__file__).parent / "data" / "typescript_mongodb.json"

Database = AsyncDatabase[dict[str, Any]]


def pytest_configure(config: pytest.Config) -> None:
    """
    Let the garbage collector close a socket.

    PyMongo leaves one to it if a connect is cancelled, by us or by its own closing
    (``pool_shared._async_create_connection`` closes on ``OSError`` only). What we hold open
    is looked at by the suite's leak checks.
    """
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def context(clock: TickingClock) -> AdapterContext:
    return AdapterContext(clock=clock)


@pytest.fixture
def product() -> str:
    """Which server; tests of both parametrise it."""
    return "mongodb"


@pytest.fixture
def server(product: str, local_server: Callable[[str], Any]) -> str:
    """Address of a real server."""
    address: str = local_server(product).url
    return address


@pytest.fixture
async def database(server: str) -> AsyncIterator[Database]:
    """A database that is there for the length of the test."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    async with AsyncMongoClient[dict[str, Any]](server) as client:
        options = CodecOptions[dict[str, Any]](tz_aware=True, tzinfo=UTC)
        yield client.get_database(name, codec_options=options)
        await client.drop_database(name)


@pytest.fixture
async def store(
    server: str, database: Database, context: AdapterContext
) -> AsyncIterator[MongoStorage]:
    """An open store in an empty database."""
    async with MongoStorage(server, context, database=database.name) as opened:
        yield opened


@pytest.fixture
async def node_data(database: Database) -> None:
    """Collections, indexes and documents of the TypeScript system, as it made them."""
    options = json_util.JSONOptions(tz_aware=True, tzinfo=UTC)
    dump = json_util.loads(NODE_DUMP.read_text("utf-8"), json_options=options)
    for name, collection in dump.items():
        if not collection["docs"]:
            continue
        for index_name, index in collection["indexes"].items():
            if index_name != "_id_":
                keys = [(key, int(way)) for key, way in index["key"]]
                await database[name].create_index(
                    keys, name=index_name, unique=index.get("unique", False)
                )
        await database[name].insert_many(collection["docs"])


@pytest.fixture
async def node_store(
    server: str, database: Database, node_data: None, context: AdapterContext
) -> AsyncIterator[MongoStorage]:
    """An open store on what the TypeScript system wrote."""
    async with MongoStorage(server, context, database=database.name) as opened:
        yield opened
