"""Agents that share one application in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mastra_core import Mastra
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.thread_scene import ThreadScene


@pytest.fixture
def clock() -> FakeClock:
    """Time that passes only when a test says so."""
    return FakeClock()


@pytest.fixture
async def mastra() -> AsyncIterator[Mastra]:
    """An open application without agents."""
    async with Mastra(storage="memory:") as opened:
        yield opened


@pytest.fixture
def scene(mastra: Mastra) -> ThreadScene:
    """A place for agents of that application."""
    return ThreadScene(mastra)
