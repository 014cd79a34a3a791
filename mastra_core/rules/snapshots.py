"""Snapshot documents: merging partial updates, sizes, resume claims (snapshots.md 3, 6, 12).

A document is a plain JSON object under wire names. Functions that change one return a new
top level and never touch the old one, but share what they don't change: a store reads a
document, applies a function inside its transaction, and writes the result.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mastra_core.base import jsonjs
from mastra_core.base.isotime import epoch_ms, to_iso_ms
from mastra_core.errors import (
    FencedOutError,
    StorageConflictError,
    StorageDataError,
    WireEncodeError,
    snapshot_too_large,
)
from mastra_core.rules.arguments import check_text, choices
from mastra_core.wire.snapshots import ResumeClaim

__all__ = (
    "CLAIM",
    "DEFAULT_MAX_BYTES",
    "ORPHAN",
    "RECEIPTS",
    "ClaimResult",
    "check_claim",
    "check_key",
    "check_size",
    "check_version",
    "claim_id_of",
    "claim_resume",
    "current_claim",
    "empty_snapshot",
    "encode_snapshot",
    "expire_claim",
    "extend_claim",
    "has_expired_claim",
    "merge_results",
    "merge_state",
    "merge_step_result",
    "next_updated_at",
    "record_receipt",
    "release_claim",
    "status_of",
)

logger = logging.getLogger(__name__)

CLAIM: Final = "resumeClaim"
"""Top-level member that holds the claim of who resumes right now (G1)."""

RECEIPTS: Final = "resumeReceipts"
"""Top-level member that holds what was decided and done, by tool call id (G4)."""

ORPHAN: Final = "orphanedResume"
"""Top-level member that remembers a claim whose owner died (G4)."""

DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024
"""Size limit of an encoded document unless the backend has a lower one (G12)."""

_PENDING_MARKER: Final = {"__mastra_pending__": True}
_MILLISECOND: Final = timedelta(milliseconds=1)
#: How many of the largest parts an error names.
_LARGEST: Final = 10


# -- whole documents --------------------------------------------------------------------------


def check_key(workflow_name: object, run_id: object) -> None:
    """
    Refuse a row key with an empty half.

    Raises:
        StorageArgumentError: The name or the run id is empty, or no text.
    """
    check_text(workflow_name, "workflow_name")
    check_text(run_id, "run_id")


def empty_snapshot(run_id: str, *, now: datetime) -> dict[str, Any]:
    """What a partial update starts from when there is no row (snapshots.md 3.1)."""
    return {
        "context": {},
        "activePaths": [],
        "activeStepsPath": {},
        "suspendedPaths": {},
        "resumeLabels": {},
        "serializedStepGraph": [],
        "value": {},
        "waitingPaths": {},
        "status": "pending",
        "runId": run_id,
        "timestamp": epoch_ms(now),
        "requestContext": {},
    }


def encode_snapshot(
    snapshot: Mapping[str, Any], *, run_id: str, max_bytes: int = DEFAULT_MAX_BYTES
) -> bytes:
    """
    The document as JSON, complete or not at all (G12, G13).

    Members of ``requestContext`` that can't be stored are left out, with one warning;
    everywhere else they are an error.

    Raises:
        WireEncodeError: Something has no JSON form; the path says what.
        StorageArgumentError: It is over the limit (id ``SNAPSHOT_TOO_LARGE``).
    """
    if not isinstance(snapshot, Mapping):
        raise WireEncodeError(reason=f"is no document but {type(snapshot).__name__}")
    try:
        encoded = jsonjs.encode_bytes(snapshot)
    except WireEncodeError as error:
        if not error.path.startswith("$.requestContext"):
            raise
        encoded = jsonjs.encode_bytes(_with_encodable_context(snapshot, run_id))
    check_size(snapshot, len(encoded), run_id=run_id, max_bytes=max_bytes)
    return encoded


def check_size(
    snapshot: Mapping[str, Any], size: int, *, run_id: str, max_bytes: int = DEFAULT_MAX_BYTES
) -> None:
    """
    Refuse a document over the limit, naming its largest parts (G12).

    Raises:
        StorageArgumentError: It is over the limit (id ``SNAPSHOT_TOO_LARGE``).
    """
    if size > max_bytes:
        largest = jsonjs.json_paths_by_size(snapshot, _LARGEST)
        raise snapshot_too_large(run_id=run_id, size=size, limit=max_bytes, largest=largest)


def _with_encodable_context(snapshot: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    context = snapshot.get("requestContext")
    if not isinstance(context, Mapping):
        return dict(snapshot)
    kept = {key: value for key, value in context.items() if _is_encodable({key: value})}
    logger.warning(
        "request context members left out of a snapshot",
        extra={"run_id": run_id, "members": sorted(map(str, context.keys() - kept.keys()))},
    )
    return {**snapshot, "requestContext": kept}


def _is_encodable(value: Any) -> bool:
    try:
        jsonjs.encode_bytes(value)
    except WireEncodeError:
        return False
    return True


def next_updated_at(now: datetime, stored: datetime | None) -> datetime:
    """``max(now, stored + 1 ms)``, so that no row goes back in time (G14)."""
    return now if stored is None else max(now, stored + _MILLISECOND)


def check_version(expected: str | None, found: str | None) -> None:
    """
    Refuse a write that is based on another state of the row (G8).

    Raises:
        StorageConflictError: They differ (id ``STORAGE_VERSION_CONFLICT``).
    """
    if expected is not None and expected != found:
        raise StorageConflictError(what="snapshot", expected=expected, found=found)


def status_of(snapshot: Mapping[str, Any] | None) -> str | None:
    """The run status; None if the document says none."""
    status = snapshot.get("status") if snapshot else None
    return status if isinstance(status, str) else None


# -- partial updates --------------------------------------------------------------------------


def merge_results(
    snapshot: Mapping[str, Any],
    *,
    step_id: str,
    result: Mapping[str, Any],
    request_context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    The document with one more step result (snapshots.md 5.3, 6).

    Raises:
        StorageDataError: The stored document has no ``context``.
    """
    context = _context_of(snapshot)
    merged = {**context, step_id: merge_step_result(context.get(step_id), result)}
    known = snapshot.get("requestContext")
    return {
        **snapshot,
        "context": merged,
        "requestContext": {
            **(known if isinstance(known, Mapping) else {}),
            **(request_context or {}),
        },
    }


