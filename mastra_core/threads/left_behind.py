"""What a thread's topic still tells of input that its owner never took (signals.md 22, G1).

Senders of version 1.71 keep a signal nowhere: it stands on the topic alone, meant for a run that
may be dead. Whoever finds that a process has died on a thread reads the topic, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from mastra_core.base.clock import Clock
from mastra_core.errors import MastraError
from mastra_core.messages.signals import signal_from_wire
from mastra_core.threads import events
from mastra_core.threads.events import ThreadEvent
from mastra_core.wire.signals import Signal

__all__ = ("LeftBehind", "left_behind")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftBehind:
    """A signal that nobody has, as far as the topic tells."""

    signal: Signal
    #: Whose run it was meant for; None for a run of version 1.71.
    agent_id: str | None


def left_behind(past: Iterable[ThreadEvent], *, clock: Clock) -> list[LeftBehind]:
    """
    Signals that were sent to runs which have not ended, were not kept, admitted, refused or cancelled.

    An owner that lived to say that its run ended has dealt with what it was sent before.

    Args:
        past: What was said about the thread, the oldest first.
        clock: The time of signals that have none.
    """
    agents: dict[str, str | None] = {}
    waiting: dict[str, tuple[str, Signal]] = {}
    settled: set[str] = set()
    for event in past:
        run_id = event.run_id or ""
        match event.type:
            case events.REGISTERED:
                agents[run_id] = event.text("agentId")
            case events.SIGNAL_ENQUEUED if event.data.get("kept") is not True:
                signal = _signal(event, clock)
                if signal is not None:
                    waiting[signal.id] = (run_id, signal)
            case events.SIGNAL_ADMITTED | events.SIGNAL_REFUSED:
                settled.add(event.text("signalId") or "")
            case events.SIGNALS_CANCELLED:
                settled.update(event.texts("signalIds"))
            case kind if kind in events.ENDS:
                waiting = {one: sent for one, sent in waiting.items() if sent[0] != run_id}
            case _:
                pass
    return [
        LeftBehind(signal=signal, agent_id=agents.get(run_id))
        for signal_id, (run_id, signal) in waiting.items()
        if signal_id not in settled
    ]


def _signal(event: ThreadEvent, clock: Clock) -> Signal | None:
    value = event.data.get("signal")
    if not isinstance(value, dict):
        return None
    try:
        signal = signal_from_wire(value, clock=clock)
    except MastraError:
        logger.warning("a signal of the past can't be read", exc_info=True)
        return None
    return None if signal.transient else signal
