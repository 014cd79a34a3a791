"""Which runs of an agent wait for an answer (snapshots.md 8)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from mastra_core.contracts.storage import SuspendedRunRow, WorkflowsStorage
from mastra_core.errors import CapabilityNotSupportedError, wrong_list_argument
from mastra_core.rules.suspended import tool_calls
from mastra_core.wire.snapshots import AGENT_WORKFLOW_NAMES, AgentRun, AgentRuns

__all__ = ("check_page", "list_suspended_runs")


def check_page(per_page: object, page: object, *, agent_name: str) -> None:
    """
    Refuse what is no page, before storage is asked (snapshots.md 8.1).

    Raises:
        RunArgumentError: id ``AGENT_LIST_SUSPENDED_RUNS_INVALID_PER_PAGE`` or ``..._PAGE``.
    """
    if per_page is not None and (not _is_int(per_page) or per_page < 1):  # type: ignore[operator] # an int by then
        raise wrong_list_argument("per_page", per_page, agent_name=agent_name)
    if page is not None and (not _is_int(page) or page < 0):  # type: ignore[operator] # an int by then
        raise wrong_list_argument("page", page, agent_name=agent_name)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


async def list_suspended_runs(
    store: WorkflowsStorage,
    *,
    agent_id: str,
    thread_id: str | None = None,
    resource_id: str | None = None,
    from_date: datetime | None = None,
    to_date: datetime | None = None,
    page: int | None = None,
    per_page: int | None = None,
    after: tuple[datetime, str] | None = None,
    is_idempotent: Callable[[str | None], bool] | None = None,
) -> AgentRuns:
    """
    Runs of one agent by (created desc, run id desc); others are never seen.

    Runs whose resuming process died are returned to ``suspended`` first (G4), so that they
    are in the list.
    """
    check_page(per_page, page, agent_name=agent_id)
    # A store that can't claim has no claims that could have expired.
    with suppress(CapabilityNotSupportedError):
        await store.recover_expired_claims(workflow_names=AGENT_WORKFLOW_NAMES)
    both = page is not None and per_page is not None
    found = await store.list_suspended_runs(
        workflow_names=AGENT_WORKFLOW_NAMES,
        agent_id=agent_id,
        thread_id=thread_id,
        resource_id=resource_id,
        from_date=from_date,
        to_date=to_date,
        page=page if both else None,
        per_page=per_page if both or after is not None else None,
        after=after,
    )
    # Whatever the store filtered: a run of somebody else must never be shown (8.2 step 4).
    rows = [
        row
        for row in found.rows
        if row.agent_id == agent_id
        and (thread_id is None or row.thread_id == thread_id)
        and (resource_id is None or row.resource_id == resource_id)
    ]
    return AgentRuns(
        runs=[_run_from_row(row, is_idempotent) for row in rows],
        total=found.total - (len(found.rows) - len(rows)),
    )


def _run_from_row(
    row: SuspendedRunRow, is_idempotent: Callable[[str | None], bool] | None
) -> AgentRun:
    members: dict[str, object] = {
        "run_id": row.run_id,
        "status": "suspended",
        "suspended_at": row.updated_at,
        "tool_calls": tool_calls(row, is_idempotent=is_idempotent),
    }
    if row.thread_id is not None:
        members["thread_id"] = row.thread_id
    if row.resource_id is not None:
        members["resource_id"] = row.resource_id
    calls = members["tool_calls"]
    assert isinstance(calls, list)
    states = {call.resume_state for call in calls if call.resume_state is not None}
    if states:
        members["resume_state"] = "unknown" if "unknown" in states else "interrupted"
    members["created_at"] = row.created_at
    return AgentRun(**members)  # type: ignore[arg-type] # validated by the model
