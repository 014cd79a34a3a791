"""Agents that share one application in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mastra_core import Mastra


@pytest.fixture
async def mastra() -> AsyncIterator[Mastra]:
    """An open application without agents."""
    async with Mastra(storage="memory:") as opened:
        yield opened