def merge_step_result(old: Any, new: Mapping[str, Any]) -> dict[str, Any]:
    """
    One step result over the stored one (snapshots.md 6).

    Lists of iteration outputs are composed element by element, so that concurrent
    iterations of one foreach never lose each other; everything else is replaced whole.
    """
    old_output = old.get("output") if isinstance(old, Mapping) else None
    new_output = new.get("output")
    if not isinstance(old_output, list) or not isinstance(new_output, list):
        return dict(new)
    has_marker = any(_is_pending_marker(value) for value in new_output)
    output = list(old_output)
    for index, value in enumerate(new_output):
        is_beyond = index >= len(output)
        if is_beyond:
            output.append(None)
        if _is_pending_marker(value):
            if is_beyond or _is_open(output[index]):
                output[index] = None
        elif value is not None and not has_marker:
            output[index] = value
    members = old if has_marker else {**old, **new}
    return {**members, "output": output}


def _is_pending_marker(value: Any) -> bool:
    return isinstance(value, Mapping) and dict(value) == _PENDING_MARKER


def _is_open(value: Any) -> bool:
    """No output yet: nothing, a marker, or a suspended iteration."""
    if value is None or _is_pending_marker(value):
        return True
    return (
        isinstance(value, Mapping)
        and value.get("status") == "suspended"
        and ("suspendPayload" in value or "suspendedAt" in value)
    )


def merge_state(
    snapshot: Mapping[str, Any],
    opts: Mapping[str, Any],
    *,
    expected_status: str | Sequence[str] | None = None,
) -> dict[str, Any] | None:
    """
    The document with top-level members replaced; None if its status isn't expected
    (snapshots.md 5.4).

    Raises:
        StorageArgumentError: ``opts`` has no ``status``.
        StorageDataError: The stored document has no ``context``.
    """
    check_text(opts.get("status"), "opts['status']")
    _context_of(snapshot)
    expected = choices(expected_status)
    if expected is not None and snapshot.get("status") not in expected:
        return None
    return {**snapshot, **{k: v for k, v in opts.items() if k not in _NEVER_STORED}}


#: How callers of the other side spell the guard; it is no state.
_NEVER_STORED: Final = frozenset({"expectedStatus", "expected_status"})


def _context_of(snapshot: Mapping[str, Any]) -> Mapping[str, Any]:
    context = snapshot.get("context")
    if not isinstance(context, Mapping):
        raise StorageDataError(
            f"The stored snapshot of run {snapshot.get('runId')!r} has no context; "
            "nothing was written."
        )
    return context


# -- resume claims ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """What a request for a claim comes to: a new document if it was granted."""

    acquired: bool
    snapshot: dict[str, Any]
    claim: ResumeClaim | None


def current_claim(snapshot: Mapping[str, Any]) -> ResumeClaim | None:
    """The claim in the document, expired or not; None without a readable one."""
    stored = snapshot.get(CLAIM)
    if not isinstance(stored, Mapping):
        return None
    try:
        return ResumeClaim.model_validate(dict(stored))
    except ValueError:  # pydantic's own error is one; a foreign member is no claim
        return None


