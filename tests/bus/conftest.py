"""What the tests of the event engine share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mastra_core.inmemory.pubsub import InMemoryPubSub, InMemoryPubSubSettings
from mastra_core.plugins import AdapterContext
from mastra_core.testing.fake_clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """Time by hand."""
    return FakeClock()


@pytest.fixture
async def bus(clock: FakeClock) -> AsyncIterator[InMemoryPubSub]:
    """A bus in memory on that clock, with an exact backoff of 100, 200, 400 ms …"""
    settings = InMemoryPubSubSettings(drain_timeout_ms=0)
    async with InMemoryPubSub(settings, AdapterContext(clock=clock)) as opened:
        yield opened
