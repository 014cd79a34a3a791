"""The server cache of numbered events, shared with the TypeScript system (pubsub_and_lease.md 9.4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from mastra_conformance import case
from mastra_conformance.node import NodePeer, find_node, node_peer
from mastra_conformance.outcomes import not_run
from mastra_conformance.servers import Missing
from mastra_core.bus import CachingPubSub
from mastra_core.wire.events import Event
from mastra_redis import RedisCache, RedisPubSub

pytestmark = pytest.mark.anyio


@pytest.fixture
async def node(url: str) -> AsyncIterator[NodePeer]:
    """A Node process with the runtime's own caching bus on our server."""
    found = find_node()
    if isinstance(found, Missing):
        not_run(found.reason, command=found.command)
    async with node_peer(found) as peer:
        await peer.do("bus", bus="inner", url=url, blockMs=50)
        await peer.do("caching-bus", bus="bus", around="inner", url=url)
        yield peer


@case("pubsub_and_lease", 127)
async def test_both_number_one_topic(url: str, node: NodePeer) -> None:
    """Published by turns, the events have one dense sequence, and both replay the same."""
    topic = f"interop.{uuid4()}"
    async with CachingPubSub(RedisPubSub(url), RedisCache(url)) as bus:
        for number in range(0, 20, 2):
            await bus.publish(topic, Event(type="test", run_id="r", data={"n": number}))
            event = {"type": "test", "runId": "r", "data": {"n": number + 1}}
            await node.bus("bus", "publish", topic, event)

        ours: list[Event] = await bus.get_history(topic)
        theirs: list[dict[str, Any]] = await node.bus("bus", "getHistory", topic, 0)
        await bus.clear_topic(topic)

    expected = [(number, {"n": number}) for number in range(20)]
    assert expected == [(event.index, event.data) for event in ours]
    assert expected == [(event["index"], event["data"]) for event in theirs]
