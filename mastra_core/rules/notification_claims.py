"""Claims, guards and confirmations of inbox records, as arithmetic (notifications.md 13).

A *sidecar* stands beside a record in a table of ours. A claim moves the due columns of the
record to its own expiry, so that nobody lists the record, and the sidecar remembers what
they were; a column that somebody else set in the meantime is theirs and stays. A *guard* is
a due time that an ingress put there until it has decided.

Every function takes a record with its sidecar and returns both anew. The store reads both,
applies one function and writes both, in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from mastra_core.base.ids import uuid5
from mastra_core.contracts.storage.notifications import ClaimRef, NotificationClaim
from mastra_core.errors import StorageConflictError
from mastra_core.rules.arguments import moment
from mastra_core.rules.notifications import (
    apply_patch,
    delivered_record,
    due_time,
    merged_record,
    new_record,
    requeued_record,
)
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)

__all__ = (
    "Claimed",
    "Pair",
    "Sidecar",
    "accept",
    "claim_due",
    "claim_unconfirmed",
    "confirm",
    "create_guarded",
    "extend",
    "fail",
    "finalize_full",
    "finalize_summary",
    "full_signal_id",
    "is_claimable",
    "is_current",
    "is_unconfirmed",
    "merge_guarded",
    "patch_expected",
    "patch_guarded",
    "release",
    "requeue",
    "summary_signal_id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """What we remember about one record (table ``mastra_py_notification_claims``)."""

    #: Token of the latest claim; strictly increases.
    token: int = 0
    #: How many summaries of this record were finished.
    generation: int = 0
    #: Who holds the claim; None if none is open.
    owner: str | None = None
    #: When the claim lapses, and the value that its due columns were moved to.
    expires_at: datetime | None = None
    full_due: bool = False
    summary_due: bool = False
    #: The due columns before the claim.
    original_deliver_at: datetime | None = None
    original_summary_at: datetime | None = None
    #: ``coalesced_count`` at the claim.
    claimed_count: int = 0
    #: The due time that an ingress put there until it decides.
    guard_at: datetime | None = None
    #: The same of an event that was merged in during the claim, when columns can't say it.
    merged_guard_at: datetime | None = None
    #: A signal that was accepted, but not yet seen as a message row (S21).
    accepted_signal_id: str | None = None
    accepted_at: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing would be lost without this row."""
        return self is _EMPTY or self == _EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A record as the claim leaves it, and what the claimer gets."""

    record: NotificationRecord
    sidecar: Sidecar
    claim: NotificationClaim


_EMPTY: Final = Sidecar()

Pair = tuple[NotificationRecord, Sidecar]


# -- deterministic ids ------------------------------------------------------------------------


def full_signal_id(thread_id: str, notification_id: str, count: int) -> str:
    """The id of the full signal of a record in this state (S15)."""
    return uuid5(thread_id, notification_id, "full", count)


def summary_signal_id(thread_id: str, members: Iterable[tuple[str, int]], generation: int) -> str:
    """
    The id of the summary of these members (S15).

    Args:
        thread_id: Whose inbox.
        members: Pairs of record id and ``coalesced_count``, in any order.
        generation: Highest ``generation`` among the claims, so that a retry of one summary
            has its id and the next summary another.
    """
    return uuid5(thread_id, "summary", sorted(map(list, members)), generation)


# -- guards of the ingress --------------------------------------------------------------------


def create_guarded(
    notification: CreateNotification,
    *,
    notification_id: str,
    now: datetime,
    guard_until: datetime | None,
) -> Pair:
    """A new record, due at ``guard_until`` if it has no other schedule (S6)."""
    record = new_record(notification, notification_id=notification_id, now=now)
    return _guard(record, _EMPTY, guard_until)


def merge_guarded(
    record: NotificationRecord,
    sidecar: Sidecar,
    notification: CreateNotification,
    *,
    now: datetime,
    guard_until: datetime | None,
) -> Pair:
    """
    The record with one more event, guarded if it has no schedule of its own (S6).

    During a claim the columns stay moved; the guard waits in the sidecar until the claim
    ends without leaving a schedule.
    """
    merged = merged_record(record, notification, now=now)
    if notification.deliver_at is not None or notification.summary_at is not None:
        if _is_guarded(record, sidecar):
            merged = merged.replace(deliver_at=notification.deliver_at)
        return merged, replace(sidecar, guard_at=None, merged_guard_at=None)
    return _guard(merged, sidecar, guard_until)


def _guard(record: NotificationRecord, sidecar: Sidecar, until: datetime | None) -> Pair:
    if until is None:
        return record, sidecar
    until = moment(until, "guard_until")
    if sidecar.owner is not None and _only_held(record, sidecar):
        return record, replace(sidecar, merged_guard_at=_latest(sidecar.merged_guard_at, until))
    if _is_guarded(record, sidecar) and record.summary_at is None:
        until = _latest(record.deliver_at, until)
    elif due_time(record) is not None:
        return record, sidecar
    return record.replace(deliver_at=until), replace(sidecar, guard_at=until)


def patch_guarded(
    record: NotificationRecord,
    sidecar: Sidecar,
    patch: NotificationPatch,
    *,
    now: datetime,
    settle_guard: bool,
) -> Pair:
    """The record after a patch; settling takes a guard away that still stands (S6)."""
    patched = apply_patch(record, patch, now=now)
    sets_schedule = "deliver_at" in patch.model_fields_set
    if settle_guard and not sets_schedule and _is_guarded(record, sidecar):
        patched = patched.replace(deliver_at=None)
    if settle_guard or sets_schedule:
        sidecar = replace(sidecar, guard_at=None, merged_guard_at=None)
    return patched, sidecar


def patch_expected(
    record: NotificationRecord,
    sidecar: Sidecar,
    patch: NotificationPatch,
    *,
    now: datetime,
    settle_guard: bool,
    expected_statuses: Sequence[str] | None,
    expected_count: int | None,
) -> Pair | None:
    """The same if the record is still what the caller took it for; None if it isn't."""
    if expected_statuses is not None and record.status not in expected_statuses:
        return None
    if expected_count is not None and record.coalesced_count != expected_count:
        return None
    return patch_guarded(record, sidecar, patch, now=now, settle_guard=settle_guard)


