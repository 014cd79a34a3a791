"""Finding input that nobody answers, and threads that nobody has any more (signals.md G1, G12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from mastra_core.base.ids import UuidIds
from mastra_core.contracts.lease import LeaseEvent
from mastra_core.inmemory.lease import InMemoryLease
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.messages.signals import create_signal
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.threads.inbox import InboxEntry, ThreadInbox
from mastra_core.threads.reach import Backends, ThreadReach

__all__ = ()

pytestmark = pytest.mark.anyio

KEY = "r\0t"
BUSY = "r\0busy"
TTL_MS = 15_000


class LateWatch(InMemoryLease):
    """Leases that are let go at the moment when somebody begins to watch them."""

    async def _let_go(self, key: str) -> AsyncIterator[LeaseEvent]:
        await self.release_lease(key, "somebody")
        async for event in super().watch_lease(key):
            yield event

    def watch_lease(self, key: str) -> AsyncIterator[LeaseEvent]:
        return self._let_go(key)


class Threads:
    """A runtime on whose threads nothing happens; notes what it is to answer."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    def is_busy(self, key: str) -> bool:
        return False

    def start_orphans(self, key: str, entries: Sequence[InboxEntry]) -> None:
        self.started += [entry.signal.id for entry in entries]


@pytest.fixture
async def store(clock: FakeClock) -> AsyncIterator[InMemoryStorage]:
    async with InMemoryStorage(None, AdapterContext(clock=clock)) as opened:
        yield opened


@pytest.fixture
def inbox(store: InMemoryStorage, clock: FakeClock) -> ThreadInbox:
    return ThreadInbox(store.thread_state, clock=clock, source_id="us")


@pytest.fixture
def threads() -> Threads:
    return Threads()


@pytest.fixture
async def reach(
    threads: Threads, inbox: ThreadInbox, clock: FakeClock
) -> AsyncIterator[ThreadReach]:
    async with LateWatch(None, AdapterContext(clock=clock)) as lease:
        await lease.acquire_lease(BUSY, "somebody", 60_000)
        backends = Backends(
            source_id="us", clock=clock, pubsub=None, lease=lease, inbox=inbox, ttl_ms=TTL_MS
        )
        reach = ThreadReach(threads, backends)
        yield reach
        await reach.aclose()


def entry(clock: FakeClock, name: str, *, age_s: float = 0) -> InboxEntry:
    accepted = clock.now() - timedelta(seconds=age_s)
    value = {"type": "user", "contents": name, "id": name}
    signal = create_signal(value, clock=clock, ids=UuidIds(), accepted_at=accepted)
    return InboxEntry(signal=signal, agent_id="a")


async def test_what_was_just_sent_is_left_to_its_sender(
    reach: ThreadReach, inbox: ThreadInbox, threads: Threads, clock: FakeClock
) -> None:
    """It asks for the thread at this moment; others answer if it doesn't get it."""
    await inbox.put(KEY, entry(clock, "new"))

    reach.start()
    await clock.advance(1)
    assert [] == threads.started
    await clock.advance(3)

    assert ["new"] == threads.started


@pytest.mark.parametrize("age_s", [60, -60])
async def test_what_waits_is_answered_at_once(
    reach: ThreadReach, inbox: ThreadInbox, threads: Threads, clock: FakeClock, age_s: float
) -> None:
    """Also what the clock of its sender says comes from the future."""
    await inbox.put(KEY, entry(clock, "old", age_s=age_s))

    reach.start()
    await clock.advance(1)

    assert ["old"] == threads.started


async def test_a_thread_that_is_let_go_as_we_begin_to_wait_is_found(
    reach: ThreadReach, clock: FakeClock
) -> None:
    """Nobody tells us of what came before we listened, so we look."""
    waiting = asyncio.ensure_future(reach.wait_until_free(BUSY))

    await clock.advance(1.1)

    assert waiting.done()
    assert await reach.owner(BUSY) is None
