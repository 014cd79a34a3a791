"""Becoming the one that answers a parked run (snapshots.md 9, 12).

Everything that can be refused is refused before the claim, so that a refused answer leaves
the row as it was, byte for byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.base.jsonjs import encode
from mastra_core.errors import (
    AmbiguousRunError,
    ForeignRunError,
    NotSuspendedError,
    ResumeClaimedError,
    ResumeKindMismatchError,
    RunNotFoundError,
)
from mastra_core.rules.suspended import owner_id, resource_of
from mastra_core.workflows.agent_snapshot import (
    CallOutcome,
    ParkedRun,
    check_version,
)
from mastra_core.workflows.snapshot_store import AgentSnapshots, HeldClaim

__all__ = (
    "SIBLING_WAIT_SECONDS",
    "UNSETTLED_WAIT_SECONDS",
    "ClaimedRun",
    "ResumeRequest",
    "claim_for_cancel",
    "claim_parked_run",
)

#: How long the answer to a named call waits for a slow writer, or for a sibling's answer.
SIBLING_WAIT_SECONDS: Final = 30.0
#: How long an answer without a call's id waits for a row that somebody is still writing.
UNSETTLED_WAIT_SECONDS: Final = 2.0
#: A peer may announce a run before its row is there: so often nothing is found before that
#: counts (snapshots.md 9.2).
_MISSING_READS: Final = 3
_FIRST_PAUSE: Final = 0.025
_LONGEST_PAUSE: Final = 0.5
#: Members of a document that claiming it changes.
_OF_THE_CLAIM: Final = frozenset({"status", "resumeClaim"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRequest:
    """One answer, as the caller gave it."""

    run_id: str
    agent_id: str
    kind: Literal["approval", "data"]
    data: Any
    tool_call_id: str | None = None
    #: Give the same answer to every parked call.
    to_all: bool = False
    #: The caller may touch only runs of this resource; None for any.
    resource_id: str | None = None
    allow_kind_mismatch: bool = False
    #: Run a call again of which nobody knows whether it ran.
    rerun_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedRun:
    """A parked run that is ours to continue, and the answers per tool call."""

    parked: ParkedRun
    claim: HeldClaim
    answers: dict[str, Any]
    #: Whoever answered wants calls to run of which nobody knows whether they ran.
    rerun_unknown: bool = False


async def claim_parked_run(
    snapshots: AgentSnapshots,
    request: ResumeRequest,
    *,
    clock: Clock,
    ids: Ids,
    owner: str,
    validate: Callable[[ParkedRun, str, Any], None],
    is_idempotent: Callable[[str], bool],
) -> ClaimedRun:
    """
    Check an answer and claim its run; of N concurrent answers exactly one gets it (G1).

    Args:
        snapshots: Where the run is parked.
        request: The answer.
        clock: Measures the waits.
        ids: Makes the claim's id.
        owner: Who claims, for messages to others.
        validate: Checks data for a parked call, named by its id; raises ``SchemaError``.
        is_idempotent: May a call of this tool be repeated?

    Raises:
        RunNotFoundError: No such run is parked.
        ForeignRunError: It belongs to another agent or resource.
        NotSuspendedError: It, or the named call, isn't waiting.
        AmbiguousRunError: Several calls wait and none is named.
        ResumeKindMismatchError: The answer is of the wrong kind.
        ResumeClaimedError: Somebody else answered it.
        SchemaError: The data doesn't fit.
        WireVersionError: A newer version parked it.
    """
    waiting = _Patience(clock)
    was_parked = False
    #: What the answer is for, as it stood when it came.
    meant: dict[str, CallOutcome | None] = {}
    missing = 0
    while True:
        snapshots, outer = await _find(snapshots, request.run_id)
        if outer is None:
            if was_parked:
                raise ResumeClaimedError(run_id=request.run_id, agent_id=request.agent_id)
            missing += 1
            if missing < _MISSING_READS:
                await clock.sleep(_FIRST_PAUSE)
                continue
            raise RunNotFoundError(
                run_id=request.run_id, agent_id=request.agent_id, has_storage=True
            )
        _check_access(outer, request)
        if outer.get("status") != "suspended":
            await _wait_for_others(snapshots, outer, request, waiting, was_parked=was_parked)
            continue
        was_parked = True
        parked = await snapshots.read(outer, run_id=request.run_id, agent_id=request.agent_id)
        if meant and not _still_wait(parked, meant, request):
            # Answered by others. What waits now, nobody had seen when this answer was given.
            raise _claimed(request)
        answers = _answers(parked, request, validate, is_idempotent)
        meant = meant or {call_id: parked.outcome_of(call_id) for call_id in answers}
        claim = snapshots.new_claim(
            claim_id=ids.new("claim"),
            owner=owner,
            target=sorted(answers),
            payload=request.data,
            digest=_digest(request),
        )
        outcome, held = await snapshots.claim(request.run_id, claim)
        if not outcome.acquired:
            await waiting.pause(SIBLING_WAIT_SECONDS, _claimed(request))
            continue
        if not _is_same(outcome.snapshot or {}, outer):
            # Another answer was worked off between our look and our claim: look again.
            await held.release_anyway()
            continue
        return ClaimedRun(
            parked=parked, claim=held, answers=answers, rerun_unknown=request.rerun_unknown
        )


async def claim_for_cancel(
    snapshots: AgentSnapshots, run_id: str, *, agent_id: str, ids: Ids, owner: str
) -> ClaimedRun | None:
    """
    Claim a parked run in order to end it without an answer.

    Returns:
        The claimed run; None if no run of this id is parked.

    Raises:
        ForeignRunError: It belongs to another agent.
        ResumeClaimedError: Somebody is answering it right now.
    """
    snapshots, outer = await _find(snapshots, run_id)
    if outer is None:
        return None
    request = ResumeRequest(run_id=run_id, agent_id=agent_id, kind="data", data=None)
    _check_access(outer, request)
    claim = snapshots.new_claim(
        claim_id=ids.new("claim"), owner=owner, target=None, payload=None, digest=_digest(request)
    )
    outcome, held = await snapshots.claim(run_id, claim)
    if not outcome.acquired:
        if outcome.snapshot is None:
            return None
        raise _claimed(request)
    try:
        parked = await snapshots.read(outcome.snapshot or outer, run_id=run_id, agent_id=agent_id)
    except BaseException:
        await held.release_anyway()
        raise
    return ClaimedRun(parked=parked, claim=held, answers={})


async def _find(
    snapshots: AgentSnapshots, run_id: str
) -> tuple[AgentSnapshots, dict[str, Any] | None]:
    """The outer document of a run, and among which rows it is: ours, or those of durable agents."""
    outer = await snapshots.load_outer(run_id)
    if outer is not None or snapshots.is_durable:
        return snapshots, outer
    durable = snapshots.durable()
    outer = await durable.load_outer(run_id)
    return (snapshots if outer is None else durable), outer


def _still_wait(
    parked: ParkedRun, meant: Mapping[str, CallOutcome | None], request: ResumeRequest
) -> bool:
    """Do the calls that an answer is for wait as they did, and for all or any, no others?"""
    waiting = parked.parked_ids()
    if request.to_all:
        return all(call_id in meant for call_id in waiting) and all(
            parked.outcome_of(call_id) == meant[call_id] for call_id in waiting
        )
    is_alone = request.tool_call_id is not None or waiting == list(meant)
    return is_alone and all(parked.outcome_of(call_id) == seen for call_id, seen in meant.items())


def _is_same(claimed: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    """Is what we claimed what we had looked at, but for the claim itself?"""
    members = (set(claimed) | set(seen)) - _OF_THE_CLAIM
    return all(claimed.get(name) == seen.get(name) for name in members)


class _Patience:
    """Pauses that grow, up to a limit of their sum."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock.monotonic()
        self._pause = _FIRST_PAUSE

    async def pause(self, limit: float, error: Exception) -> None:
        if self._clock.monotonic() - self._started >= limit:
            raise error
        await self._clock.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def _digest(request: ResumeRequest) -> str:
    return hashlib.sha256(encode(request.data).encode("utf-8", "surrogatepass")).hexdigest()


