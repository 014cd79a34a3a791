"""Titles of threads: when they are made, told and left alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mastra_core import Agent, Mastra, MemoryOptions
from mastra_core.agent.titles import TitleOptions
from mastra_core.config import Settings
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.scripted_model import ScriptedModel, text

pytestmark = pytest.mark.anyio

SCOPE = {"thread_id": "t", "resource_id": "r"}


@asynccontextmanager
async def app(agent: Agent) -> AsyncIterator[Mastra]:
    async with Mastra(
        storage=InMemoryStorage(),
        lease="memory:",
        agents=[agent],
        settings=Settings(),
        notifications={"enabled": False},
    ) as mastra:
        yield mastra


async def title_of(mastra: Mastra) -> str:
    thread = await mastra.storage.memory.get_thread_by_id("t")
    assert thread is not None
    return thread.title or ""


def titled(*says: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    titler = ScriptedModel(says)
    memory = MemoryOptions(generate_title=TitleOptions(model=titler, **options))
    return Agent(id="helper", model=ScriptedModel([[text("Hi.")]]), memory=memory), titler


async def test_a_thread_gets_a_title_after_its_first_run() -> None:
    agent, titler = titled([text('"About boats."\nand more')])
    async with app(agent) as mastra:
        output = await agent.stream("Tell me about boats", **SCOPE)
        kinds = [chunk["type"] async for chunk in output.full_stream]
        await mastra.runs.join()

        assert "About boats" == await title_of(mastra)
        assert "data-thread-title" not in kinds
        await (await agent.stream("And ships", **SCOPE)).text
        await mastra.runs.join()
    # The second run found a title.
    [request] = titler.requests
    assert "Tell me about boats" == request.prompt[-1]["content"][0]["text"]


async def test_the_end_of_the_run_waits_for_a_title_that_is_told() -> None:
    agent, _ = titled([text("Boats")], emit_event=True, instructions="Be short.")
    async with app(agent) as mastra:
        output = await agent.stream("Tell me about boats", **SCOPE)
        chunks = [chunk async for chunk in output.full_stream]

        told = {"threadId": "t", "title": "Boats"}
        assert {"type": "data-thread-title", "data": told, "transient": True} == chunks[-2]
        assert ("finish", "Boats") == (chunks[-1]["type"], await title_of(mastra))


async def test_the_runs_own_model_makes_it_by_default() -> None:
    model = ScriptedModel([[text("Hi.")], [text("Greeting")]])
    agent = Agent(id="helper", model=model, memory=MemoryOptions(generate_title=True))
    async with app(agent) as mastra:
        await (await agent.stream("Hello", **SCOPE)).text
        await mastra.runs.join()

        assert "Greeting" == await title_of(mastra)


async def test_a_title_that_came_meanwhile_stays() -> None:
    async def rename() -> None:
        await mastra.storage.memory.update_thread("t", title="Mine")

    agent, titler = titled([text("Theirs")], emit_event=True)
    async with app(agent) as mastra:
        ask = titler.stream

        async def slow(request: Any) -> AsyncIterator[Any]:
            await rename()
            async for part in ask(request):
                yield part

        titler.stream = slow  # type: ignore[method-assign] # somebody is quicker
        output = await agent.stream("Hello", **SCOPE)
        kinds = [chunk["type"] async for chunk in output.full_stream]

        assert ("Mine", 0) == (await title_of(mastra), kinds.count("data-thread-title"))


@pytest.mark.parametrize(
    "says", [[{"type": "throw", "message": "no"}], [{"type": "error"}], [text("  ")]]
)
async def test_a_run_is_good_without_a_title(says: Any) -> None:
    agent, _ = titled(says, emit_event=True)
    async with app(agent) as mastra:
        output = await agent.stream("Hello", **SCOPE)

        assert ("Hi.", "stop", "") == (
            await output.text,
            await output.finish_reason,
            await title_of(mastra),
        )
