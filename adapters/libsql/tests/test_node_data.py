"""A database that Node wrote: its thread, its inbox and its suspended run go on here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mastra_conformance.wire.node_suite import NodeDataSuite
from mastra_core.plugins.context import AdapterContext
from mastra_libsql import LibSQLStorage

__all__ = ("TestNodeDatabase",)


class TestNodeDatabase(NodeDataSuite):
    """A copy of the file as it is, instead of rows that we wrote."""

    adapter = "file::memory:"

    @pytest.fixture
    async def node_store(
        self, node_path: Path, context: AdapterContext
    ) -> AsyncIterator[LibSQLStorage]:
        """An open store on a copy of Node's database."""
        async with LibSQLStorage(f"file:{node_path}", context) as opened:
            yield opened
