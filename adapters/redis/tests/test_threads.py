"""What shared threads leave in Redis (signals.md 17.7)."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from mastra_conformance import case
from mastra_core import Agent, Mastra
from mastra_core.base.ids import UuidIds
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_core.threads.thread_key import thread_topic

__all__ = ()

pytestmark = pytest.mark.anyio


def application(url: str) -> Mastra:
    agent = Agent(id="helper", model=ScriptedModel([[text("done")]]), memory=True)
    return Mastra(storage=url, pubsub=url, agents=[agent])


@case("signals", 133)
async def test_no_group_of_a_thread_has_anything_pending(url: str, client: Redis) -> None:
    """Everything was consumed or passed over, and nobody left a group behind."""
    thread = {"thread_id": UuidIds().new("thread"), "resource_id": "r"}
    stream = f"mastra:topic:{thread_topic('r', thread['thread_id'])}"
    async with application(url) as one, application(url) as two:
        mine, theirs = one.get_agent("helper"), two.get_agent("helper")
        reader = await theirs.subscribe_to_thread(**thread)
        accepted = await mine.send_message("please", **thread).accepted
        types = []
        async with asyncio.timeout(60):
            async for chunk in reader.stream:
                types.append(chunk["type"])
                if chunk["type"] == "finish":
                    break
        await accepted.output.wait()
        length = await client.xlen(stream)
        groups = await client.xinfo_groups(stream)

    assert "finish" in types
    assert length >= len(types)
    assert [0] * len(groups) == [group["pending"] for group in groups]
    assert [] == await client.xinfo_groups(stream)
