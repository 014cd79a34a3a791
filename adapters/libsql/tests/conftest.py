"""What the tests of the libSQL adapter share: stores in files, and a look behind them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from mastra_core.plugins.context import AdapterContext
from mastra_core.testing.ticking_clock import TickingClock
from mastra_libsql import LibSQLStorage
from mastra_sql.executor import Executed

NODE_DATABASE = Path(__file__).parent / "data" / "typescript_libsql.db"

Query = Callable[..., list[tuple[Any, ...]]]


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
def path(tmp_path: Path) -> Path:
    """Where the database of the test is, or will be."""
    return tmp_path / "app.db"


@pytest.fixture
def node_path(path: Path) -> Path:
    """A copy of the database that the TypeScript system wrote."""
    shutil.copyfile(NODE_DATABASE, path)
    return path


@pytest.fixture
async def store(path: Path, context: AdapterContext) -> AsyncIterator[LibSQLStorage]:
    """An open store in an empty file."""
    async with LibSQLStorage(f"file:{path}", context) as opened:
        yield opened


@pytest.fixture
async def node_store(node_path: Path, context: AdapterContext) -> AsyncIterator[LibSQLStorage]:
    """An open store on a copy of Node's database."""
    async with LibSQLStorage(f"file:{node_path}", context) as opened:
        yield opened


@pytest.fixture
def query(path: Path) -> Iterator[Query]:
    """Run SQL on the file of the test with a connection of its own."""
    opened: list[apsw.Connection] = []

    def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        if not opened:
            opened.append(apsw.Connection(str(path)))
            opened[0].set_busy_timeout(5000)
        return opened[0].execute(sql, values).fetchall()

    yield run
    for connection in opened:
        connection.close()


@pytest.fixture
def executed(store: LibSQLStorage) -> list[Executed]:
    """Every statement that the store runs from now on."""
    seen: list[Executed] = []
    store.observe(seen.append)
    return seen