def _claimed(request: ResumeRequest) -> ResumeClaimedError:
    return ResumeClaimedError(
        run_id=request.run_id, agent_id=request.agent_id, tool_call_id=request.tool_call_id
    )


def _check_access(outer: Mapping[str, Any], request: ResumeRequest) -> None:
    check_version(outer)
    owner = owner_id(outer)
    if owner != request.agent_id:
        raise ForeignRunError(run_id=request.run_id, agent_id=request.agent_id, owner=owner)
    if request.resource_id is not None:
        resource = resource_of(outer, None)
        if resource != request.resource_id:
            raise ForeignRunError(
                run_id=request.run_id, agent_id=request.resource_id, owner=resource
            )


async def _wait_for_others(
    snapshots: AgentSnapshots,
    outer: Mapping[str, Any],
    request: ResumeRequest,
    waiting: _Patience,
    *,
    was_parked: bool,
) -> None:
    """Somebody is at work on the run: wait for a sibling's answer, refuse a rival's."""
    status = str(outer.get("status"))
    claim = outer.get("resumeClaim")
    if isinstance(claim, Mapping):
        # Whether its owner is gone is for the store's clock to say, not for ours.
        if await snapshots.recover_expired_claims():
            await waiting.pause(SIBLING_WAIT_SECONDS, _claimed(request))
            return
        target = claim.get("target")
        is_sibling = (
            request.tool_call_id is not None
            and isinstance(target, list)
            and request.tool_call_id not in target
        )
        if not is_sibling:
            raise _claimed(request)
        await waiting.pause(SIBLING_WAIT_SECONDS, _claimed(request))
        return
    if status in ("pending", "running"):
        error: Exception = (
            _claimed(request)
            if was_parked
            else NotSuspendedError(run_id=request.run_id, status=status)
        )
        # Who names a call has seen its chunk: the row is on its way (snapshots.md 9.2).
        is_named = request.tool_call_id is not None
        await waiting.pause(SIBLING_WAIT_SECONDS if is_named else UNSETTLED_WAIT_SECONDS, error)
        return
    raise NotSuspendedError(run_id=request.run_id, status=status)


