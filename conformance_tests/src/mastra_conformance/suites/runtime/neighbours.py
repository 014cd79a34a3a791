"""Applications that share a store, a bus and leases, as processes of one deployment do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from mastra_conformance.opening import Opener
from mastra_core import Agent, Mastra
from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.lease import LeaseProvider
from mastra_core.testing.scripted_model import Gates, Script, ScriptedModel
from mastra_core.threads.subscription import ThreadSubscription
from mastra_core.wire.messages import Message

__all__ = (
    "AGENT",
    "KEY",
    "PATIENCE_S",
    "TARGET",
    "TTL_MS",
    "Neighbour",
    "SkewedClock",
    "neighbour",
    "reads",
    "until",
)

AGENT: Final = "helper"
TARGET: Final[dict[str, Any]] = {"thread_id": "thread_1", "resource_id": "user_1"}
KEY: Final = "user_1\0thread_1"
#: Short, so that a dead owner is noticed within a test.
TTL_MS: Final = 3_000
#: What a loaded machine may take for something that takes no time.
PATIENCE_S: Final = 60.0


class SkewedClock(SystemClock):
    """The time of a machine whose wall clock is wrong."""

    def __init__(self, *, hours: float) -> None:
        self._wrong = timedelta(hours=hours)

    def now(self) -> datetime:
        """The wrong time."""
        return super().now() + self._wrong

    def now_ms(self) -> int:
        """The wrong time."""
        return super().now_ms() + round(self._wrong.total_seconds() * 1000)


@dataclass(slots=True, kw_only=True)
class Neighbour:
    """One process of the deployment, with the one agent that all of them have."""

    mastra: Mastra
    agent: Agent
    model: ScriptedModel
    gates: Gates = field(default_factory=Gates)

    async def send(self, contents: str, **target: Any) -> Any:
        """Send what a user wrote and wait until it is accepted."""
        return await self.agent.send_message(contents, **{**TARGET, **target}).accepted

    async def rows(self) -> list[Message]:
        """The messages of the thread."""
        page = await self.mastra.storage.memory.list_messages(TARGET["thread_id"], per_page=False)
        return list(page.messages)

    async def texts(self) -> list[str]:
        """Their texts, one per message; an answer has its words in one."""
        return [_text(row) for row in await self.rows()]

    async def answered(self, *contents: str) -> None:
        """Wait until each of these stands in the thread and an answer follows."""

        async def is_answered() -> bool:
            rows = await self.rows()
            texts = [_text(row) for row in rows]
            is_last = bool(rows) and rows[-1].role == "assistant"
            return is_last and all(one in texts for one in contents)

        await until(is_answered)

    async def is_free(self) -> None:
        """Wait until no process has the thread."""

        async def nobody() -> bool:
            return await self.mastra.lease.get_lease_owner(KEY) is None

        await until(nobody)

    async def waiting(self) -> list[str]:
        """Ids of the signals that are accepted and not answered."""
        outside = self.mastra.threads.outside
        assert outside is not None
        return [entry.signal.id for entry in await outside.reach.waiting(KEY)]


@asynccontextmanager
async def neighbour(
    opener: Opener,
    calls: Sequence[Script] = (),
    *,
    lease: Callable[[LeaseProvider], LeaseProvider] | None = None,
    ttl_ms: int = TTL_MS,
    clock: Clock | None = None,
    **threads: Any,
) -> AsyncIterator[Neighbour]:
    """
    Open one more application in the place of a test.

    Args:
        opener: Opens handles of its own, as a process has them.
        calls: What its model says.
        lease: Wraps its leases.
        ttl_ms: How long a thread of a dead process isn't free.
        clock: The time of this process.
        threads: Further settings of its threads.
    """
    gates = Gates()
    model = ScriptedModel(calls, gates=gates)
    agent = Agent(id=AGENT, model=model, memory=True)
    async with (
        opener.storage() as store,
        opener.pubsub() as bus,
        opener.lease() as provider,
        Mastra(
            storage=store,
            pubsub=bus,
            lease=provider if lease is None else lease(provider),
            agents=[agent],
            notifications={"enabled": False},
            threads={"lease_ttl_ms": ttl_ms, **threads},
            clock=clock or SystemClock(),
            ids=UuidIds(),
        ) as mastra,
    ):
        yield Neighbour(mastra=mastra, agent=agent, model=model, gates=gates)


@asynccontextmanager
async def reads(where: Neighbour, **options: Any) -> AsyncIterator[list[dict[str, Any]]]:
    """Follow the thread in the background: the chunks so far."""
    seen: list[dict[str, Any]] = []
    subscription = await where.agent.subscribe_to_thread(**TARGET, **options)

    async def follow(subscription: ThreadSubscription) -> None:
        async for chunk in subscription.stream:
            seen.append(chunk)  # noqa: PERF401 – the list is read while it grows

    task = asyncio.create_task(follow(subscription))
    try:
        yield seen
    finally:
        subscription.unsubscribe()
        await task


def _text(row: Message) -> str:
    return "".join(str(part.get("text", "")) for part in row.content["parts"])


async def until(condition: Callable[[], Awaitable[bool] | bool]) -> None:
    """Wait for a condition, looking again and again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = condition()
            if isinstance(answer, bool):
                is_true = answer
            else:
                is_true = await answer
            if is_true:
                return
            await asyncio.sleep(0.02)
