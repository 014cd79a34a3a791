"""A publisher that doesn't give up, and readers whose histories can be checked afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mastra_conformance.faults.outcomes import attempt
from mastra_conformance.histories.queue_checker import Handled
from mastra_conformance.suites.pubsub.support import make_event
from mastra_core.contracts.pubsub import PubSub
from mastra_core.errors import PubSubConnectionError
from mastra_core.wire.events import Event

__all__ = ("GroupReaderLog", "Publisher", "once_in_order")

_PAUSE_S = 0.01


@dataclass(slots=True)
class Publisher:
    """Publishes numbers; each is repeated with its ``dedupe_id`` until it is accepted (P10)."""

    bus: PubSub
    topic: str
    accepted: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def run(self, is_over: Callable[[], bool]) -> None:
        """One number after the other."""
        number = 0
        while not is_over():
            await self.publish(number)
            number += 1
            await asyncio.sleep(_PAUSE_S)

    async def publish(self, number: int) -> None:
        """Until the transport says that it has it; what may not be repeated is a fault."""
        while True:
            error = await attempt("pubsub", lambda: self._publish(number), deadline_s=20)
            if error is None:
                self.accepted.append(number)
                return
            may_repeat = error.retryable or isinstance(error, PubSubConnectionError)
            assert may_repeat, f"A publish may be repeated by its dedupe_id, but: {error!r}"
            self.errors.append(type(error).__name__)
            await asyncio.sleep(_PAUSE_S)

    async def _publish(self, number: int) -> None:
        await self.bus.publish(self.topic, make_event(number), dedupe_id=f"e{number}")


@dataclass(slots=True)
class GroupReaderLog:
    """A member of a group that acks everything and remembers it."""

    handled: list[Handled] = field(default_factory=list)
    acked: list[int] = field(default_factory=list)

    async def __call__(self, event: Event, ack: Any) -> None:
        self.handled.append(Handled(event.data, event.delivery_attempt))
        await ack()
        self.acked.append(event.data)

    def faults(self, accepted: list[int], *, after_crash: bool = False) -> list[str]:
        """
        What was lost or came again without a reason.

        An ack whose answer was lost may have to be given again; that is no fault. After a crash
        of the store itself even a claim may be forgotten, so that its event begins anew (P5).
        """
        missing = sorted(set(accepted) - set(self.acked))
        faults = [f"{number} was lost." for number in missing]
        seen: set[int] = set()
        for one in self.handled:
            if one.event in seen and one.attempt <= 1 and not after_crash:
                faults.append(f"{one.event} came again as attempt {one.attempt}.")
            seen.add(one.event)
        return faults


def once_in_order(events: list[Event]) -> list[int]:
    """The data in order of their first arrival; a lost connection may repeat events (P17)."""
    return list(dict.fromkeys(event.data for event in events))
