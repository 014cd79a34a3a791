"""One send, awaited to its end: the router's answer or its error, as a value."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

from mastra_core.contracts.signal_sink import Accepted, SignalSink, SignalTarget
from mastra_core.errors import SignalPersistUnavailableError
from mastra_core.messages.signals import wire_form
from mastra_core.wire.signals import Signal

__all__ = ("NotSent", "Sent", "send")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The router answered; that may be ``blocked`` or ``discard``, too."""

    signal: Signal
    accepted: Accepted
    #: There for ``persist``, and settled.
    persisted: Awaitable[None] | None = None

    @property
    def reaches_model(self) -> bool:
        """A run takes it, now or later."""
        return self.accepted.action in {"wake", "deliver"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSent:
    """Routing, starting or storing failed."""

    error: Exception


async def send(
    sink: SignalSink, signal: Signal, target: SignalTarget, *, timeout_ms: int | None = None
) -> Sent | NotSent:
    """
    Send and wait until the signal was taken, and stored if it is only stored.

    A ``persist`` that stored nothing is a failure (notifications.md S9). Being cancelled, or
    not waiting any longer, leaves the send itself alone: it may still be taken.
    """
    try:
        result = sink.send_signal(wire_form(signal), target)
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            accepted = await asyncio.shield(result.accepted)
            if result.persisted is not None:
                await asyncio.shield(result.persisted)
        if accepted.action == "persist" and result.persisted is None:
            raise SignalPersistUnavailableError(agent_id=sink.agent_id, thread_id=target.thread_id)
    except Exception as error:  # noqa: BLE001 – the door to the router: the record keeps the reason
        return NotSent(error=error)
    return Sent(signal=result.signal, accepted=accepted, persisted=result.persisted)
