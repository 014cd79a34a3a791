"""What the tests of the processors share: agents on memory of this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mastra_core import Agent, Mastra
from mastra_core.testing.scripted_model import ScriptedModel

MakeAgent = Callable[..., Agent]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def make_agent() -> AsyncIterator[MakeAgent]:
    """Make agents that answer from a script; they are closed after the test."""
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


@pytest.fixture
async def application() -> AsyncIterator[Callable[..., Any]]:
    """Open an application with these agents; it is closed after the test."""
    opened: list[Mastra] = []

    async def open_with(*agents: Agent, **options: Any) -> Mastra:
        mastra = Mastra(agents=agents, **options)
        await mastra.open()
        opened.append(mastra)
        return mastra

    yield open_with
    for mastra in opened:
        await mastra.aclose()


@pytest.fixture
def prompt_of() -> Callable[..., str]:
    """``role:text`` of what a model was asked, system messages left out."""

    def read(agent: Agent, request: int = -1) -> str:
        model = agent.resolve_models(None)[0]
        assert isinstance(model, ScriptedModel)
        return " ".join(
            f"{turn['role']}:{_text(turn)}"
            for turn in model.requests[request].prompt
            if turn["role"] != "system"
        )

    return read


def _text(turn: Any) -> str:
    shown = []
    for part in turn["content"]:
        match part["type"]:
            case "text":
                shown.append(part["text"])
            case "tool-call":
                shown.append(f"<{part['toolName']}>")
            case "tool-result":
                shown.append(f"[{part['output']['value']}]")
            case _:
                shown.append(f"({part['type']})")
    return "".join(shown)