def _is_guarded(record: NotificationRecord, sidecar: Sidecar) -> bool:
    """Whether ``deliver_at`` is a guard, directly or behind the claim that moved it."""
    if sidecar.guard_at is None:
        return False
    if _holds_deliver(record, sidecar):
        return sidecar.original_deliver_at == sidecar.guard_at
    return record.deliver_at == sidecar.guard_at


def _latest(left: datetime | None, right: datetime) -> datetime:
    return right if left is None else max(left, right)


# -- claiming ---------------------------------------------------------------------------------


def is_claimable(sidecar: Sidecar | None, *, store_now: datetime) -> bool:
    """True if no claim stands, or it lapsed by the store's clock (S13)."""
    return (
        sidecar is None
        or sidecar.owner is None
        or sidecar.expires_at is None
        or sidecar.expires_at <= store_now
    )


def claim_due(
    record: NotificationRecord,
    sidecar: Sidecar | None,
    *,
    owner: str,
    now: datetime,
    store_now: datetime,
    visibility_ms: int,
) -> Claimed:
    """
    Move the due columns away and remember them (S10, S11).

    Args:
        record: A record that is due at ``now`` and claimable.
        sidecar: Its sidecar; None if it has none yet.
        owner: Who claims.
        now: What counts as due.
        store_now: The store's clock, which dates the claim.
        visibility_ms: How long nobody else sees it.
    """
    before = sidecar or _EMPTY
    # Columns that a lapsed claim had moved count with their value from before it.
    deliver_at = before.original_deliver_at if _holds_deliver(record, before) else record.deliver_at
    summary_at = before.original_summary_at if _holds_summary(record, before) else record.summary_at
    full_due = deliver_at is not None and deliver_at <= now
    summary_due = summary_at is not None and summary_at <= now
    expires_at = store_now + timedelta(milliseconds=visibility_ms)
    after = replace(
        before,
        token=before.token + 1,
        owner=owner,
        expires_at=expires_at,
        full_due=full_due,
        summary_due=summary_due,
        original_deliver_at=deliver_at,
        original_summary_at=summary_at,
        claimed_count=record.coalesced_count,
    )
    original = _scheduled(record, deliver_at, summary_at)
    moved = record.replace(
        deliver_at=expires_at if full_due else deliver_at,
        summary_at=expires_at if summary_due else summary_at,
    )
    guard_expired = full_due and before.guard_at is not None and deliver_at == before.guard_at
    signal_id = full_signal_id(record.thread_id, record.id, record.coalesced_count)
    claim = _claim(original, after, signal_id=signal_id, guard_expired=guard_expired)
    return Claimed(record=moved, sidecar=after, claim=claim)


