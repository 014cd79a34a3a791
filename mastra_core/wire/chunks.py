"""Chunks: what a run streams (streaming.md 3).

A chunk is a plain dictionary in its wire form all the way through the runtime; it is built
once and never validated on the hot path. The usual envelope is
``{"type", "runId", "from", "payload"}``; ``object`` chunks carry a top-level ``object``,
``data-*`` chunks ``data``, and unknown types pass unchanged.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ("RUN_CHUNKS", "Chunk", "agent_chunk")

Chunk = dict[str, Any]

#: What a run says about itself: readers act on these, so nobody else may write them.
RUN_CHUNKS: Final = frozenset(
    {
        "abort",
        "error",
        "finish",
        "object-result",
        "start",
        "step-finish",
        "step-start",
        "tool-call",
        "tool-call-approval",
        "tool-call-suspended",
        "tool-error",
        "tool-output-denied",
        "tool-result",
        "tripwire",
    }
)


def agent_chunk(kind: str, run_id: str, payload: dict[str, Any]) -> Chunk:
    """A chunk of an agent's run, in the usual envelope."""
    return {"type": kind, "runId": run_id, "from": "AGENT", "payload": payload}
