"""What the tests of the shared SQL parts need: one dialect to build statements with."""

from __future__ import annotations

import pytest

from mastra_libsql.dialect import SqliteDialect
from mastra_sql.tables import Tables, build_tables


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def dialect() -> SqliteDialect:
    """SQLite stands for all of them; what it says itself is tested in its own package."""
    return SqliteDialect(has_own_clock=False)


@pytest.fixture
def tables() -> Tables:
    return build_tables()
