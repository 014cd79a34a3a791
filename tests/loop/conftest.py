"""Agents on memory of this process, made for one test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from mastra_core import Agent
from mastra_core.wire.messages import Message

__all__ = ("MakeAgent", "stored")

MakeAgent = Callable[..., Agent]


@pytest.fixture
async def make_agent() -> AsyncIterator[MakeAgent]:
    """Make agents that are closed after the test."""
    made: list[Agent] = []

    def make(**options: Any) -> Agent:
        agent = Agent(id="helper", **options)
        made.append(agent)
        return agent

    yield make
    for agent in made:
        await agent.aclose()


@pytest.fixture
def stored() -> Callable[[Agent], Any]:
    """Read the rows of thread ``t``."""

    async def read(agent: Agent) -> Sequence[Message]:
        assert agent.memory is not None
        return (await agent.memory.store.list_messages("t")).messages

    return read
