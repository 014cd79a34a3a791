"""Questions to all processes, answered on a topic of their own (signals.md 17.1, 18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.tasks import shielded
from mastra_core.contracts.pubsub import PubSub
from mastra_core.threads.signing import EventSigner
from mastra_core.wire.events import Event

__all__ = ("OWNER_DISCOVERY", "PEER_DISCOVERY", "Answers", "Questions", "is_past")

OWNER_DISCOVERY: Final = "agent.thread-owner-discovery"
PEER_DISCOVERY: Final = "agent.thread-peer-discovery"
_TIDY_SECONDS: Final = 5.0


def is_past(data: Mapping[str, Any], event: Event, clock: Clock, *, grace_ms: int) -> bool:
    """
    Is this question too old to be answered, such as one of a backlog?

    Legacy ones say how long they wait, from their arrival; those that say nothing wait as long
    as clocks may differ.
    """
    now = clock.now_ms()
    expires_at = data.get("expiresAt")
    if isinstance(expires_at, int | float) and not isinstance(expires_at, bool):
        return now > expires_at + grace_ms
    if event.created_at is None:
        return False
    asked_at = event.created_at.timestamp() * 1000
    waits = data.get("timeoutMs")
    limit = waits if isinstance(waits, int | float) and not isinstance(waits, bool) else 0
    return bool(now > asked_at + limit + grace_ms)


class Answers:
    """The answers to one question, as they come."""

    def __init__(
        self, request_id: str, clock: Clock, is_genuine: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        self.request_id = request_id
        self._is_genuine = is_genuine
        self.found: list[Mapping[str, Any]] = []
        self._clock = clock
        self._changed = asyncio.Event()

    async def take(self, event: Event) -> None:
        """One answer; others on the topic are none of ours."""
        data = event.data
        is_ours = isinstance(data, Mapping) and data.get("requestId") == self.request_id
        if is_ours and self._is_genuine(data):
            self.found.append(data)
            self._changed.set()

    async def first(self, seconds: float) -> Mapping[str, Any] | None:
        """The first answer; None if none comes in time."""
        pause = asyncio.ensure_future(self._clock.sleep(seconds))
        change = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait([pause, change], return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            change.cancel()
        return self.found[0] if self.found else None

    async def all(self, seconds: float) -> list[Mapping[str, Any]]:
        """All that come in time."""
        await self._clock.sleep(seconds)
        return list(self.found)


class Questions:
    """Asks, and hears answers on a topic that is gone afterwards."""

    def __init__(
        self,
        pubsub: PubSub,
        *,
        clock: Clock,
        ids: Ids,
        source_id: str,
        signer: EventSigner | None = None,
    ) -> None:
        self._pubsub = pubsub
        self._signer = signer or EventSigner()
        self._clock = clock
        self._ids = ids
        self.source_id = source_id

    @asynccontextmanager
    async def asked(
        self,
        kind: str,
        topic: str,
        *,
        waits_ms: int,
        reply_prefix: str | None = None,
        **members: Any,
    ) -> AsyncIterator[Answers]:
        """
        Ask; the block hears the answers.

        Raises:
            PubSubError: The question can't be asked.
        """
        request_id = self._ids.new("request")
        reply_topic = f"{reply_prefix or topic}.{request_id}"
        is_genuine = partial(self._signer.is_genuine, reply_topic)
        answers = Answers(request_id, self._clock, is_genuine)
        known = {name: value for name, value in members.items() if value is not None}
        data = {
            "type": kind,
            "requestId": answers.request_id,
            "replyTopic": reply_topic,
            "sourceId": self.source_id,
            "expiresAt": self._clock.now_ms() + waits_ms,
            **known,
        }
        await self._pubsub.subscribe(reply_topic, answers.take)
        try:
            run_id = str(known.get("runId", answers.request_id))
            await self._publish(topic, Event(type=kind, run_id=run_id, data=data))
            yield answers
        finally:
            await shielded(self._forget(reply_topic, answers), _TIDY_SECONDS)

    async def _forget(self, reply_topic: str, answers: Answers) -> None:
        await self._pubsub.unsubscribe(reply_topic, answers.take)
        await self._pubsub.clear_topic(reply_topic)

    async def answer(self, question: Mapping[str, Any], kind: str, **members: Any) -> None:
        """
        Answer a question of another process.

        Raises:
            PubSubError: It can't be told.
        """
        topic, request_id = question.get("replyTopic"), question.get("requestId")
        if not isinstance(topic, str) or not topic or not isinstance(request_id, str):
            return
        data = {"type": kind, "requestId": request_id, "sourceId": self.source_id, **members}
        await self._publish(topic, Event(type=kind, run_id=request_id, data=data))

    async def _publish(self, topic: str, event: Event) -> None:
        await self._pubsub.publish(topic, self._signer.signed(topic, event))
