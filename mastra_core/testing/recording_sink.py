"""A place for signals that notes what it got; for tests of rooms that only send."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.signal_sink import (
    Accepted,
    SendSignalResult,
    SignalTarget,
    ThreadActivity,
)
from mastra_core.errors import StorageConnectionError
from mastra_core.messages.signals import create_signal
from mastra_core.wire.signals import Signal

__all__ = ("Answer", "RecordingSink")

#: What a send comes to: an answer, an error, or something that has to be waited for.
Answer = Accepted | Exception | Awaitable[Accepted]


class RecordingSink:
    """
    Implements ``contracts.signal_sink.SignalSink`` without threads.

    Idle threads are woken, active ones get what is sent to them, and a signal whose id has a
    message row already is dropped, as a thread would do it. ``answer`` may say otherwise.

    Args:
        agent_id: Whose sink it is.
        clock: Where ``accepted_at`` comes from.
        stores_queued: Whether a woken or active run stores the signal at once, as one that
            goes on does; False leaves it in the queue.
    """

    def __init__(
        self, agent_id: str = "helper", *, clock: Clock | None = None, stores_queued: bool = True
    ) -> None:
        self.agent_id = agent_id
        self.stores_queued = stores_queued
        #: Threads on which a run is active.
        self.active: set[str] = set()
        #: Everything that was sent, repetitions too.
        self.sent: list[tuple[Signal, SignalTarget]] = []
        #: Message rows: (thread id, signal id).
        self.rows: set[tuple[str, str]] = set()
        #: Decides instead of the rules; None from it means that the rules decide.
        self.answer: Callable[[Signal, SignalTarget], Answer | None] = lambda *_: None
        #: What the call itself raises; None lets it pass.
        self.refuse: Callable[[Signal], Exception | None] = lambda _: None
        #: Threads whose messages can't be read.
        self.unreadable: set[str] = set()
        #: Without memory a persist stores nothing, and says nothing about it.
        self.has_memory = True
        self._clock = clock or SystemClock()
        self._ids = UuidIds()

    @property
    def stores_messages(self) -> bool:
        """Whether there is a memory."""
        return self.has_memory

    @property
    def signals(self) -> list[Signal]:
        """What was sent, without repetitions of an id."""
        return list({signal.id: signal for signal, _ in self.sent}.values())

    @property
    def targets(self) -> list[SignalTarget]:
        """Where it was sent."""
        return [target for _, target in self.sent]

    def thread_activity(self, *, resource_id: str, thread_id: str) -> ThreadActivity:
        """Active if the test says so."""
        return "active" if thread_id in self.active else "idle"

    def send_signal(self, signal: Mapping[str, Any], target: SignalTarget) -> SendSignalResult:
        """Note it and answer."""
        created = create_signal(
            signal, clock=self._clock, ids=self._ids, accepted_at=self._clock.now()
        )
        if (refusal := self.refuse(created)) is not None:
            raise refusal
        self.sent.append((created, target))
        answer = self.answer(created, target) or self._rule(created, target)
        loop = asyncio.get_running_loop()
        accepted = loop.create_task(self._settle(created, target, answer), name="recorded-send")
        # Nobody has to await it.
        accepted.add_done_callback(lambda task: task.cancelled() or task.exception())
        persists = self.has_memory and isinstance(answer, Accepted) and answer.action == "persist"
        return SendSignalResult(
            signal=created,
            accepted=accepted,
            persisted=self._after(accepted) if persists else None,
        )

    async def has_message(self, *, thread_id: str, message_id: str) -> bool:
        """Is there a row?"""
        if thread_id in self.unreadable:
            raise StorageConnectionError(f"Thread {thread_id!r} can't be read.")
        return (thread_id, message_id) in self.rows

    def _rule(self, signal: Signal, target: SignalTarget) -> Accepted:
        thread_id = target.thread_id or ""
        if (thread_id, signal.id) in self.rows:
            return Accepted(action="deliver")
        if thread_id in self.active:
            behavior = target.if_active.behavior
            return Accepted(action=behavior, run_id="run-active" if behavior == "deliver" else None)
        behavior_idle = target.if_idle.behavior
        return Accepted(
            action=behavior_idle, run_id="run-woken" if behavior_idle == "wake" else None
        )

    async def _settle(self, signal: Signal, target: SignalTarget, answer: Answer) -> Accepted:
        if isinstance(answer, Exception):
            raise answer
        accepted = answer if isinstance(answer, Accepted) else await answer
        is_queued = accepted.action in {"wake", "deliver"} and self.stores_queued
        if is_queued or (accepted.action == "persist" and self.has_memory):
            self.rows.add((target.thread_id or "", signal.id))
        return accepted

    def _after(self, accepted: Awaitable[Accepted]) -> Awaitable[None]:
        async def wait() -> None:
            await accepted

        return asyncio.ensure_future(wait())