def _answers(
    parked: ParkedRun,
    request: ResumeRequest,
    validate: Callable[[ParkedRun, str, Any], None],
    is_idempotent: Callable[[str], bool],
) -> dict[str, Any]:
    """Which calls get the answer; everything that speaks against it is raised here."""
    answers: dict[str, Any] = {}
    for tool_call_id in _targets(parked, request):
        outcome = parked.outcome_of(tool_call_id)
        assert outcome is not None
        _check_kind(request, tool_call_id, needs_approval=outcome.needs_approval)
        name = parked.name_of(tool_call_id)
        if not outcome.needs_approval and request.kind == "data":
            validate(parked, tool_call_id, request.data)
        receipt = parked.receipts.get(tool_call_id) or {}
        is_unknown = "startedAt" in receipt and "finishedAt" not in receipt
        if is_unknown and not (request.rerun_unknown or is_idempotent(name)):
            raise NotSuspendedError(
                f"Tool call {tool_call_id!r} of run {request.run_id!r} was interrupted while it "
                "ran; nobody knows whether it took effect.",
                id="AGENT_RESUME_STATE_UNKNOWN",
                hint="Check the effect, then resume with rerun_unknown=True or decline.",
                run_id=request.run_id,
                tool_call_id=tool_call_id,
            )
        answers[tool_call_id] = request.data
    return answers


def _targets(parked: ParkedRun, request: ResumeRequest) -> list[str]:
    waiting = parked.parked_ids()
    if request.tool_call_id is not None:
        if request.tool_call_id not in waiting:
            raise NotSuspendedError(
                run_id=request.run_id, tool_call_id=request.tool_call_id, pending=waiting
            )
        return [request.tool_call_id]
    if len(waiting) == 1 or (request.to_all and waiting):
        return waiting
    if not waiting:
        raise NotSuspendedError(run_id=request.run_id, status="suspended")
    raise AmbiguousRunError(run_id=request.run_id, tool_call_ids=waiting)


def _check_kind(request: ResumeRequest, tool_call_id: str, *, needs_approval: bool) -> None:
    if request.allow_kind_mismatch:
        return
    is_decision = isinstance(request.data, Mapping) and isinstance(
        request.data.get("approved"), bool
    )
    if needs_approval and not is_decision:
        raise ResumeKindMismatchError(
            run_id=request.run_id, tool_call_id=tool_call_id, waits_for="approval"
        )
    if not needs_approval and request.kind == "approval":
        raise ResumeKindMismatchError(
            run_id=request.run_id, tool_call_id=tool_call_id, waits_for="data"
        )
