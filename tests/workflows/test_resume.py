"""Answers that meet each other in one instant, and clocks that disagree."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.errors import ResumeClaimedError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_core.wire.snapshots import OUTER_WORKFLOW

pytestmark = pytest.mark.anyio

T: dict[str, Any] = {"thread_id": "t", "resource_id": "r"}


def asking(ran: list[tuple[str, Any]], *call_ids: str) -> Agent:
    """An agent whose tool asks, once per call."""

    async def ask(args: Any, context: ToolContext) -> Any:
        if not context.is_resumed:
            await context.suspend({"q": context.tool_call_id})
            return None
        ran.append((context.tool_call_id, context.resume_data))
        return context.resume_data

    step = [tool_call("ask", {}, id=call_id) for call_id in call_ids]
    return Agent(
        id="a",
        model=ScriptedModel([step, [text("done")]]),
        tools=[FunctionTool(id="ask", execute=ask)],
    )


async def test_a_sibling_answered_in_the_same_instant_is_not_answered_again() -> None:
    """
    Who looked before a sibling's answer and claims after it looks again, though the clock
    shows the same millisecond: the sibling's tool runs once.
    """
    clock = FakeClock()
    looked, go_on = asyncio.Event(), asyncio.Event()
    holds_next = False

    async def hook(point: str) -> None:
        nonlocal holds_next
        if point == "workflows.claim_resume:before" and holds_next:
            holds_next = False
            looked.set()
            await go_on.wait()

    ran: list[tuple[str, Any]] = []
    agent = asking(ran, "c1", "c2")
    inner = InMemoryStorage(context=AdapterContext(clock=clock))
    async with (
        inner,
        Mastra(storage=faulty_storage(inner, hook), agents=[agent], clock=clock, ids=None),
    ):
        output = await agent.stream("go", **T)
        await output.wait()
        holds_next = True
        late = asyncio.create_task(
            agent.resume_stream("two", run_id=output.run_id, tool_call_id="c2")
        )
        async with asyncio.timeout(60):
            await looked.wait()
        first = await agent.resume_stream("one", run_id=output.run_id, tool_call_id="c1")
        assert "suspended" == await first.finish_reason
        go_on.set()
        last = await late

        assert "done" == await last.text
        assert [("c1", "one"), ("c2", "two")] == ran


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(hours=-1)])
async def test_the_clock_of_the_store_says_when_a_claim_is_over(ahead: timedelta) -> None:
    """A process whose clock is wrong is neither locked out nor let in too early."""
    ours = FakeClock()
    of_store = FakeClock(ours.now() + ahead)
    ran: list[tuple[str, Any]] = []
    agent = asking(ran, "c1")
    storage = InMemoryStorage(context=AdapterContext(clock=of_store))
    async with storage, Mastra(storage=storage, agents=[agent], clock=ours) as mastra:
        output = await agent.stream("go", **T)
        await output.wait()
        claim = mastra.snapshots.new_claim(
            claim_id="of-a-dead-process", owner="dead", target=["c1"], payload=None, digest="x"
        )
        granted = await storage.workflows.claim_resume(
            workflow_name=OUTER_WORKFLOW, run_id=output.run_id, claim=claim
        )
        assert granted.acquired

        with pytest.raises(ResumeClaimedError):
            await agent.resume_stream("early", run_id=output.run_id)
        await of_store.advance(61)
        answering = asyncio.create_task(agent.resume_stream("late", run_id=output.run_id))
        await ours.advance(1)

        assert "done" == await (await answering).text
        assert [("c1", "late")] == ran
