"""Errors of agent runs and workflows: finding, resuming, finishing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Unpack

from mastra_core.errors.base import Category, ErrorFields, MastraError, with_facts
from mastra_core.errors.details import shown

__all__ = (
    "AmbiguousRunError",
    "ForeignRunError",
    "NonRetryableStepError",
    "NotSuspendedError",
    "ResumeClaimedError",
    "ResumeKindMismatchError",
    "RunAbortedError",
    "RunArgumentError",
    "RunError",
    "RunNotFoundError",
    "RunTimeoutError",
    "SchemaError",
    "StepFailedError",
    "StreamConsumedError",
    "WorkflowError",
    "no_run_storage",
    "wrong_list_argument",
)

_WIRE_NAMES: Final = {"per_page": "perPage", "page": "page"}


class RunError(MastraError):
    """An agent run can't go on as asked."""

    id = "AGENT_RUN_ERROR"
    domain = "AGENT"


class RunArgumentError(RunError, ValueError):
    """An argument of a call about runs is wrong; storage wasn't touched."""

    id = "AGENT_RUN_INVALID_ARGUMENT"
    category: Category = "USER"
    http_status = 400


class RunNotFoundError(RunError, LookupError):
    """No stored run of this id: unknown, already finished, or never suspended."""

    id = "AGENT_RESUME_NO_SNAPSHOT_FOUND"
    category: Category = "USER"
    http_status = 404

    def __init__(
        self,
        message: str | None = None,
        *,
        run_id: str = "",
        agent_id: str | None = None,
        has_storage: bool | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        of_agent = f" of agent {agent_id!r}" if agent_id else ""
        super().__init__(
            message or f"No suspended run {run_id!r}{of_agent} was found.",
            **with_facts(fields, run_id=run_id, agent_id=agent_id, has_storage=has_storage),
        )


class NotSuspendedError(RunError):
    """The run, or the named tool call of it, isn't waiting for anybody; nothing was executed."""

    id = "AGENT_RESUME_TOOL_CALL_NOT_SUSPENDED"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        run_id: str = "",
        status: str | None = None,
        tool_call_id: str | None = None,
        pending: Sequence[str] = (),
        **fields: Unpack[ErrorFields],
    ) -> None:
        waiting = list(pending)
        if tool_call_id is None:
            fields.setdefault("id", "AGENT_RESUME_RUN_NOT_SUSPENDED")
            known = f"; its status is {status!r}" if status else ""
            sentence = f"Run {run_id!r} is not suspended{known}."
        else:
            known = f" Waiting: {', '.join(map(repr, waiting))}." if waiting else ""
            sentence = f"Tool call {tool_call_id!r} is not suspended in run {run_id!r}.{known}"
        super().__init__(
            message or sentence,
            **with_facts(
                fields, run_id=run_id, status=status, tool_call_id=tool_call_id, pending=waiting
            ),
        )


class ForeignRunError(RunError):
    """The run belongs to another agent or resource."""

    id = "AGENT_RESUME_FOREIGN_RUN"
    category: Category = "USER"
    http_status = 403

    def __init__(
        self,
        message: str | None = None,
        *,
        run_id: str = "",
        agent_id: str = "",
        owner: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        of_owner = f"belongs to {owner!r}, not to" if owner else "doesn't belong to"
        super().__init__(
            message or f"Run {run_id!r} {of_owner} {agent_id!r}.",
            **with_facts(fields, run_id=run_id, agent_id=agent_id, owner=owner),
        )


class ResumeKindMismatchError(RunError):
    """An approval was answered with data, or a suspension with a mere approval."""

    id = "AGENT_RESUME_KIND_MISMATCH"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        run_id: str = "",
        tool_call_id: str | None = None,
        waits_for: Literal["approval", "data"] = "approval",
        **fields: Unpack[ErrorFields],
    ) -> None:
        needed = {
            "approval": "approval; answer with a boolean 'approved'",
            "data": "data of its own; answer with resume_stream",
        }[waits_for]
        super().__init__(
            message or f"Tool call {tool_call_id!r} of run {run_id!r} waits for {needed}.",
            **with_facts(fields, run_id=run_id, tool_call_id=tool_call_id, waits_for=waits_for),
        )


class AmbiguousRunError(RunError):
    """Several runs or tool calls fit; say which (``details.runIds``, ``details.toolCallIds``)."""

    id = "AGENT_RESUME_AMBIGUOUS_TOOL_CALL"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        run_id: str | None = None,
        tool_call_ids: Sequence[str] = (),
        thread_id: str | None = None,
        run_ids: Sequence[str] = (),
        **fields: Unpack[ErrorFields],
    ) -> None:
        if run_ids:
            fields.setdefault("id", "AGENT_SEND_TOOL_APPROVAL_AMBIGUOUS_SUSPENDED_RUNS")
            sentence = f"Thread {thread_id!r} has several suspended runs: {', '.join(run_ids)}."
        else:
            sentence = (
                f"Run {run_id!r} has several suspended tool calls: {', '.join(tool_call_ids)}. "
                "Name one with tool_call_id."
            )
        super().__init__(
            message or sentence,
            **with_facts(
                fields,
                run_id=run_id,
                tool_call_ids=list(tool_call_ids),
                thread_id=thread_id,
                run_ids=list(run_ids),
            ),
        )


