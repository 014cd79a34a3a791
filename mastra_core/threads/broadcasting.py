"""Chunks that readers of a thread get without a run behind them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mastra_core.messages.signals import echo_chunk
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.threads.record import ThreadRecord
from mastra_core.wire.signals import Signal

__all__ = ("show_abort", "show_failure", "show_persisted")


def _show(record: ThreadRecord, run_id: str, chunks: Iterable[dict[str, Any]]) -> None:
    buffer = ChunkBuffer()
    for chunk in chunks:
        buffer.append(chunk)
    buffer.close()
    for subscription in record.subscriptions:
        subscription.add_run(run_id, buffer)


def show_persisted(record: ThreadRecord, signal: Signal, *, agent_id: str, run_id: str) -> None:
    """A signal that was only stored looks like a run of its own (signals.md 7.5)."""
    usage = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    start = {"id": agent_id, "messageId": f"persisted-signal:{signal.id}"}
    finish = {"stepResult": {"reason": "stop"}, "output": {"usage": usage}}
    _show(
        record,
        run_id,
        (
            {"type": "start", "runId": run_id, "from": "AGENT", "payload": start},
            echo_chunk(signal),
            {"type": "finish", "runId": run_id, "from": "AGENT", "payload": finish},
        ),
    )


def show_failure(record: ThreadRecord, run_id: str, text: str) -> None:
    """A run could not start (signals.md 12.8)."""
    _show(record, run_id, ({"type": "error", "runId": run_id, "payload": {"error": text}},))


def show_abort(record: ThreadRecord, run_id: str) -> None:
    """A run that was parked has ended without an answer."""
    _show(record, run_id, ({"type": "abort", "runId": run_id},))
