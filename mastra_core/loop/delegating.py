"""A call that waits because a run which it started waits (snapshots.md 4.3, 8.3).

The parked call stays the outer run's own; what is asked for, and how it is answered, is that of
the inner one. Members beside those that peers write (``suspendedToolCallId``, ``resumeSchema``,
``suspendedToolThreadId`` and, for data, ``suspendedToolName``) let the answer find one of several
inner calls, be checked before anything is claimed, and be given again after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastra_core.base.jsonjs import sanitize_copy
from mastra_core.contracts.tool import DelegatedCall

__all__ = ("delegated_call", "delegated_record")


def delegated_record(
    record: Mapping[str, Any], tool_call_id: str, delegated: DelegatedCall
) -> dict[str, Any]:
    """The suspend payload of an outer call; ``record`` is that of a call of its own."""
    link = {
        "suspendedToolRunId": delegated.run_id,
        "suspendedToolCallId": delegated.tool_call_id,
        "resumeSchema": delegated.resume_schema,
        "suspendedToolThreadId": delegated.thread_id,
    }
    if delegated.needs_approval:
        asked = {
            "toolCallId": tool_call_id,
            "toolName": delegated.tool_name,
            "args": sanitize_copy(delegated.args),
        }
        return {"requireToolApproval": asked, "type": "approval", **link}
    inner = {"suspendedToolName": delegated.tool_name, "suspendedToolArgs": delegated.args}
    return {**record, **link, **sanitize_copy(inner)}


def delegated_call(payload: Mapping[str, Any]) -> DelegatedCall | None:
    """The inner call of a parked one, as we or a peer wrote it; None if it has none."""
    run_id = payload.get("suspendedToolRunId")
    if not isinstance(run_id, str) or not run_id:
        return None
    approval = payload.get("requireToolApproval")
    inner_id = payload.get("suspendedToolCallId")
    is_approval = isinstance(approval, Mapping)
    asked: Mapping[str, Any] = approval if isinstance(approval, Mapping) else {}
    return DelegatedCall(
        run_id=run_id,
        tool_call_id=inner_id if isinstance(inner_id, str) else None,
        tool_name=str(asked.get("toolName") or payload.get("suspendedToolName") or ""),
        args=asked.get("args") if is_approval else payload.get("suspendedToolArgs"),
        needs_approval=is_approval,
        resume_schema=str(payload.get("resumeSchema") or "{}"),
        thread_id=payload.get("suspendedToolThreadId"),
    )
