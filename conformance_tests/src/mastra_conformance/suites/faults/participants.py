"""Applications that share one thread, whose agent says what it knows and what it answers.

See ``histories.thread_checker`` for how its answers are judged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from mastra_conformance.histories.thread_checker import (
    FIRST,
    Sent,
    Told,
    answer_in,
    open_runs,
)
from mastra_conformance.opening import Opener
from mastra_core import Agent, Mastra
from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.model import ModelPart, ModelRequest
from mastra_core.errors import MastraError
from mastra_core.testing.faults import Hook, faulty_lease, faulty_pubsub, faulty_storage
from mastra_core.testing.scripted_model import Gates
from mastra_core.threads.thread_key import thread_key
from mastra_core.wire.messages import Message

__all__ = (
    "PATIENCE_S",
    "TTL_MS",
    "EchoModel",
    "Participant",
    "Places",
    "participant",
    "target",
    "until",
)

_AGENT: Final = "echo"
#: Short, so that a dead owner is noticed within a test.
TTL_MS: Final = 2_000
PATIENCE_S: Final = 40.0
"""What a loaded machine may take for what happens within a few leases."""


def target(thread: str = "thread_1") -> dict[str, Any]:
    """Where to send."""
    return {"thread_id": thread, "resource_id": "user_1"}


class EchoModel:
    """
    Answers what was said since the last answer; it stands at a gate in the middle of some.

    Args:
        name: Who answers.
        gates: Where it stands.
        stops: The numbers of the requests that stop in the middle, at the gate of that number.
    """

    provider = "mock"

    def __init__(self, name: str, *, gates: Gates, stops: frozenset[int] = frozenset()) -> None:
        self.model_id = name
        self.requests = 0
        self._gates = gates
        self._stops = stops

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """The answer, a word at a time."""
        self.requests += 1
        number = self.requests
        after, words = _heard(request)
        yield {"type": "stream-start", "warnings": []}
        yield {"type": "text-start", "id": "1"}
        yield {"type": "text-delta", "id": "1", "delta": f"{self.model_id}.{number} "}
        if number in self._stops:
            await self._gates.wait(str(number))
        yield {"type": "text-delta", "id": "1", "delta": f"after {after}:"}
        for word in words:
            yield {"type": "text-delta", "id": "1", "delta": f" {word}"}
        yield {"type": "text-end", "id": "1"}
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        yield {"type": "finish", "finishReason": "stop", "usage": usage}


def _heard(request: ModelRequest) -> tuple[str, list[str]]:
    """The last answer in a prompt, and what was said after it."""
    after, words = FIRST, list[str]()
    for turn in request.prompt:
        text = _text(turn.get("content"))
        if turn.get("role") == "assistant":
            answer = answer_in(text)
            after, words = answer.label if answer is not None else text.split()[0], []
        elif turn.get("role") == "user":
            words += text.split()
    return after, words


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where an application keeps what; parts of it may be cut off."""

    storage: Opener
    pubsub: Opener
    lease: Opener

    @classmethod
    def all_at(cls, opener: Opener) -> Places:
        """Everything in one place."""
        return cls(storage=opener, pubsub=opener, lease=opener)