class RunAbortedError(RunError):
    """The run was aborted before it finished."""

    id = "AGENT_RUN_ABORTED"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        run_id: str = "",
        reason: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        because = f": {reason}" if reason else ""
        super().__init__(
            message or f"Run {run_id!r} was aborted{because}.",
            **with_facts(fields, run_id=run_id, reason=reason),
        )


class RunTimeoutError(RunError, TimeoutError):
    """The run or one of its steps took longer than allowed."""

    id = "AGENT_RUN_TIMEOUT"
    category: Category = "USER"
    http_status = 504

    def __init__(
        self,
        message: str | None = None,
        *,
        run_id: str = "",
        limit_ms: float | None = None,
        what: str = "run",
        **fields: Unpack[ErrorFields],
    ) -> None:
        limit = f"{limit_ms:g} ms" if limit_ms is not None else "its time limit"
        subject = f"Run {run_id!r}" if what == "run" else f"The {what} of run {run_id!r}"
        super().__init__(
            message or f"{subject} took longer than {limit}.",
            **with_facts(fields, run_id=run_id, limit_ms=limit_ms, what=what),
        )


class StreamConsumedError(RunError):
    """The stream was already read to its end and isn't kept."""

    id = "AGENT_STREAM_CONSUMED"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self, message: str | None = None, *, run_id: str = "", **fields: Unpack[ErrorFields]
    ) -> None:
        super().__init__(
            message or f"The stream of run {run_id!r} was already consumed.",
            **with_facts(fields, run_id=run_id),
        )


class WorkflowError(MastraError):
    """A workflow can't be built or can't go on."""

    id = "MASTRA_WORKFLOW_ERROR"
    domain = "MASTRA_WORKFLOW"


class StepFailedError(WorkflowError):
    """A step raised and its retries are used up; see the cause."""

    id = "WORKFLOW_STEP_INVOKE_FAILED"
    category: Category = "USER"

    def __init__(
        self,
        message: str | None = None,
        *,
        step_id: str = "",
        run_id: str | None = None,
        reason: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        because = f": {reason}" if reason else "."
        super().__init__(
            message or f"Step {step_id!r} failed{because}",
            **with_facts(fields, step_id=step_id, run_id=run_id, reason=reason),
        )


class NonRetryableStepError(WorkflowError):
    """Raised by a step to fail at once, whatever its retries say."""

    id = "WORKFLOW_STEP_NON_RETRYABLE"
    category: Category = "USER"


class ResumeClaimedError(WorkflowError):
    """Somebody else is already resuming this run; nothing was executed."""

    id = "WORKFLOW_RESUME_ALREADY_CLAIMED"
    category: Category = "USER"
    http_status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        run_id: str = "",
        agent_id: str | None = None,
        tool_call_id: str | None = None,
        claimed_by: str | None = None,
        **fields: Unpack[ErrorFields],
    ) -> None:
        if agent_id is not None or tool_call_id is not None:
            fields.setdefault("id", "AGENT_RESUME_ALREADY_CLAIMED")
        by = f" by {claimed_by!r}" if claimed_by else ""
        super().__init__(
            message or f"Run {run_id!r} is already being resumed{by}.",
            **with_facts(
                fields,
                run_id=run_id,
                agent_id=agent_id,
                tool_call_id=tool_call_id,
                claimed_by=claimed_by,
            ),
        )
        if self.id.startswith("AGENT_"):
            self.domain = "AGENT"


class SchemaError(WorkflowError):
    """Data doesn't fit the schema of a workflow or step; nothing was executed."""

    id = "WORKFLOW_SCHEMA_VALIDATION_FAILED"
    category: Category = "USER"
    http_status = 400


def wrong_list_argument(
    name: Literal["per_page", "page"], value: object, *, agent_name: str
) -> RunArgumentError:
    """The refusal of a page argument of ``list_suspended_runs`` (snapshots.md 8.1)."""
    wanted = {"per_page": "an integer of at least 1", "page": "an integer of at least 0"}[name]
    return RunArgumentError(
        f"{name} must be {wanted}, not {shown(value)}.",
        id=f"AGENT_LIST_SUSPENDED_RUNS_INVALID_{name.upper()}",
        details={"agentName": agent_name, _WIRE_NAMES[name]: value},
    )


def no_run_storage(agent_id: str) -> RunArgumentError:
    """The refusal to list suspended runs without a store (snapshots.md 8.1)."""
    return RunArgumentError(
        f"Agent {agent_id!r} has no storage for runs, so it can't list suspended ones.",
        id="AGENT_LIST_SUSPENDED_RUNS_NO_STORAGE",
        hint="Give the Mastra instance a storage with the 'workflows' domain.",
        details={"agentId": agent_id},
    )
