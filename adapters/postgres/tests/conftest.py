"""What the tests of the PostgreSQL adapter share: databases of their own, and a look behind."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mastra_core.plugins.context import AdapterContext
from mastra_core.testing.ticking_clock import TickingClock
from mastra_postgres import PostgresStorage
from mastra_sql.executor import Executed

NODE_DUMP = Path(__file__).parent / "data" / "typescript_postgres.sql"

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


# -- databases --------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def server(local_server: Callable[[str], Any]) -> str:
    """Address of a real server, of its database ``postgres``."""
    url: str = local_server("postgres").url
    return url


def address_of(server: str, database: str) -> str:
    """The address of another database of the server."""
    base, _, query = server.partition("?")
    return f"{base.rpartition('/')[0]}/{database}{'?' if query else ''}{query}"


@contextmanager
def database(server: str, *, template: str = "template1") -> Iterator[str]:
    """A database that is there for the length of the block."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())
        try:
            yield name
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """The empty database of the test."""
    with database(server) as name:
        yield address_of(server, name)


@pytest.fixture(scope="session")
def node_template(server: str) -> Iterator[str]:
    """A database that the TypeScript system wrote, to be copied."""
    with database(server) as name:
        with psycopg.connect(address_of(server, name), autocommit=True) as connection:
            _restore(connection, NODE_DUMP.read_text("utf-8"))
        yield name


@pytest.fixture
def node_url(server: str, node_template: str) -> Iterator[str]:
    """A copy of the TypeScript system's database."""
    with database(server, template=node_template) as name:
        yield address_of(server, name)


def _restore(connection: psycopg.Connection[Any], dump: str) -> None:
    """Run a plain dump: statements, and the data between them."""
    statements: list[str] = []
    lines = iter(dump.splitlines())
    for line in lines:
        if line.startswith("COPY "):
            connection.execute("\n".join(statements).encode())
            statements = []
            with connection.cursor() as cursor, cursor.copy(line.encode()) as copy:
                for row in iter(lines.__next__, "\\."):
                    copy.write(f"{row}\n")
        elif not line.startswith("\\"):
            statements.append(line)
    connection.execute("\n".join(statements).encode())


# -- stores -----------------------------------------------------------------------------------


@pytest.fixture
async def store(url: str, context: AdapterContext) -> AsyncIterator[PostgresStorage]:
    """An open store in an empty database."""
    async with PostgresStorage(url, context) as opened:
        yield opened


@pytest.fixture
async def node_store(node_url: str, context: AdapterContext) -> AsyncIterator[PostgresStorage]:
    """An open store on a copy of Node's database."""
    async with PostgresStorage(node_url, context) as opened:
        yield opened


@contextmanager
def querying(url: str) -> Iterator[Query]:
    """Run SQL on a database with a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:

        def run(sql: str, *values: Any) -> list[tuple[Any, ...]]:
            cursor = connection.execute(sql.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def query(url: str) -> Iterator[Query]:
    """Run SQL on the database of the test."""
    with querying(url) as run:
        yield run


@pytest.fixture
def node_query(node_url: str) -> Iterator[Query]:
    """Run SQL on the copy of Node's database."""
    with querying(node_url) as run:
        yield run


@pytest.fixture
def executed(store: PostgresStorage) -> list[Executed]:
    """Every statement that the store runs from now on."""
    seen: list[Executed] = []
    store.observe(seen.append)
    return seen