@dataclass(slots=True, kw_only=True)
class Participant:
    """One application, and what it sent."""

    name: str
    mastra: Mastra
    agent: Agent
    model: EchoModel
    gates: Gates
    sent: list[Sent] = field(default_factory=list)
    _turns: int = 0

    async def send(self, word: str, *, thread: str = "thread_1") -> bool:
        """Send a word; was it accepted?"""
        result = self.agent.send_message(word, **target(thread))
        return await self._settled(word, result.accepted)

    async def queue(self, word: str, *, thread: str = "thread_1") -> bool:
        """Ask for a run of its own; was it accepted?"""
        self._turns += 1
        turn = self._turns
        result = self.agent.queue_message(word, **target(thread))
        return await self._settled(word, result.accepted, turn=turn)

    async def _settled(
        self, word: str, accepted: Awaitable[Any], *, turn: int | None = None
    ) -> bool:
        try:
            await accepted
            is_accepted = True
        except MastraError:
            is_accepted = False
        one = Sent(word=word, sender=self.name, is_accepted=is_accepted, turn=turn)
        self.sent.append(one)
        return is_accepted

    async def rows(self, *, thread: str = "thread_1") -> list[Told]:
        """What the thread holds."""
        memory = self.mastra.storage.memory
        page = await memory.list_messages(target(thread)["thread_id"], per_page=False)
        return [Told(role=row.role, text=_words(row)) for row in page.messages]

    async def answered(
        self, *words: str, thread: str = "thread_1", within_s: float = PATIENCE_S
    ) -> None:
        """Wait until each of these is answered."""

        async def is_answered() -> bool:
            given = [answer_in(row.text) for row in await self.rows(thread=thread)]
            done = {word for answer in given if answer is not None for word in answer.words}
            return set(words) <= done

        await until(is_answered, within_s=within_s, why=lambda: f"waited for answers to {words}")

    async def is_quiet(self, *, thread: str = "thread_1", within_s: float = PATIENCE_S) -> None:
        """Wait until no process has the thread and nothing waits for it."""
        key = thread_key(target(thread)["resource_id"], thread)
        outside = self.mastra.threads.outside
        assert outside is not None

        async def nobody() -> bool:
            if await outside.reach.waiting(key):
                return False
            return await self.mastra.lease.get_lease_owner(key) is None

        await until(nobody, within_s=within_s, why=lambda: f"waited for {thread} to be quiet")

    async def is_done(self) -> None:
        """Wait until nothing is kept for any thread here: no record, lease or subscription."""

        async def is_nothing() -> bool:
            return not any(self.mastra.threads.counts().values())

        await until(is_nothing, why=lambda: f"left: {self.mastra.threads.counts()}")

    @asynccontextmanager
    async def reads(self, *, thread: str = "thread_1") -> AsyncIterator[list[dict[str, Any]]]:
        """
        Follow the thread in the background: the chunks so far.

        It goes on at the end of the block until every run that was seen has ended: the thread
        is free before a bus that is asked from time to time has brought the end of its run.
        """
        seen: list[dict[str, Any]] = []
        subscription = await self.agent.subscribe_to_thread(**target(thread))

        async def follow() -> None:
            async for chunk in subscription.stream:
                seen.append(chunk)  # noqa: PERF401 – the list is read while it grows

        task = asyncio.create_task(follow())

        async def is_over() -> bool:
            return not open_runs(seen)

        try:
            yield seen
            await until(is_over, why=lambda: f"waited for the end of {open_runs(seen)}")
        finally:
            subscription.unsubscribe()
            await task


def _words(row: Message) -> str:
    return "".join(str(part.get("text", "")) for part in row.content["parts"])


@asynccontextmanager
async def participant(
    places: Opener | Places,
    name: str,
    *,
    hook: Hook | None = None,
    stops: frozenset[int] = frozenset(),
    ttl_ms: int = TTL_MS,
    settings: Mapping[str, Any] | None = None,
) -> AsyncIterator[Participant]:
    """
    Open one more application in the place of a test.

    Args:
        places: Opens handles of its own, as a process has them.
        name: Who answers.
        hook: Called at every point of its calls to the backends.
        stops: The numbers of the requests in whose middle its model stands still.
        ttl_ms: How long a thread of a dead process isn't free.
        settings: Further arguments of the application.
    """
    where = Places.all_at(places) if isinstance(places, Opener) else places
    gates = Gates()
    model = EchoModel(name, gates=gates, stops=stops)
    agent = Agent(id=_AGENT, model=model, memory=True)
    async with (
        where.storage.storage() as store,
        where.pubsub.pubsub() as bus,
        where.lease.lease() as provider,
        Mastra(
            storage=store if hook is None else faulty_storage(store, hook),
            pubsub=bus if hook is None else faulty_pubsub(bus, hook),
            lease=provider if hook is None else faulty_lease(provider, hook),
            agents=[agent],
            notifications={"enabled": False},
            threads={"lease_ttl_ms": ttl_ms},
            clock=SystemClock(),
            ids=UuidIds(),
            **(settings or {}),
        ) as mastra,
    ):
        yield Participant(name=name, mastra=mastra, agent=agent, model=model, gates=gates)


async def until(
    condition: Callable[[], Awaitable[bool]],
    *,
    within_s: float = PATIENCE_S,
    why: Callable[[], object] = str,
) -> None:
    """
    Wait for a condition, looking again and again; a store that is away says nothing.

    Raises:
        AssertionError: It didn't come true.
    """
    try:
        async with asyncio.timeout(within_s):
            while True:
                with suppress(MastraError):
                    if await condition():
                        return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"It did not come within {within_s:g} s: {why()}".strip()) from None
