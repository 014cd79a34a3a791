"""What processes tell each other about a thread, on its topic (signals.md 17.3).

Receivers look at ``data`` alone, ignore types and members that they don't know, and accept
the shorter forms of version 1.71.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mastra_core.messages.signals import wire_form
from mastra_core.wire.chunks import Chunk
from mastra_core.wire.events import Event
from mastra_core.wire.signals import Signal

__all__ = (
    "ABORTED",
    "ABORT_ACKNOWLEDGED",
    "ABORT_REQUESTED",
    "COMPLETED",
    "DISCARDED",
    "ENDS",
    "FAILED",
    "PART",
    "REGISTERED",
    "SIGNALS_CANCELLED",
    "SIGNAL_ADMITTED",
    "SIGNAL_ENQUEUED",
    "SIGNAL_REFUSED",
    "SUSPENDED",
    "ThreadEvent",
    "abort_acknowledged",
    "abort_requested",
    "read_event",
    "run_aborted",
    "run_ended",
    "run_failed",
    "run_registered",
    "run_suspended",
    "signal_admitted",
    "signal_enqueued",
    "signal_refused",
    "signals_cancelled",
    "stream_part",
)

REGISTERED = "run-registered"
PART = "stream-part"
SUSPENDED = "run-suspended"
COMPLETED = "run-completed"
ABORTED = "run-aborted"
FAILED = "run-failed"
#: Of version 1.71: a segment that was announced could not begin, and is to be forgotten.
DISCARDED = "run-discarded"
SIGNAL_ENQUEUED = "signal-enqueued"
SIGNALS_CANCELLED = "signals-cancelled"
ABORT_REQUESTED = "run-abort-requested"
#: Ours alone: what became of an abort that somebody asked for (G13).
ABORT_ACKNOWLEDGED = "run-abort-acknowledged"
#: Ours alone: the owner has the signal (G4).
SIGNAL_ADMITTED = "signal-admitted"
#: Ours alone: the owner has no room for a signal that it was offered (G6).
SIGNAL_REFUSED = "signal-refused"
#: After one of these the run says nothing more.
ENDS = frozenset({COMPLETED, ABORTED, FAILED, DISCARDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadEvent:
    """One event of a thread, as it was found."""

    type: str
    data: Mapping[str, Any]
    id: str = ""

    def text(self, name: str) -> str | None:
        """A member that is a text; None if it is absent or something else."""
        value = self.data.get(name)
        return value if isinstance(value, str) else None

    @property
    def run_id(self) -> str | None:
        """The run it is about, or whom it is meant for."""
        return self.text("runId")

    @property
    def stream_id(self) -> str | None:
        """The segment of the run."""
        return self.text("streamId")

    @property
    def source_id(self) -> str | None:
        """The process that says it."""
        return self.text("sourceId")

    def texts(self, name: str) -> list[str]:
        """The texts of a member that is a list."""
        value = self.data.get(name)
        return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def read_event(event: Event) -> ThreadEvent | None:
    """The event of a thread; None for what isn't one, which is skipped."""
    data = event.data
    if not isinstance(data, Mapping) or not isinstance(data.get("type"), str):
        return None
    return ThreadEvent(type=data["type"], data=data, id=event.id)


def _event(kind: str, run_id: str, **members: Any) -> Event:
    known = {name: value for name, value in members.items() if value is not None}
    return Event(type=kind, run_id=run_id, data={"type": kind, "runId": run_id, **known})


def run_registered(
    run_id: str, *, stream_id: str, stream_seq: int, agent_id: str, source_id: str
) -> Event:
    """A segment begins; the agent's id is ours to add (G10)."""
    return _event(
        REGISTERED,
        run_id,
        streamId=stream_id,
        streamSeq=stream_seq,
        agentId=agent_id,
        sourceId=source_id,
    )


