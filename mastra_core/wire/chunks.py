"""Chunks: what a run streams (streaming.md 3).

A chunk is a plain dictionary in its wire form all the way through the runtime; it is built
once and never validated on the hot path. The usual envelope is
``{"type", "runId", "from", "payload"}``; ``object`` chunks carry a top-level ``object``,
``data-*`` chunks ``data``, and unknown types pass unchanged.
"""

from __future__ import annotations

from typing import Any

__all__ = ("Chunk", "agent_chunk")

Chunk = dict[str, Any]


def agent_chunk(kind: str, run_id: str, payload: dict[str, Any]) -> Chunk:
    """A chunk of an agent's run, in the usual envelope."""
    return {"type": kind, "runId": run_id, "from": "AGENT", "payload": payload}
