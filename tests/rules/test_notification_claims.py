"""Tests of ``mastra_core.rules.notification_claims``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mastra_core.contracts.storage import ClaimRef
from mastra_core.errors import StorageArgumentError, StorageConflictError
from mastra_core.rules import notification_claims as claims
from mastra_core.wire.notifications import (
    CreateNotification,
    NotificationPatch,
    NotificationRecord,
)

__all__ = ()

T0 = datetime(2026, 1, 1, tzinfo=UTC)
NOW = T0 + timedelta(seconds=100)


def at(seconds: int) -> datetime:
    return T0 + timedelta(seconds=seconds)


def event(**members: Any) -> CreateNotification:
    return CreateNotification(
        **{"thread_id": "t", "source": "s", "kind": "k", "summary": "x", **members}
    )


def created(guard_until: datetime | None = None, **members: Any) -> claims.Pair:
    return claims.create_guarded(
        event(**members), notification_id="n", now=T0, guard_until=guard_until
    )


def claimed(pair: claims.Pair, *, now: datetime = NOW) -> claims.Claimed:
    record, sidecar = pair
    return claims.claim_due(
        record, sidecar, owner="o", now=now, store_now=now, visibility_ms=60_000
    )


def test_signal_ids_follow_from_what_they_name() -> None:
    """The same in every process; another count, member or generation is another id."""
    full = claims.full_signal_id("t", "n", 1)

    assert full == claims.full_signal_id("t", "n", 1)
    assert full == "ae739187-9f5e-5886-a585-e37687b0cf9d"
    assert len({full, claims.full_signal_id("t", "n", 2), claims.full_signal_id("u", "n", 1)}) == 3
    members = [("a", 1), ("b", 2)]
    summary = claims.summary_signal_id("t", members, 0)
    assert summary == claims.summary_signal_id("t", reversed(members), 0)
    assert summary != claims.summary_signal_id("t", members, 1)
    assert summary != claims.summary_signal_id("t", [("a", 1), ("b", 3)], 0)


def test_a_claim_moves_due_columns_only() -> None:
    """What isn't due stays; the claim shows both as they were."""
    got = claimed(created(deliver_at=at(1), summary_at=at(500)))

    expires = NOW + timedelta(seconds=60)
    assert (expires, at(500)) == (got.record.deliver_at, got.record.summary_at)
    assert (at(1), at(500)) == (got.claim.record.deliver_at, got.claim.record.summary_at)
    assert (True, False) == (got.claim.full_due, got.claim.summary_due)


def test_a_lapsed_claim_counts_with_its_originals() -> None:
    """The second claim restores what was there before the first."""
    first = claimed(created(deliver_at=at(1), summary_at=at(2)))
    later = NOW + timedelta(seconds=61)

    again = claimed((first.record, first.sidecar), now=later)
    released, sidecar = claims.release(again.record, again.sidecar)

    assert (2, first.claim.signal_id) == (again.claim.ref.token, again.claim.signal_id)
    assert (at(1), at(2)) == (released.deliver_at, released.summary_at)
    assert sidecar.owner is None


def test_a_guard_behind_a_lapsed_claim_is_still_a_guard() -> None:
    """Nobody has decided yet."""
    first = claimed(created(guard_until=at(60)))
    again = claimed((first.record, first.sidecar), now=NOW + timedelta(seconds=61))

    assert [True, True] == [first.claim.guard_expired, again.claim.guard_expired]


def test_a_delivery_in_time_forgets_the_guard() -> None:
    """Nothing but token and acceptance is left."""
    got = claimed(created(guard_until=at(60)))

    record, sidecar = claims.finalize_full(
        got.record, got.sidecar, delivered_signal_id="sig", at=NOW, now=NOW
    )

    assert ("delivered", None) == (record.status, record.deliver_at)
    assert claims.Sidecar(token=1, accepted_signal_id="sig", accepted_at=NOW) == sidecar


def test_a_merged_event_is_delivered_though_its_ingress_died() -> None:
    """A guard, a claim, an event with a guard of its own, a delivery of the old text."""
    got = claimed(created(guard_until=at(60), dedupe_key="k"))
    merged, sidecar = claims.merge_guarded(
        got.record, got.sidecar, event(dedupe_key="k"), now=NOW, guard_until=at(200)
    )

    record, sidecar = claims.finalize_full(
        merged, sidecar, delivered_signal_id="sig", at=NOW, now=NOW
    )

    assert ("pending", at(60), None) == (
        record.status,
        record.deliver_at,
        sidecar.accepted_signal_id,
    )
    assert claimed((record, sidecar)).claim.guard_expired