def stream_part(
    run_id: str,
    part: Chunk,
    *,
    seq: int,
    stream_id: str,
    source_id: str,
    produced_at: int,
    pinned: bool,
) -> Event:
    """
    One chunk; pinned ones outlive the trimming of a run's parts. Its number is ours to add, so
    that receivers see that one is missing, or came twice.
    """
    return _event(
        PART,
        run_id,
        streamId=stream_id,
        part=part,
        seq=seq,
        sourceId=source_id,
        producedAt=produced_at,
        pinned=pinned or None,
    )


def run_suspended(run_id: str, *, stream_id: str, source_id: str) -> Event:
    """The run waits for an answer."""
    return _event(SUSPENDED, run_id, streamId=stream_id, sourceId=source_id)


def run_ended(
    run_id: str, *, stream_id: str, source_id: str, status: str, persisted: bool, parts: int
) -> Event:
    """There were so many parts; ``persisted``: storage has what the parts said."""
    return _event(
        COMPLETED,
        run_id,
        streamId=stream_id,
        sourceId=source_id,
        status=status,
        persisted=persisted,
        parts=parts,
    )


def run_aborted(run_id: str, *, stream_id: str, source_id: str) -> Event:
    """Somebody aborted the run; its end usually follows."""
    return _event(ABORTED, run_id, streamId=stream_id, sourceId=source_id)


def run_failed(run_id: str, error: str, *, source_id: str) -> Event:
    """A run could not start."""
    return _event(FAILED, run_id, error=error, sourceId=source_id)


def signal_enqueued(
    run_id: str,
    signal: Signal,
    *,
    source_id: str,
    pre_run: bool = False,
    turn: bool = False,
    kept: bool = False,
    offered_to: str | None = None,
) -> Event:
    """
    Input for a run of another process.

    Args:
        run_id: The run that is to take it; for a turn the one that is to be started.
        signal: The input.
        source_id: Who sends it.
        pre_run: It is for the first request of the run.
        turn: It gets a run of its own (G11).
        kept: It stands in the thread's inbox; senders of version 1.71 have none (G1).
        offered_to: The run whose process may refuse it, since its sender waits for a word (G6).
    """
    return _event(
        SIGNAL_ENQUEUED,
        run_id,
        signal=wire_form(signal),
        sourceId=source_id,
        preRun=pre_run or None,
        turn=turn or None,
        kept=kept or None,
        offeredTo=offered_to,
    )


def signal_admitted(run_id: str, signal_id: str, *, source_id: str) -> Event:
    """The owner of the thread has this signal in its queue (G4)."""
    return _event(SIGNAL_ADMITTED, run_id, signalId=signal_id, sourceId=source_id)


def signal_refused(
    run_id: str, signal_id: str, *, source_id: str, refusal: Mapping[str, Any]
) -> Event:
    """The owner of the thread has no room for this signal, and nobody will answer it (G6)."""
    return _event(
        SIGNAL_REFUSED, run_id, signalId=signal_id, sourceId=source_id, refusal=dict(refusal)
    )


def signals_cancelled(key: str, signal_ids: Sequence[str], *, source_id: str) -> Event:
    """Whoever has one of these forgets it."""
    data = {"type": SIGNALS_CANCELLED, "signalIds": list(signal_ids), "sourceId": source_id}
    return Event(type=SIGNALS_CANCELLED, run_id=key, data=data)


def abort_requested(
    run_id: str,
    *,
    stream_id: str,
    source_id: str,
    clear_pending_signals: bool,
    request_id: str | None = None,
) -> Event:
    """Ask the owner to abort its run; with a request id, also to say what became of that (G13)."""
    return _event(
        ABORT_REQUESTED,
        run_id,
        streamId=stream_id,
        sourceId=source_id,
        clearPendingSignals=clear_pending_signals or None,
        requestId=request_id,
    )


def abort_acknowledged(run_id: str, request_id: str, *, source_id: str, done: bool) -> Event:
    """
    The owner has done what was asked, and the run has said and stored all that it will; or it
    has another run, or another segment of that one.
    """
    return _event(ABORT_ACKNOWLEDGED, run_id, requestId=request_id, sourceId=source_id, done=done)
