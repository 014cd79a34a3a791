"""Which rows somebody who looks back is shown (signals.md 4.4)."""

from __future__ import annotations

from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra
from mastra_core.testing.scripted_model import ScriptedModel, text

__all__ = ()

pytestmark = pytest.mark.anyio

T: dict[str, Any] = {"thread_id": "t", "resource_id": "r"}


@case("signals", 30)
async def test_reminders_are_hidden_unless_one_asks_for_them() -> None:
    """False shows all, a list hides those that it names and nothing else."""
    agent = Agent(id="a", model=ScriptedModel([[text("ok")]]))
    store: dict[str, Any] = {"if_idle": {"behavior": "persist"}}
    async with Mastra(storage="memory:", agents=[agent]):
        await (await agent.stream("hi", **T)).wait()
        sent = agent.send_signal({"type": "reactive", "contents": "mind"}, **T, **store)
        assert sent.persisted is not None
        await sent.persisted
        state = {"id": "lane", "cache_key": "k", "contents": "open"}
        told = await agent.send_state_signal(state, **T, **store)
        assert told.persisted is not None
        await told.persisted
        assert agent.memory is not None

        async def shown(**options: Any) -> set[str]:
            assert agent.memory is not None
            rows = await agent.memory.recall("t", "r", **options)
            return {row.content["parts"][0]["text"] for row in rows}

        default = await shown()
        everything = await shown(hide_signals=False)
        no_states = await shown(hide_signals=["state"])
        nothing = await shown(hide_signals=True)

    assert {"hi", "ok", "open"} == default
    assert {"hi", "ok", "mind", "open"} == everything
    assert {"hi", "ok", "mind"} == no_states
    assert {"hi", "ok"} == nothing
