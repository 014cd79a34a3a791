"""A replica takes over without having heard of the last grant (pubsub_and_lease.md 6.4, 8.2)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from redis.asyncio import Redis

from mastra_conformance import case
from mastra_conformance.faults.proxy import open_network
from mastra_conformance.outcomes import not_run
from mastra_conformance.servers import (
    Missing,
    RunningServer,
    find_server,
    product_named,
    start_server,
)
from mastra_core.bus.held_lease import HeldLease
from mastra_core.errors import FencedOutError
from mastra_core.wire.events import Event
from mastra_redis import RedisLease, RedisPubSub

pytestmark = pytest.mark.anyio

_TTL_MS: Final = 4_000
_LONG_MS: Final = 60_000
_DEADLINE_S: Final = 30.0
_PAUSE_S: Final = 0.02
#: What a loaded machine may need to notice that its time is over.
_SLACK_S: Final = 2.0


@pytest.fixture
def pair() -> Iterator[tuple[RunningServer, RunningServer]]:
    """Two servers of the test alone."""
    product = product_named("redis")
    found = find_server(product, environ={"PATH": os.environ.get("PATH", "")})
    if isinstance(found, Missing):
        not_run(found.reason, command=found.command)
    with ExitStack() as stack:
        # A replica is served as soon as it asks.
        arguments = ("--repl-diskless-sync-delay", "0")
        one, other = (
            stack.enter_context(start_server(product, found, arguments=arguments)) for _ in range(2)
        )
        yield one, other


def event(data: str) -> Event:
    return Event(type="test", run_id="r", data=data)


@case("pubsub_and_lease", 115)
async def test_a_replica_that_missed_the_last_grant_takes_over(
    pair: tuple[RunningServer, RunningServer],
) -> None:
    """Two owners, for the ttl at most; their fences differ, and only the larger one writes."""
    primary, replica = pair
    assert primary.port is not None
    async with (
        open_network("127.0.0.1", primary.port) as network,
        Redis.from_url(replica.url) as standby,
        RedisLease(primary.url) as mine,
        RedisLease(replica.url) as theirs,
        RedisPubSub(replica.url) as resource,
    ):
        await standby.execute_command("REPLICAOF", "127.0.0.1", network.port)  # type: ignore[no-untyped-call]
        earlier = await mine.acquire_lease("k", "earlier", _LONG_MS)
        await mine.release_lease("k", "earlier")
        await _until_replicated(standby, "{mastra:topic:lease:k}:fence", str(earlier.fence))

        network.cut()
        held = HeldLease(mine, "k", "a", _TTL_MS)
        lost = await held.acquire()
        await asyncio.to_thread(primary.kill)
        failed_at = time.monotonic()
        await standby.execute_command("REPLICAOF", "NO", "ONE")  # type: ignore[no-untyped-call]
        assert lost.fence is not None

        grant = await theirs.acquire_lease("k", "b", _LONG_MS)
        believed_in_both = grant.acquired and not held.is_lost
        assert grant.fence is not None
        await resource.publish("t", event("b"), fence=("k", grant.fence))
        with pytest.raises(FencedOutError):
            await resource.publish("t", event("a"), fence=("k", lost.fence))

        async with asyncio.timeout(_DEADLINE_S):
            await held.lost()
        took = time.monotonic() - failed_at
        written = [one.data for one in await resource.get_history("t")]

    assert believed_in_both
    assert grant.fence > lost.fence > (earlier.fence or 0)
    assert took <= _TTL_MS / 1000 + _SLACK_S
    assert ["b"] == written


async def _until_replicated(standby: Redis, key: str, fence: str) -> None:
    """Wait until the replica has this fence."""
    async with asyncio.timeout(_DEADLINE_S):
        while True:
            if await standby.hget(key, "seq") == fence.encode():
                return
            await asyncio.sleep(_PAUSE_S)