def claim_id_of(snapshot: Mapping[str, Any] | None) -> str | None:
    """The id of the claim in the document; None without one."""
    stored = (snapshot or {}).get(CLAIM)
    claim_id = stored.get("claimId") if isinstance(stored, Mapping) else None
    return claim_id if isinstance(claim_id, str) else None


def check_claim(
    snapshot: Mapping[str, Any] | None,
    claim_id: str | None,
    *,
    workflow_name: str,
    run_id: str,
) -> None:
    """
    Refuse the write of somebody whose claim is no longer current (G2).

    Raises:
        FencedOutError: A claim id is given and the document has another one, or none
            (id ``STALE_CLAIM``).
    """
    if claim_id is None:
        return
    current = claim_id_of(snapshot)
    if current != claim_id:
        raise FencedOutError(key=f"{workflow_name}/{run_id}", fence=claim_id, current=current)


def claim_resume(
    snapshot: Mapping[str, Any], claim: ResumeClaim, *, store_now: datetime
) -> ClaimResult:
    """
    Grant or refuse a resume claim (G1).

    The claim is dated by the store's clock and keeps its length; its attempt follows that
    of the predecessor whose owner died.
    """
    standing = current_claim(snapshot)
    is_free = standing is None or standing.expires_at <= store_now
    if status_of(snapshot) != "suspended" or not is_free:
        return ClaimResult(acquired=False, snapshot=dict(snapshot), claim=standing)
    orphan = snapshot.get(ORPHAN)
    earlier = orphan.get("attempt") if isinstance(orphan, Mapping) else None
    granted = claim.replace(
        acquired_at=store_now,
        expires_at=store_now + (claim.expires_at - claim.acquired_at),
        attempt=earlier + 1 if isinstance(earlier, int) else claim.attempt,
    )
    document = {**snapshot, "status": "running", CLAIM: _claim_to_wire(granted)}
    return ClaimResult(acquired=True, snapshot=document, claim=granted)


def _claim_to_wire(claim: ResumeClaim) -> dict[str, Any]:
    # The payload goes to the store as it is and is encoded there with the document.
    wire = claim.model_dump(mode="json", by_alias=True, exclude={"payload"})
    return {**wire, "payload": claim.payload}


def extend_claim(
    snapshot: Mapping[str, Any], *, claim_id: str, ttl_ms: int, store_now: datetime
) -> dict[str, Any] | None:
    """The document with a later expiry; None if the claim isn't current."""
    stored = _own_claim(snapshot, claim_id)
    if stored is None:
        return None
    expires_at = to_iso_ms(store_now + timedelta(milliseconds=ttl_ms))
    return {**snapshot, CLAIM: {**stored, "expiresAt": expires_at}}


def release_claim(snapshot: Mapping[str, Any], *, claim_id: str) -> dict[str, Any] | None:
    """The document, suspended again and without claim; None if the claim isn't current."""
    if _own_claim(snapshot, claim_id) is None:
        return None
    return {**_without(snapshot, CLAIM), "status": "suspended"}


def _own_claim(snapshot: Mapping[str, Any], claim_id: str) -> Mapping[str, Any] | None:
    stored = snapshot.get(CLAIM)
    if isinstance(stored, Mapping) and stored.get("claimId") == claim_id:
        return stored
    return None


def has_expired_claim(snapshot: Mapping[str, Any], *, store_now: datetime) -> bool:
    """Whether the run is held by a claim whose owner didn't renew it (G4)."""
    claim = current_claim(snapshot)
    return claim is not None and status_of(snapshot) == "running" and claim.expires_at <= store_now


def expire_claim(snapshot: Mapping[str, Any], *, store_now: datetime) -> dict[str, Any] | None:
    """The document, suspended again with the orphaned resume; None if no claim expired (G4)."""
    if not has_expired_claim(snapshot, store_now=store_now):
        return None
    stored = snapshot[CLAIM]
    orphan = {
        "claimId": stored.get("claimId"),
        "target": stored.get("target"),
        "payloadHash": stored.get("payloadHash"),
        "payload": stored.get("payload"),
        "at": to_iso_ms(store_now),
        "attempt": stored.get("attempt", 1),
    }
    return {**_without(snapshot, CLAIM), "status": "suspended", ORPHAN: orphan}


def record_receipt(
    snapshot: Mapping[str, Any], *, tool_call_id: str, receipt: Mapping[str, Any]
) -> dict[str, Any]:
    """The document with members merged into the receipt of one tool call (G4)."""
    receipts = snapshot.get(RECEIPTS)
    known = receipts if isinstance(receipts, Mapping) else {}
    before = known.get(tool_call_id)
    merged = {**(before if isinstance(before, Mapping) else {}), **receipt}
    return {**snapshot, RECEIPTS: {**known, tool_call_id: merged}}


def _without(snapshot: Mapping[str, Any], member: str) -> dict[str, Any]:
    return {key: value for key, value in snapshot.items() if key != member}
