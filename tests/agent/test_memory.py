"""What a run reads of its thread before it begins (streaming.md 10)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_core import Agent
from mastra_core.errors import RunArgumentError
from mastra_core.testing.scripted_model import ScriptedModel, text

pytestmark = pytest.mark.anyio

THREAD = {"thread_id": "t", "resource_id": "r"}


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