def is_unconfirmed(
    record: NotificationRecord, sidecar: Sidecar | None, *, before: datetime, store_now: datetime
) -> bool:
    """Accepted before that time, never confirmed, still wanted, and free to claim (S21)."""
    return (
        sidecar is not None
        and sidecar.accepted_signal_id is not None
        and sidecar.accepted_at is not None
        and sidecar.accepted_at < before
        and record.status in {"pending", "delivered"}
        and is_claimable(sidecar, store_now=store_now)
    )


def claim_unconfirmed(
    record: NotificationRecord,
    sidecar: Sidecar,
    *,
    owner: str,
    store_now: datetime,
    visibility_ms: int,
) -> Claimed:
    """Take an accepted but unseen signal to send it again; no column moves (S21)."""
    original, closed = _closed(_restored(record, sidecar), sidecar)
    after = replace(
        closed,
        token=sidecar.token + 1,
        owner=owner,
        expires_at=store_now + timedelta(milliseconds=visibility_ms),
        original_deliver_at=original.deliver_at,
        original_summary_at=original.summary_at,
        claimed_count=record.coalesced_count,
    )
    claim = _claim(original, after, signal_id=sidecar.accepted_signal_id or "", guard_expired=False)
    return Claimed(record=original, sidecar=after, claim=claim)


def _claim(
    record: NotificationRecord, sidecar: Sidecar, *, signal_id: str, guard_expired: bool
) -> NotificationClaim:
    if sidecar.owner is None or sidecar.expires_at is None:
        raise ValueError("A claim needs an owner and an expiry.")
    return NotificationClaim(
        record=record,
        ref=ClaimRef(thread_id=record.thread_id, notification_id=record.id, token=sidecar.token),
        owner=sidecar.owner,
        expires_at=sidecar.expires_at,
        full_due=sidecar.full_due,
        summary_due=sidecar.summary_due,
        guard_expired=guard_expired,
        signal_id=signal_id,
        generation=sidecar.generation,
    )


# -- what may follow a claim ------------------------------------------------------------------


def is_current(sidecar: Sidecar | None, ref: ClaimRef) -> bool:
    """
    Whether a write with this claim may still happen (S12).

    A lapsed claim stays current until somebody else claims.
    """
    return sidecar is not None and sidecar.owner is not None and sidecar.token == ref.token


def extend(
    record: NotificationRecord, sidecar: Sidecar, *, store_now: datetime, visibility_ms: int
) -> Pair:
    """The claim with a new expiry; columns that it holds move along (S14)."""
    expires_at = store_now + timedelta(milliseconds=visibility_ms)
    moved = record.replace(
        deliver_at=expires_at if _holds_deliver(record, sidecar) else record.deliver_at,
        summary_at=expires_at if _holds_summary(record, sidecar) else record.summary_at,
    )
    return moved, replace(sidecar, expires_at=expires_at)