def test_a_failure_replaces_a_guard_by_a_retry() -> None:
    """The decision was made; only its execution failed."""
    got = claimed(created(guard_until=at(60)))

    record, sidecar, counted = claims.fail(
        got.record, got.sidecar, error="e", at=NOW, retry_at=at(160), max_attempts=5, now=NOW
    )

    assert counted
    assert (at(160), None, 1) == (record.deliver_at, sidecar.guard_at, record.delivery_attempts)


def test_giving_up_restores_the_schedule_without_the_guard() -> None:
    """A failed record shows what was once planned."""
    planned = claimed(created(deliver_at=at(1)))
    guarded = claimed(created(guard_until=at(60)))

    rows = [
        claims.fail(
            got.record, got.sidecar, error="e", at=NOW, retry_at=NOW, max_attempts=1, now=NOW
        )[0]
        for got in (planned, guarded)
    ]

    assert [("failed", at(1)), ("failed", None)] == [(row.status, row.deliver_at) for row in rows]


def test_an_unconfirmed_claim_moves_nothing() -> None:
    """It is taken through the acceptance, not through the schedule."""
    record, sidecar = created(deliver_at=at(500))
    sidecar = claims.accept(sidecar, signal_id="sig", at=at(10))
    assert not claims.is_unconfirmed(record, sidecar, before=at(10), store_now=NOW)
    assert claims.is_unconfirmed(record, sidecar, before=at(11), store_now=NOW)

    got = claims.claim_unconfirmed(record, sidecar, owner="o", store_now=NOW, visibility_ms=60_000)

    assert record == got.record
    assert ("sig", False, False) == (
        got.claim.signal_id,
        got.claim.full_due,
        got.claim.summary_due,
    )
    assert not claims.is_unconfirmed(got.record, got.sidecar, before=at(11), store_now=NOW)
    assert claims.release(got.record, got.sidecar)[0] == record


def test_tokens_belong_to_open_claims() -> None:
    """A closed claim's token is no longer current."""
    got = claimed(created(deliver_at=at(1)))
    ref = got.claim.ref
    assert claims.is_current(got.sidecar, ref)
    assert not claims.is_current(got.sidecar, ClaimRef(thread_id="t", notification_id="n", token=0))
    assert not claims.is_current(None, ref)

    _, closed = claims.release(got.record, got.sidecar)

    assert not claims.is_current(closed, ref)


def test_times_without_a_zone_are_refused() -> None:
    """A naive retry would be due at another time elsewhere."""
    got = claimed(created(deliver_at=at(1)))

    with pytest.raises(StorageArgumentError):
        claims.release(got.record, got.sidecar, due_at=NOW.replace(tzinfo=None))
    with pytest.raises(StorageArgumentError):
        created(guard_until=NOW.replace(tzinfo=None))


def test_an_empty_sidecar_needs_no_row() -> None:
    """It says nothing."""
    assert claims.Sidecar().is_empty
    assert not claims.Sidecar(token=1).is_empty
    assert claims.confirm(None, signal_id="s") is None


# -- whatever happens, no event is lost ---------------------------------------------------------


