"""Input that arrives in mid-run passes the same guardrails as the first (signals.md 22, G19)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from mastra_core.errors import TripwireError
from mastra_core.loop.segment import RunSegment
from mastra_core.messages.message_list import ListedMessage, MessageList, message_of
from mastra_core.messages.signals import signal_from_message
from mastra_core.wire.signals import Signal

__all__ = ("REJECTED", "guarded")

logger = logging.getLogger(__name__)

#: The chunk that tells readers that a signal was dropped.
REJECTED = "data-signal-rejected"


async def guarded(segment: RunSegment, signals: Sequence[Signal]) -> list[Signal]:
    """
    Show each signal alone to the ``process_input`` hooks; those that may enter, as the hooks
    have left them.

    One that a hook stops is dropped, and readers are told so without its contents. If this
    doesn't come to its end, all that wasn't dropped waits again.

    Raises:
        RunInterrupted: The run was aborted.
        ProcessorError: A hook failed.
    """
    processors = segment.setup.processors
    if processors is None or not processors.has("process_input"):
        return list(signals)
    kept: list[Signal] = []
    dropped: set[str] = set()
    try:
        for signal in signals:
            judged = await _judged(segment, signal) if _is_guarded(segment, signal) else signal
            if judged is None:
                dropped.add(signal.id)
            else:
                kept.append(judged)
    except BaseException:
        segment.setup.signals.put_back([one for one in signals if one.id not in dropped])
        raise
    return kept


def _is_guarded(segment: RunSegment, signal: Signal) -> bool:
    wanted = segment.setup.guard_signals
    return wanted if isinstance(wanted, bool) else signal.type in wanted


async def _judged(segment: RunSegment, signal: Signal) -> Signal | None:
    """The signal as the hooks have left it; None if they have stopped or removed it."""
    setup, processors = segment.setup, segment.setup.processors
    assert processors is not None
    alone = MessageList(
        clock=setup.clock,
        ids=setup.ids,
        thread_id=segment.messages.thread_id,
        resource_id=segment.messages.resource_id,
    )
    alone.add_signal(signal)
    before = _read(alone, alone.messages[0])
    try:
        await segment.guard(
            processors.looking_at(alone, shares_state=True).process_input(
                send_signal=segment.send_signal_in_place, **segment.hook_members()
            )
        )
    except TripwireError as exc:
        await _reject(segment, signal, exc.reason, exc.processor_id, exc.metadata)
        return None
    entry = alone.find(signal.id)
    if entry is None:
        await _reject(segment, signal, "an input processor removed it", None, None)
        return None
    after = _read(alone, entry)
    if after == before:
        return signal
    return signal.replace(
        contents=after.contents, attributes=after.attributes, metadata=after.metadata
    )


def _read(owner: MessageList, entry: ListedMessage) -> Signal:
    return signal_from_message(message_of(entry, owner))


async def _reject(
    segment: RunSegment, signal: Signal, reason: str, processor_id: str | None, metadata: Any
) -> None:
    facts = {
        "id": signal.id,
        "type": signal.type,
        "tagName": signal.tag_name,
        "reason": reason,
        "processorId": processor_id,
        "metadata": metadata,
    }
    data = {name: value for name, value in facts.items() if value is not None}
    segment.record.rejected_signals.append(data)
    logger.warning(
        "signal rejected",
        extra={
            "signal_id": signal.id,
            "thread_id": segment.messages.thread_id,
            "run_id": segment.setup.run_id,
            "processor_id": processor_id,
        },
    )
    await segment.emit({"type": REJECTED, "transient": True, "data": data})
