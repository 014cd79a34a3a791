"""Agents of one application with scripted models, whose runs wait where a test says."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mastra_core.agent.agent import Agent
from mastra_core.mastra import Mastra
from mastra_core.testing.scripted_model import Gates, ScriptedModel

__all__ = ("ThreadScene", "waiting")

_ROUNDS: Final = 5
_DEADLINE: Final = 10.0


def waiting(gate: str, words: str = "Busy") -> list[dict[str, Any]]:
    """A model call that says something and then waits at a gate."""
    return [
        {"type": "text", "text": words, "open": True},
        {"type": "gate", "name": gate},
        {"type": "text", "text": " still", "cont": True},
    ]


class ThreadScene:
    """Agents of one application, their models and gates."""

    def __init__(self, mastra: Mastra) -> None:
        self.mastra = mastra
        self.gates = Gates()
        self.models: dict[str, ScriptedModel] = {}

    def agent(self, *calls: Any, agent_id: str = "a", **options: Any) -> Agent:
        """Add an agent with this script."""
        model = ScriptedModel(calls, gates=self.gates)
        self.models[agent_id] = model
        agent = Agent(id=agent_id, model=model, **options)
        self.mastra.add_agent(agent)
        return agent

    async def reached(self, gate: str) -> None:
        """
        Wait until a run stands at a gate.

        Raises:
            TimeoutError: None came.
        """
        async with asyncio.timeout(_DEADLINE):
            await self.gates.reached(gate)

    async def idle(self) -> None:
        """Wait until nothing runs any more."""
        for _ in range(_ROUNDS):
            await self.mastra.threads.tasks.join()
            await self.mastra.runs.join()

    def prompt(self, number: int, agent_id: str = "a") -> str:
        """What the model was shown in one call, as text."""
        return str(self.models[agent_id].requests[number].prompt)

    async def rows(self, thread_id: str = "t") -> list[Any]:
        """The stored messages of a thread."""
        return (await self.mastra.storage.memory.list_messages(thread_id)).messages

    async def answers(self, thread_id: str = "t") -> list[str]:
        """The texts of the stored answers, in order."""
        return [
            "".join(part.get("text", "") for part in row.content["parts"])
            for row in await self.rows(thread_id)
            if row.role == "assistant"
        ]