@dataclass
class Inbox:
    """One record, its claimers, and how many events were delivered."""

    record: NotificationRecord
    sidecar: claims.Sidecar
    now: datetime = T0
    token: int = 0
    delivered: int = 0

    @property
    def ref(self) -> ClaimRef:
        return ClaimRef(thread_id="t", notification_id="n", token=self.token)

    def put(self, pair: claims.Pair) -> None:
        self.record, self.sidecar = pair

    def step(self, name: str) -> None:
        self.now += timedelta(seconds=7)
        getattr(self, name)()

    def merge(self) -> None:
        if self.record.status == "pending":
            guard = self.now + timedelta(seconds=60)
            self.put(
                claims.merge_guarded(
                    self.record, self.sidecar, event(), now=self.now, guard_until=guard
                )
            )

    def claim(self) -> None:
        due = self.record.deliver_at is not None and self.record.deliver_at <= self.now
        if not due or not claims.is_claimable(self.sidecar, store_now=self.now):
            return
        got = claims.claim_due(
            self.record,
            self.sidecar,
            owner="o",
            now=self.now,
            store_now=self.now,
            visibility_ms=10_000,
        )
        assert got.claim.ref.token > self.token
        self.put((got.record, got.sidecar))
        self.token = got.claim.ref.token

    def finalize(self) -> None:
        if claims.is_current(self.sidecar, self.ref):
            count = self.sidecar.claimed_count
            self.put(
                claims.finalize_full(
                    self.record, self.sidecar, delivered_signal_id="s", at=self.now, now=self.now
                )
            )
            self.delivered = max(self.delivered, count)

    def fail(self) -> None:
        if claims.is_current(self.sidecar, self.ref):
            record, sidecar, _ = claims.fail(
                self.record,
                self.sidecar,
                error="e",
                at=self.now,
                retry_at=self.now + timedelta(seconds=30),
                max_attempts=1000,
                now=self.now,
            )
            self.put((record, sidecar))

    def release(self) -> None:
        if claims.is_current(self.sidecar, self.ref):
            self.put(claims.release(self.record, self.sidecar))

    def extend(self) -> None:
        if claims.is_current(self.sidecar, self.ref):
            self.put(
                claims.extend(self.record, self.sidecar, store_now=self.now, visibility_ms=10_000)
            )

    def crash(self) -> None:
        """Whoever held the claim is gone; its token is never used again."""
        self.token = 0


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(["merge", "claim", "finalize", "fail", "release", "extend", "crash"]),
        max_size=25,
    )
)
def test_no_order_of_steps_loses_an_event(steps: list[str]) -> None:
    """After any history a dispatcher that works delivers the record with all its events."""
    record, sidecar = created(guard_until=at(60), dedupe_key="k")
    world = Inbox(record, sidecar)
    for step in steps:
        world.step(step)

    for _ in range(20):
        world.now += timedelta(seconds=60)
        world.claim()
        world.finalize()

    assert world.record.status == "delivered"
    assert world.record.coalesced_count == world.delivered
    assert replace(world.sidecar, accepted_signal_id=None, accepted_at=None).owner is None


@given(
    deliver=st.none() | st.integers(0, 200),
    summary=st.none() | st.integers(0, 200),
    attempts=st.integers(1, 4),
)
def test_claims_that_come_to_nothing_leave_no_trace(
    deliver: int | None, summary: int | None, attempts: int
) -> None:
    """However often a record is claimed, extended and released, its schedule is what it was."""
    pair = created(
        deliver_at=None if deliver is None else at(deliver),
        summary_at=None if summary is None else at(summary),
    )
    before = pair[0]
    now = NOW
    for _ in range(attempts):
        got = claimed(pair, now=now)
        moved, sidecar = claims.extend(got.record, got.sidecar, store_now=now, visibility_ms=90_000)
        pair = claims.release(moved, sidecar)

    assert before == pair[0]


def test_settling_is_final_whatever_the_claim_does() -> None:
    """An ingress that decides late wins over the claim of its guard."""
    got = claimed(created(guard_until=at(60)))
    patched, sidecar = claims.patch_guarded(
        got.record, got.sidecar, NotificationPatch(), now=NOW, settle_guard=True
    )

    ends = [
        claims.release(patched, sidecar),
        claims.release(patched, sidecar, due_at=at(500)),
        claims.fail(patched, sidecar, error="e", at=NOW, retry_at=at(500), max_attempts=5, now=NOW)[
            :2
        ],
    ]

    assert [None, None, None] == [record.deliver_at for record, _ in ends]
    assert [None, None, None] == [closed.guard_at for _, closed in ends]


@pytest.mark.parametrize(
    ("statuses", "count", "expected"),
    [(None, None, True), (["pending"], 1, True), (["seen"], None, False), (None, 2, False)],
)
def test_a_patch_may_expect_what_it_changes(
    statuses: list[str] | None, count: int | None, expected: bool
) -> None:
    record, sidecar = created()

    patched = claims.patch_expected(
        record,
        sidecar,
        NotificationPatch(summary="new"),
        now=NOW,
        settle_guard=False,
        expected_statuses=statuses,
        expected_count=count,
    )

    assert expected == (patched is not None and patched[0].summary == "new")


def test_only_what_failed_is_queued_again() -> None:
    record, sidecar = created()

    with pytest.raises(StorageConflictError, match="is 'pending', not 'failed'"):
        claims.requeue(record, sidecar, now=NOW)
