"""Runs of an agent that wait: who may answer them, and what an answer does (snapshots.md 9).

Which of several answers counts is decided in another room, see ``workflows.resume``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from mastra_core.agent.answers import check_answer, check_told_schema
from mastra_core.agent.arguments import check_given_ids, check_ids
from mastra_core.agent.memory import close_parked_calls
from mastra_core.agent.run import RunBuilder
from mastra_core.agent.sub_agents import SubAgentTool
from mastra_core.agent.until_idle import started
from mastra_core.contracts.tool import Tool
from mastra_core.errors import (
    AmbiguousRunError,
    RunArgumentError,
    RunNotFoundError,
    shown,
)
from mastra_core.loop.delegating import delegated_call
from mastra_core.streaming.output import ModelOutput
from mastra_core.workflows.agent_snapshot import ParkedRun
from mastra_core.workflows.resume import (
    ClaimedRun,
    ResumeRequest,
    claim_for_cancel,
    claim_parked_run,
)

if TYPE_CHECKING:
    from mastra_core.agent.agent import Agent

__all__ = ("ParkedRuns",)


class ParkedRuns:
    """The runs of one agent that wait for an answer."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def answer(
        self,
        data: Any,
        run_id: str,
        tool_call_id: str | None,
        *,
        kind: Literal["approval", "data"],
        options: Mapping[str, Any],
    ) -> ModelOutput:
        """
        Give an answer; the run goes on.

        Raises:
            MastraError: It was refused, see ``Agent.resume_stream``; nothing was executed.
        """
        check_ids(run_id=run_id)
        given = dict(options)
        context = given.get("request_context")
        reserved = context.get("mastra__resourceId") if isinstance(context, Mapping) else None
        scope = reserved if reserved is not None else given.get("resource_id")
        check_given_ids(tool_call_id=tool_call_id, resource_id=scope)
        allow_mismatch = bool(given.pop("allow_kind_mismatch", False))
        rerun_unknown = bool(given.pop("rerun_unknown", False))
        target = given.pop("target", None)
        if target not in (None, "all"):
            raise RunArgumentError(
                f"target must be 'all' or absent, not {shown(target)}.",
                hint="Name one call with tool_call_id.",
                details={"argument": "target"},
            )
        if given.get("read_only"):
            raise RunArgumentError(
                "A run can't become read-only when it is answered: its calls are stored.",
                id="AGENT_INVALID_OPTION",
                details={"argument": "read_only"},
            )
        if given.get("thread_id") is None:
            given.pop("resource_id", None)
        builder = RunBuilder(self._agent, self._agent.options(given))
        claimed = await self.claim(
            ResumeRequest(
                run_id=run_id,
                agent_id=self._agent.id,
                kind=kind,
                data=data,
                tool_call_id=tool_call_id,
                to_all=target == "all",
                resource_id=scope,
                allow_kind_mismatch=allow_mismatch,
                rerun_unknown=rerun_unknown,
            ),
            builder.tools,
        )
        try:
            return await started(
                builder,
                builder.resume(claimed),
                thread_id=claimed.parked.thread_id,
                resource_id=claimed.parked.resource_id,
            )
        except BaseException:
            await claimed.claim.release_anyway()
            raise

    async def cancel(self, run_id: str) -> bool:
        """
        End a run without an answer: one at work here is aborted, a parked one is removed.

        Returns:
            False, and nothing changes, if there is no such run (any more).

        Raises:
            ForeignRunError: It belongs to another agent.
            ResumeClaimedError: Somebody is answering it right now.
        """
        check_ids(run_id=run_id)
        if self._agent.host.threads.abort_run(run_id, agent_id=self._agent.id):
            return True
        snapshots = self._agent.host.parking
        if snapshots is None:
            return False
        claimed = await claim_for_cancel(
            snapshots,
            run_id,
            agent_id=self._agent.id,
            ids=self._agent.host.ids,
            owner=self._agent.host.instance_id,
        )
        if claimed is None:
            return False
        try:
            await self._cancel_delegates(claimed.parked)
            await self.end(claimed)
        except BaseException:
            await claimed.claim.release_anyway()
            # Its rows may be gone already.
            self._agent.host.threads.look_at_run(run_id)
            raise
        return True

    async def end(self, claimed: ClaimedRun) -> None:
        """Remove a parked run that is ours: nobody answers it any more."""
        run_id = claimed.parked.run_id
        await close_parked_calls(self._agent.memory, claimed.parked)
        await claimed.claim.snapshots.forget(run_id, claim_id=claimed.claim.claim_id)
        self._agent.host.threads.release_parked(run_id)

    async def claim(self, request: ResumeRequest, tools: Mapping[str, Tool]) -> ClaimedRun:
        """
        Become the one that answers a parked run (snapshots.md G1).

        Args:
            request: The answer.
            tools: Those of the run that gives it.

        Raises:
            MastraError: See ``resume_stream``; nothing was changed.
        """
        snapshots = self._agent.host.parking
        if snapshots is None:
            raise RunNotFoundError(
                run_id=request.run_id, agent_id=self._agent.id, has_storage=False
            )
        return await claim_parked_run(
            snapshots,
            request,
            clock=self._agent.host.clock,
            ids=self._agent.host.ids,
            owner=self._agent.host.instance_id,
            validate=partial(_check_data, tools),
            is_idempotent=partial(_is_idempotent, tools),
        )

    async def of_thread(self, thread_id: str, resource_id: str, tool_call_id: str | None) -> str:
        """
        The run of a thread that waits.

        Raises:
            RunNotFoundError: None does.
            AmbiguousRunError: Several do.
        """
        listed = await self._agent.list_suspended_runs(thread_id=thread_id, resource_id=resource_id)
        runs = [
            run.run_id
            for run in listed.runs
            if tool_call_id is None
            or any(call.tool_call_id == tool_call_id for call in run.tool_calls)
        ]
        if not runs:
            raise RunNotFoundError(
                f"Thread {thread_id!r} has no run of agent {self._agent.id!r} that waits for approval.",
                id="AGENT_SEND_TOOL_APPROVAL_NO_ACTIVE_THREAD_RUN",
                details={
                    "threadId": thread_id,
                    "resourceId": resource_id,
                    "agentName": self._agent.name,
                },
            )
        if len(runs) > 1:
            raise AmbiguousRunError(thread_id=thread_id, run_ids=runs)
        return runs[0]

    def is_idempotent(self, tool_name: str) -> bool:
        """May a call of this tool simply be repeated (snapshots.md G4)?"""
        return _is_idempotent(self._agent.tools, tool_name)

    async def _cancel_delegates(self, parked: ParkedRun) -> None:
        """End the runs of sub-agents for which a run waits."""
        for call, outcome in zip(parked.calls, parked.outcomes, strict=True):
            tool = self._agent.tools.get(str(call.get("toolName")))
            if outcome is None or not outcome.is_parked or not isinstance(tool, SubAgentTool):
                continue
            inner = delegated_call(outcome.suspend_payload or {})
            if inner is not None:
                await tool.agent.cancel_run(inner.run_id)


def _is_idempotent(tools: Mapping[str, Tool], tool_name: str) -> bool:
    known = tools.get(tool_name)
    return known is not None and known.idempotent


def _check_data(tools: Mapping[str, Tool], parked: ParkedRun, tool_call_id: str, data: Any) -> None:
    """
    Refuse data that a suspended call's tool won't take, before anything is claimed.

    Raises:
        SchemaError: It doesn't fit the tool's schema, or the one that the call was parked with,
            if only a hook of its step has the tool.
    """
    tool_name, outcome = parked.name_of(tool_call_id), parked.outcome_of(tool_call_id)
    known, payload = tools.get(tool_name), outcome.suspend_payload if outcome is not None else None
    if known is not None:
        check_answer(known, payload, data)
        return
    told = parked.told_schema(tool_call_id) if delegated_call(payload or {}) is None else None
    if told is not None:
        check_told_schema(told, tool_name, data)
