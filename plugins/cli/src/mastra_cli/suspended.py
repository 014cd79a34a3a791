"""Suspended runs as somebody sees them who has the store, but no agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mastra_core.contracts.storage import SuspendedRunRow, WorkflowsStorage
from mastra_core.errors import RunNotFoundError
from mastra_core.rules.suspended import owner_id, suspended_row, tool_calls
from mastra_core.wire.snapshots import AGENT_WORKFLOW_NAMES, AgentRun, AgentRuns, WorkflowRun

__all__ = ("owner_of_run", "suspended_runs")


async def suspended_runs(
    store: WorkflowsStorage,
    *,
    agent_id: str | None,
    thread_id: str | None,
    resource_id: str | None,
    page: int,
    per_page: int,
) -> AgentRuns:
    """
    One page of runs by (created desc, run id desc), each with its ``agentId``.

    With an agent id the store's own listing is used; without one, all suspended rows of
    agents are read, since an operator asks for everybody's.
    """
    await store.recover_expired_claims(workflow_names=AGENT_WORKFLOW_NAMES)
    if agent_id is not None:
        found = await store.list_suspended_runs(
            workflow_names=AGENT_WORKFLOW_NAMES,
            agent_id=agent_id,
            thread_id=thread_id,
            resource_id=resource_id,
            page=page,
            per_page=per_page,
        )
        return AgentRuns(runs=[_run_from_row(row) for row in found.rows], total=found.total)
    rows = await _all_rows(store, thread_id, resource_id)
    shown = rows[page * per_page : (page + 1) * per_page]
    return AgentRuns(runs=[_run_from_row(row) for row in shown], total=len(rows))


async def _all_rows(
    store: WorkflowsStorage, thread_id: str | None, resource_id: str | None
) -> list[SuspendedRunRow]:
    rows: list[SuspendedRunRow] = []
    for name in AGENT_WORKFLOW_NAMES:
        found = await store.list_workflow_runs(
            workflow_name=name, status="suspended", thread_id=thread_id, resource_id=resource_id
        )
        rows += [row for run in found.runs if (row := _row_from_run(run)) is not None]
    return sorted(rows, key=lambda row: (row.created_at, row.run_id), reverse=True)


def _row_from_run(run: WorkflowRun) -> SuspendedRunRow | None:
    """The projection; None for a document that nobody could resume."""
    if not isinstance(run.snapshot, Mapping) or owner_id(run.snapshot) is None:
        return None
    return suspended_row(
        run.snapshot,
        workflow_name=run.workflow_name,
        run_id=run.run_id,
        resource_id=run.resource_id,
        created_at=run.created_at,
        updated_at=run.updated_at,
    )


def _run_from_row(row: SuspendedRunRow) -> AgentRun:
    members: dict[str, Any] = {
        "run_id": row.run_id,
        "status": "suspended",
        "agentId": row.agent_id,
        "suspended_at": row.updated_at,
        "tool_calls": tool_calls(row),
        "created_at": row.created_at,
    }
    if row.thread_id is not None:
        members["thread_id"] = row.thread_id
    if row.resource_id is not None:
        members["resource_id"] = row.resource_id
    return AgentRun.model_validate(members)


async def owner_of_run(store: WorkflowsStorage, run_id: str) -> str:
    """
    The agent that a run belongs to.

    Raises:
        RunNotFoundError: There is no such run, or it belongs to nobody.
    """
    for name in AGENT_WORKFLOW_NAMES:
        run = await store.get_workflow_run_by_id(run_id=run_id, workflow_name=name)
        if run is None or not isinstance(run.snapshot, Mapping):
            continue
        owner = owner_id(run.snapshot)
        if owner is not None:
            return owner
    raise RunNotFoundError(run_id=run_id, hint="mastra-py runs suspended shows those there are.")