def finalize_full(
    record: NotificationRecord,
    sidecar: Sidecar,
    *,
    delivered_signal_id: str,
    at: datetime,
    now: datetime,
) -> Pair:
    """
    After a full delivery was accepted (S16, S21, S22).

    A pending record that was merged into since the claim stays pending with its schedule
    from before, so it is due again; all others keep or get a status that isn't due.
    """
    at = moment(at, "at")
    restored = _restored(record, sidecar)
    if record.status == "pending" and record.coalesced_count != sidecar.claimed_count:
        again = restored.replace(
            last_delivery_attempt_at=at, last_delivery_error=None, updated_at=now
        )
        return _closed(again, sidecar)
    sent = delivered_record(
        _without_guard(restored, sidecar),
        delivered_signal_id=delivered_signal_id,
        last_delivery_attempt_at=at,
        now=now,
    )
    done, closed = _closed(sent.replace(last_delivery_error=None), sidecar)
    if done.status != "delivered":
        return done, replace(closed, accepted_signal_id=None, accepted_at=None)
    return done, accept(closed, signal_id=delivered_signal_id, at=at)


def finalize_summary(
    record: NotificationRecord,
    sidecar: Sidecar,
    *,
    summary_signal_id: str,
    at: datetime,
    now: datetime,
) -> Pair:
    """
    After a summary with this member was accepted (S17).

    One that stopped being pending only loses its claim.
    """
    if record.status != "pending":
        return release(record, sidecar)
    held = _holds_summary(record, sidecar)
    settled = _without_guard(_restored(record, sidecar), sidecar)
    done = settled.replace(
        summary_at=None if held else settled.summary_at,
        summary_signal_id=summary_signal_id,
        last_delivery_attempt_at=moment(at, "at"),
        last_delivery_error=None,
        updated_at=now,
    )
    done, closed = _closed(done, sidecar)
    return done, replace(closed, generation=sidecar.generation + 1)


def fail(
    record: NotificationRecord,
    sidecar: Sidecar,
    *,
    error: str,
    at: datetime,
    retry_at: datetime,
    max_attempts: int,
    now: datetime,
) -> tuple[NotificationRecord, Sidecar, bool]:
    """
    After a delivery failed (S22): one attempt more, due again at ``retry_at``, or failed.

    Returns:
        The pair, and whether the failure was counted: only a pending record changes.
    """
    if record.status != "pending":
        return (*release(record, sidecar), False)
    attempts = record.delivery_attempts
    if attempts < max_attempts:
        attempts += 1
    gave_up = attempts >= max_attempts
    due_at = moment(retry_at, "retry_at")
    restored = _restored(record, sidecar) if gave_up else _rescheduled(record, sidecar, due_at)
    failed = restored.replace(
        status="failed" if gave_up else record.status,
        delivery_attempts=attempts,
        last_delivery_attempt_at=moment(at, "at"),
        last_delivery_error=error,
        updated_at=now,
    )
    return (*_closed(_without_guard(failed, sidecar) if gave_up else failed, sidecar), True)


def release(
    record: NotificationRecord, sidecar: Sidecar, *, due_at: datetime | None = None
) -> Pair:
    """
    Give a claim back, nothing decided (S19, S20): the schedule from before it, or
    ``due_at`` in place of the columns that were due. A guard stays a guard.
    """
    if due_at is None:
        return _closed(_restored(record, sidecar), sidecar)
    due_at = moment(due_at, "due_at")
    was_guard = _holds_deliver(record, sidecar) and _is_guarded(record, sidecar)
    moved, closed = _closed(_rescheduled(record, sidecar, due_at), sidecar)
    return moved, replace(closed, guard_at=due_at) if was_guard else closed


def requeue(record: NotificationRecord, sidecar: Sidecar, *, now: datetime) -> Pair:
    """
    A failed record, due again at once (S23).

    Raises:
        StorageConflictError: It hasn't failed.
    """
    if record.status != "failed":
        raise StorageConflictError(
            f"Notification {record.id!r} is {record.status!r}, not 'failed', so it can't be "
            "queued again.",
            what="notification",
            expected="failed",
            found=record.status,
        )
    restored, closed = _closed(_restored(record, sidecar), sidecar)
    return requeued_record(restored, now=now), replace(closed, guard_at=None)


