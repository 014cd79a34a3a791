"""Agents without an application, on memory of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mastra_core import Agent
from mastra_core.testing.scripted_model import ScriptedModel

__all__ = ("make_agent",)

MakeAgent = Callable[..., Agent]


@pytest.fixture
async def make_agent() -> AsyncIterator[MakeAgent]:
    """Make agents that are closed after the test."""
    made: list[Agent] = []

    def make(*calls: Any, **options: Any) -> Agent:
        options.setdefault("id", "helper")
        options.setdefault("model", ScriptedModel(calls))
        agent = Agent(**options)
        made.append(agent)
        return agent

    yield make
    for agent in made:
        await agent.aclose()
