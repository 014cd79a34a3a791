"""What a run reads of its thread before it begins (streaming.md 10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_core import Agent, Mastra, MemoryOptions
from mastra_core.errors import RunArgumentError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import ScriptedModel, text

pytestmark = pytest.mark.anyio

THREAD = {"thread_id": "t", "resource_id": "r"}
_QUIET = {"enabled": False}


async def test_thread_and_messages_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither waits for the other: each is a way to the store and back."""
    agent = Agent(id="a", model=ScriptedModel([[text("hi")], [text("hi again")]]))
    await (await agent.stream("hello", **THREAD)).wait()
    assert agent.memory is not None
    store = agent.memory.store
    get_thread, list_messages = store.get_thread_by_id, store.list_messages
    both = asyncio.Barrier(2)

    async def get_thread_slowly(*args: Any, **options: Any) -> Any:
        await both.wait()
        return await get_thread(*args, **options)

    async def list_messages_slowly(*args: Any, **options: Any) -> Any:
        await both.wait()
        return await list_messages(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(store, "get_thread_by_id", get_thread_slowly)
        patch.setattr(store, "list_messages", list_messages_slowly)
        async with asyncio.timeout(10):
            thread, messages = await agent.memory.open_and_remember("t", "r")

    assert "t" == thread.id
    assert ["user", "assistant"] == [message.role for message in messages]
    await agent.aclose()


async def test_of_a_foreign_thread_nothing_goes_on_being_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error comes at once, whatever else takes long, and leaves no reader behind."""
    agent = Agent(id="a", model=ScriptedModel([[text("hi")]]))
    await (await agent.stream("hello", **THREAD)).wait()
    assert agent.memory is not None
    ended = asyncio.Event()

    async def never(*args: Any, **options: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(agent.memory.store, "list_messages", never)
    # So that the reader has begun.
    get_thread = agent.memory.store.get_thread_by_id

    async def get_thread_later(*args: Any, **options: Any) -> Any:
        await asyncio.sleep(0)
        return await get_thread(*args, **options)

    monkeypatch.setattr(agent.memory.store, "get_thread_by_id", get_thread_later)
    async with asyncio.timeout(10):
        with pytest.raises(RunArgumentError):
            await agent.memory.open_and_remember("t", "somebody else")

    assert ended.is_set()
    await agent.aclose()


class _Clocks:
    """Two agents of two processes, the clock of the second one an hour behind."""

    def __init__(self, **options: Any) -> None:
        self.store = InMemoryStorage()
        self.ahead, self.behind = FakeClock(), FakeClock()
        self.behind.jump_wall(-3600)
        self.agents = [
            Agent(id="a", model=ScriptedModel([[text(words)]] * 2), memory=MemoryOptions(**options))
            for words in ("one", "two")
        ]
        self.applications = [
            Mastra(storage=self.store, agents=[agent], clock=clock, notifications=_QUIET)
            for agent, clock in zip(self.agents, (self.ahead, self.behind), strict=True)
        ]

    async def rows(self) -> list[str]:
        page = await self.store.memory.list_messages("t")
        return [row.content["parts"][-1]["text"] for row in page.messages]


@pytest.mark.parametrize("last_messages", [40, 0])
async def test_a_row_comes_after_those_before_it(last_messages: int) -> None:
    """Whatever the clock says, also if nobody looks at those before it."""
    scene = _Clocks(last_messages=last_messages)
    async with scene.store, scene.applications[0], scene.applications[1]:
        for agent, words in zip(scene.agents, ("first", "second"), strict=True):
            await (await agent.stream(words, **THREAD)).wait()
        rows = await scene.rows()

    assert ["first", "one", "second", "two"] == rows


async def test_a_signal_that_is_only_stored_comes_after_those_before_it() -> None:
    """A run that remembers the newest messages sees it, then."""
    scene = _Clocks()
    async with scene.store, scene.applications[0], scene.applications[1]:
        await (await scene.agents[0].stream("first", **THREAD)).wait()
        stored = scene.agents[1].send_message("noted", **THREAD, if_idle={"behavior": "persist"})
        assert stored.persisted is not None
        await stored.persisted
        rows = await scene.rows()

    assert ["first", "one", "noted"] == rows