def accept(sidecar: Sidecar, *, signal_id: str, at: datetime) -> Sidecar:
    """Remember an accepted signal until it is seen as a message row (S21)."""
    return replace(sidecar, accepted_signal_id=signal_id, accepted_at=moment(at, "at"))


def confirm(sidecar: Sidecar | None, *, signal_id: str) -> Sidecar | None:
    """The sidecar without that acceptance; None if it isn't the one that is waited for."""
    if sidecar is None or sidecar.accepted_signal_id != signal_id:
        return None
    return replace(sidecar, accepted_signal_id=None, accepted_at=None)


# -- columns that a claim moved ---------------------------------------------------------------


def _holds_deliver(record: NotificationRecord, sidecar: Sidecar) -> bool:
    return _is_held(sidecar, record.deliver_at, moved=sidecar.full_due)


def _holds_summary(record: NotificationRecord, sidecar: Sidecar) -> bool:
    return _is_held(sidecar, record.summary_at, moved=sidecar.summary_due)


def _is_held(sidecar: Sidecar, column: datetime | None, *, moved: bool) -> bool:
    """Whether the claim moved the column and nobody set it since."""
    return sidecar.owner is not None and moved and column == sidecar.expires_at


def _only_held(record: NotificationRecord, sidecar: Sidecar) -> bool:
    """Whether nothing but the claim itself keeps the record scheduled."""
    deliver = record.deliver_at is None or _holds_deliver(record, sidecar)
    summary = record.summary_at is None or _holds_summary(record, sidecar)
    return deliver and summary


def _restored(record: NotificationRecord, sidecar: Sidecar) -> NotificationRecord:
    """The record with the columns from before the claim, where nobody else set them."""
    deliver_at, summary_at = record.deliver_at, record.summary_at
    if _holds_deliver(record, sidecar):
        deliver_at = sidecar.original_deliver_at
    if _holds_summary(record, sidecar):
        summary_at = sidecar.original_summary_at
    return _scheduled(record, deliver_at, summary_at)


def _scheduled(
    record: NotificationRecord, deliver_at: datetime | None, summary_at: datetime | None
) -> NotificationRecord:
    """The record with these due times; itself if it has them."""
    if deliver_at is record.deliver_at and summary_at is record.summary_at:
        return record
    return record.replace(deliver_at=deliver_at, summary_at=summary_at)


def _rescheduled(
    record: NotificationRecord, sidecar: Sidecar, due_at: datetime
) -> NotificationRecord:
    """The record with the columns that the claim moved set to another time."""
    return record.replace(
        deliver_at=due_at if _holds_deliver(record, sidecar) else record.deliver_at,
        summary_at=due_at if _holds_summary(record, sidecar) else record.summary_at,
    )


def _without_guard(record: NotificationRecord, sidecar: Sidecar) -> NotificationRecord:
    """The record without a due time that was only a guard: something has been decided."""
    if sidecar.guard_at is None or record.deliver_at != sidecar.guard_at:
        return record
    return record.replace(deliver_at=None)


def _closed(record: NotificationRecord, sidecar: Sidecar) -> Pair:
    """
    The claim ended: token, generation and acceptance stay.

    A guard stays while it is the due time; the guard of an event that came during the claim
    takes effect if nothing else would bring that event out.
    """
    guard_at = sidecar.guard_at if record.deliver_at == sidecar.guard_at else None
    if sidecar.merged_guard_at and record.status == "pending" and due_time(record) is None:
        guard_at = sidecar.merged_guard_at
        record = record.replace(deliver_at=guard_at)
    return record, Sidecar(
        token=sidecar.token,
        generation=sidecar.generation,
        guard_at=guard_at,
        accepted_signal_id=sidecar.accepted_signal_id,
        accepted_at=sidecar.accepted_at,
    )
