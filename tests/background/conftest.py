"""Applications with background tasks, on a store and a bus that several may share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mastra_core import Agent, Mastra
from mastra_core.config import Settings
from mastra_core.inmemory.lease import InMemoryLease
from mastra_core.inmemory.pubsub import InMemoryPubSub
from mastra_core.inmemory.storage import InMemoryStorage

__all__ = ("Shared", "open_app", "shared")


class Shared:
    """What the applications of one test have in common."""

    def __init__(self) -> None:
        self.storage = InMemoryStorage()
        self.pubsub = InMemoryPubSub()
        self.lease = InMemoryLease()


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    """A store, a bus and leases that stay open between applications."""
    parts = Shared()
    async with parts.storage, parts.pubsub, parts.lease:
        yield parts


@pytest.fixture
async def open_app(shared: Shared) -> AsyncIterator[Callable[..., Any]]:
    """Open applications on what is shared; they are closed after the test."""
    async with AsyncExitStack() as stack:

        async def open_one(*agents: Agent, **options: Any) -> Mastra:
            tasks = {"shutdown_grace_ms": 0, **options.pop("background_tasks", {})}
            app = Mastra(
                storage=shared.storage,
                pubsub=shared.pubsub,
                lease=shared.lease,
                agents=list(agents),
                settings=Settings(),
                notifications={"enabled": False},
                background_tasks=tasks,
                **options,
            )
            return await stack.enter_async_context(app)

        yield open_one
