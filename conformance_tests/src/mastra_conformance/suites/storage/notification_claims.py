"""Claims on due records: who sends what, and what a crash leaves (notifications.md 13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.fixtures import OpenStore
from mastra_conformance.processes import Processes
from mastra_conformance.subject import Subject
from mastra_conformance.suite import Suite
from mastra_conformance.suites.storage.crowds import at_once, in_crowd
from mastra_conformance.suites.storage.notifications import inbox, set_status, stored
from mastra_conformance.suites.storage.things import T0, at, event
from mastra_core.contracts.storage import ClaimRef, NotificationClaim, Storage
from mastra_core.errors import (
    NotificationNotFoundError,
    StorageArgumentError,
    StorageConflictError,
)
from mastra_core.rules.notification_claims import full_signal_id
from mastra_core.wire.notifications import NotificationPatch

__all__ = (
    "NOW",
    "VISIBILITY_MS",
    "ClaimCrowdSuite",
    "ClaimSuite",
    "Elapse",
    "claim",
    "claim_all",
    "claim_one",
    "due",
    "scheduled",
)

Elapse = Callable[[int], Awaitable[None]]

NOW = at(100)
"""A time at which everything that the tests schedule is due."""

VISIBILITY_MS = 400
"""How long claims last that a test lets lapse; a server's clock really waits for it."""


async def due(store: Storage, now: datetime = NOW) -> list[str]:
    """The ids of what anybody would list as due."""
    return [row.id for row in await store.notifications.list_due_notifications(now)]


async def claim(store: Storage, owner: str = "one", **options: Any) -> list[NotificationClaim]:
    """Claim what is due at ``NOW``."""
    return await store.notifications.claim_due(NOW, owner, **options)


async def claim_one(store: Storage, owner: str = "one", **options: Any) -> NotificationClaim:
    """Claim the only record that is due."""
    claims = await claim(store, owner, **options)
    assert len(claims) == 1
    return claims[0]


async def scheduled(store: Storage, notification_id: str = "n1", **members: Any) -> None:
    """Create a record that is due for full delivery."""
    given = {"deliver_at": at(1), "created_at": T0, **members}
    await store.notifications.create_notification(event(id=notification_id, **given))


class ClaimSuite(Suite):
    """What a claim moves, and how it ends."""

    capabilities = ("notifications", "notifications.claims")

    # -- claiming -------------------------------------------------------------------------------

    async def test_a_claim_tells_everything_that_sending_needs(
        self, store: Storage, clock: ShiftedClock
    ) -> None:
        """The record with its own schedule, what is due, the signal's id, the end of the claim."""
        await scheduled(store, deliver_at=at(1), summary_at=at(200), payload={"a": 1})

        got = await claim_one(store, visibility_ms=60_000)

        assert (at(1), at(200)) == (got.record.deliver_at, got.record.summary_at)
        assert got.record.payload == {"a": 1}
        assert (True, False, False) == (got.full_due, got.summary_due, got.guard_expired)
        assert full_signal_id("t1", "n1", 1) == got.signal_id
        assert ("one", "t1", "n1", 0) == (
            got.owner,
            got.ref.thread_id,
            got.ref.notification_id,
            got.generation,
        )
        remaining = got.expires_at - clock.now()
        assert timedelta(seconds=30) < remaining <= timedelta(seconds=61)

    async def test_claims_come_in_the_order_of_what_is_due(self, store: Storage) -> None:
        """Earliest first; the limit and the filters hold."""
        for number in (3, 1, 2, 4):
            await scheduled(
                store,
                f"n{number}",
                deliver_at=at(number),
                agent_id=None if number == 4 else f"a{number % 2}",
                thread_id="t2" if number == 3 else "t1",
            )

        first = await claim(store, limit=1, agent_ids=["a1"])
        of_thread = await claim(store, thread_id="t1", limit=1)
        rest = await claim(store, agent_ids=["a1"])

        assert ["n1"] == [got.record.id for got in first]
        assert ["n2"] == [got.record.id for got in of_thread]
        # A record without an agent is claimed by anybody: only so is its fault recorded.
        assert ["n3", "n4"] == [got.record.id for got in rest]

    @case("notifications", 92)
    async def test_a_claimed_record_is_due_for_nobody(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Neither listing nor claiming, through any handle, shows it before the claim ends."""
        await scheduled(store)
        await scheduled(store, "n2", deliver_at=None, summary_at=at(2))

        claims = await claim(store)
        ends = max(got.expires_at for got in claims)
        last = min(got.expires_at for got in claims) - timedelta(milliseconds=1)

        async with open_store() as other:
            assert ([], []) == (await due(store), await due(other))
            assert ([], []) == (await claim(store), await claim(other, "two"))
            assert ([], []) == (await due(store, last), await due(other, last))
            assert [] == await other.notifications.claim_due(last, "two")
            assert {"n1", "n2"} == set(await due(other, ends))

    @case("notifications", 93)
    async def test_a_claim_leaves_status_attempts_and_update_time_alone(
        self, store: Storage
    ) -> None:
        """The inbox shows the same records in the same order."""
        await scheduled(store, "n1")
        await scheduled(store, "n2", created_at=at(1), deliver_at=None)
        await scheduled(store, "n3", created_at=at(2))
        before = {name: await stored(store, name) for name in ("n1", "n3")}
        order = await inbox(store)

        claims = await claim(store)
        await store.notifications.extend_claim(claims[0].ref)
        await store.notifications.release_claims([got.ref for got in claims])
        await claim(store)

        assert ["n3", "n2", "n1"] == order == await inbox(store)
        for name, record in before.items():
            same = {"status", "delivery_attempts", "updated_at", "created_at"}
            now = await stored(store, name)
            assert record.model_dump(include=same) == now.model_dump(include=same)

    async def test_a_record_that_is_not_due_is_not_claimed(self, store: Storage) -> None:
        """Not pending, not scheduled, not yet."""
        await scheduled(store, "future", deliver_at=at(101))
        await scheduled(store, "bare", deliver_at=None)
        await scheduled(store, "seen")
        await set_status(store, "seen", "seen")

        assert await claim(store) == []

    @pytest.mark.parametrize(
        "options", [{"limit": 0}, {"limit": -1}, {"visibility_ms": 0}, {"owner": ""}]
    )
    async def test_a_claim_without_sense_is_refused(
        self, store: Storage, options: dict[str, Any]
    ) -> None:
        """No limit below one, no claim without an owner or an end."""
        with pytest.raises(StorageArgumentError):
            await claim(store, **{"owner": "one", **options})

    # -- expiry and fencing ---------------------------------------------------------------------

    @case("notifications", 95)
    async def test_a_lapsed_claim_is_given_anew_with_the_same_signal(
        self, store: Storage, elapse: Elapse
    ) -> None:
        """The id that may have been sent already stays, the token grows."""
        await scheduled(store, deliver_at=at(1), summary_at=at(2))
        first = await claim_one(store, visibility_ms=VISIBILITY_MS)

        await elapse(VISIBILITY_MS + 50)
        again = await store.notifications.claim_due(first.expires_at + timedelta(seconds=1), "two")

        assert [first.signal_id] == [got.signal_id for got in again]
        assert again[0].ref.token > first.ref.token
        assert (at(1), at(2)) == (again[0].record.deliver_at, again[0].record.summary_at)
        assert (True, True) == (again[0].full_due, again[0].summary_due)

    async def test_a_lapsed_claim_makes_the_record_due_for_everybody(
        self, store: Storage, elapse: Elapse
    ) -> None:
        """S13: also plain listing, which knows nothing of claims, shows it."""
        await scheduled(store)
        got = await claim_one(store, visibility_ms=VISIBILITY_MS)

        await elapse(VISIBILITY_MS + 50)

        assert ["n1"] == await due(store, got.expires_at)

    @case("notifications", 94)
    async def test_a_stale_token_writes_nothing(self, store: Storage, elapse: Elapse) -> None:
        """Whoever slept past his claim can't touch his successor's result."""
        await scheduled(store)
        stale = (await claim_one(store, visibility_ms=VISIBILITY_MS)).ref
        await elapse(VISIBILITY_MS + 50)
        later = (await stored(store)).deliver_at
        assert later is not None
        current = (await store.notifications.claim_due(later, "two"))[0].ref
        before = await stored(store)

        finalized = await store.notifications.finalize_full(
            stale, delivered_signal_id="stale", at=NOW
        )
        summarized = await store.notifications.finalize_summary(
            [stale], summary_signal_id="stale", at=NOW
        )
        failed = await store.notifications.fail_claims(
            [stale], error="stale", at=NOW, retry_at=[NOW], max_attempts=5
        )
        released = await store.notifications.release_claims([stale])
        extended = await store.notifications.extend_claim(stale)

        assert (None, False, [], 0, False) == (finalized, summarized, failed, released, extended)
        assert before.to_wire() == (await stored(store)).to_wire()
        assert await store.notifications.extend_claim(current)

    async def test_a_claim_that_lapsed_unnoticed_may_still_be_finished(
        self, store: Storage, elapse: Elapse
    ) -> None:
        """As long as nobody else claimed, the signal that was sent is recorded."""
        await scheduled(store)
        got = await claim_one(store, visibility_ms=VISIBILITY_MS)
        await elapse(VISIBILITY_MS + 50)

        done = await store.notifications.finalize_full(
            got.ref, delivered_signal_id=got.signal_id, at=NOW
        )

        assert done is not None
        assert ("delivered", at(1)) == (done.status, done.deliver_at)

    @case("notifications", 96)
    async def test_extending_keeps_others_out(self, store: Storage, elapse: Elapse) -> None:
        """A send of three times the visibility is not stolen if the claim is extended."""
        await scheduled(store, summary_at=at(2))
        got = await claim_one(store, visibility_ms=600)

        for _ in range(9):
            await elapse(200)
            assert await store.notifications.extend_claim(got.ref, visibility_ms=600)
            assert await claim(store, "two") == []

        done = await store.notifications.finalize_full(
            got.ref, delivered_signal_id=got.signal_id, at=NOW
        )
        assert done is not None
        assert (at(1), at(2)) == (done.deliver_at, done.summary_at)

    # -- a full delivery ------------------------------------------------------------------------

    @case("notifications", 97)
    async def test_a_full_delivery_restores_the_schedule(self, store: Storage) -> None:
        """Afterwards ``deliver_at`` is what it was, and nothing is due."""
        await scheduled(store, deliver_at=at(1), summary_at=at(2))
        await store.notifications.update_notification(
            "t1", "n1", NotificationPatch(last_delivery_error="boom")
        )
        got = await claim_one(store)

        done = await store.notifications.finalize_full(
            got.ref, delivered_signal_id=got.signal_id, at=at(50)
        )

        record = await stored(store)
        assert done is not None
        assert done.to_wire() == record.to_wire()
        assert ("delivered", got.signal_id, at(50), None) == (
            record.status,
            record.delivered_signal_id,
            record.last_delivery_attempt_at,
            record.last_delivery_error,
        )
        assert (at(1), at(2), 0) == (
            record.deliver_at,
            record.summary_at,
            record.delivery_attempts,
        )
        assert record.delivered_at == record.updated_at > T0
        assert await due(store) == []

    @pytest.mark.parametrize("status", ["seen", "dismissed", "archived", "discarded"])
    async def test_a_full_delivery_never_downgrades(self, store: Storage, status: str) -> None:
        """S16: what somebody did during the send stays; the signal's id is noted."""
        await scheduled(store)
        got = await claim_one(store)
        await set_status(store, "n1", status)

        done = await store.notifications.finalize_full(
            got.ref, delivered_signal_id=got.signal_id, at=NOW
        )

        assert done is not None
        assert (status, got.signal_id, at(1), None) == (
            done.status,
            done.delivered_signal_id,
            done.deliver_at,
            done.delivered_at,
        )

    @case("notifications", 90)
    async def test_an_event_that_came_during_the_send_is_delivered_next(
        self, store: Storage
    ) -> None:
        """The record stays pending and due, with another signal id for the new text."""
        await scheduled(store, dedupe_key="k")
        first = await claim_one(store)
        await store.notifications.create_notification(event(dedupe_key="k", summary="newer"))

        done = await store.notifications.finalize_full(
            first.ref, delivered_signal_id=first.signal_id, at=NOW
        )

        assert done is not None
        assert done.status == "pending"
        again = await claim_one(store, "two")
        assert ("newer", full_signal_id("t1", "n1", 2)) == (again.record.summary, again.signal_id)
        assert first.signal_id != again.signal_id
        final = await store.notifications.finalize_full(
            again.ref, delivered_signal_id=again.signal_id, at=NOW
        )
        assert final is not None
        assert final.status == "delivered"

    async def test_a_schedule_set_during_the_claim_stays(self, store: Storage) -> None:
        """S17: what somebody else decided meanwhile is not overwritten by the end of a claim."""
        for name in ("full", "summary", "failed", "released"):
            await scheduled(store, name, deliver_at=at(1), summary_at=at(2))
        refs = {got.record.id: got.ref for got in await claim(store)}
        for name in refs:
            await store.notifications.update_notification(
                "t1", name, NotificationPatch(deliver_at=at(500), summary_at=None)
            )

        await store.notifications.finalize_full(refs["full"], delivered_signal_id="s", at=NOW)
        await store.notifications.finalize_summary([refs["summary"]], summary_signal_id="s", at=NOW)
        await store.notifications.fail_claims(
            [refs["failed"]], error="e", at=NOW, retry_at=[at(300)], max_attempts=5
        )
        await store.notifications.release_claims([refs["released"]], due_at=at(300))

        rows = [await stored(store, name) for name in refs]
        assert {(at(500), None)} == {(row.deliver_at, row.summary_at) for row in rows}

    async def test_a_finished_claim_is_over(self, store: Storage) -> None:
        """A second final write with the same token does nothing."""
        await scheduled(store)
        got = await claim_one(store)
        await store.notifications.finalize_full(got.ref, delivered_signal_id="first", at=NOW)

        again = await store.notifications.finalize_full(
            got.ref, delivered_signal_id="second", at=NOW
        )

        assert again is None
        assert (await stored(store)).delivered_signal_id == "first"

    async def test_a_token_of_nothing_is_not_current(self, store: Storage) -> None:
        """Unknown records and tokens are an answer, not an error."""
        await scheduled(store)
        refs = [
            ClaimRef(thread_id="t1", notification_id="n1", token=1),
            ClaimRef(thread_id="t1", notification_id="nowhere", token=1),
        ]

        for ref in refs:
            assert not await store.notifications.extend_claim(ref)
            assert not await store.notifications.finalize_summary(
                [ref], summary_signal_id="s", at=NOW
            )
        assert await store.notifications.release_claims(refs) == 0

    # -- summaries ------------------------------------------------------------------------------

    async def test_a_summary_ends_the_summary_schedule_only(self, store: Storage) -> None:
        """S17: pending as before, ``summary_at`` cleared, the full delivery still to come."""
        await scheduled(store, "n1", deliver_at=None, summary_at=at(2))
        await scheduled(store, "n2", deliver_at=at(1), summary_at=at(2))
        claims = await claim(store)

        done = await store.notifications.finalize_summary(
            [got.ref for got in claims], summary_signal_id="sum", at=at(50)
        )

        rows = [await stored(store, name) for name in ("n1", "n2")]
        assert done
        assert {("pending", None, "sum", at(50), 0)} == {
            (
                row.status,
                row.summary_at,
                row.summary_signal_id,
                row.last_delivery_attempt_at,
                row.delivery_attempts,
            )
            for row in rows
        }
        assert [None, at(1)] == [row.deliver_at for row in rows]
        assert ["n2"] == await due(store)
        assert [1] == [got.generation for got in await claim(store)]

    async def test_a_summary_is_finished_for_all_or_none(self, store: Storage) -> None:
        """S17: one stale member stops the whole write."""
        for name in ("n1", "n2"):
            await scheduled(store, name, deliver_at=None, summary_at=at(2))
        first, second = await claim(store)
        await store.notifications.release_claims([second.ref])
        before = [await stored(store, name) for name in ("n1", "n2")]

        done = await store.notifications.finalize_summary(
            [first.ref, second.ref], summary_signal_id="sum", at=NOW
        )

        assert not done
        after = [await stored(store, name) for name in ("n1", "n2")]
        assert [row.to_wire() for row in before] == [row.to_wire() for row in after]
        assert await store.notifications.finalize_summary(
            [first.ref], summary_signal_id="sum", at=NOW
        )

    async def test_a_member_that_was_dismissed_is_not_summarized(self, store: Storage) -> None:
        """S17: it only loses its claim and keeps no signal id."""
        for name in ("n1", "n2"):
            await scheduled(store, name, deliver_at=None, summary_at=at(2))
        claims = await claim(store)
        await set_status(store, "n2", "dismissed")

        done = await store.notifications.finalize_summary(
            [got.ref for got in claims], summary_signal_id="sum", at=NOW
        )

        dismissed = await stored(store, "n2")
        assert done
        assert ("dismissed", None, at(2)) == (
            dismissed.status,
            dismissed.summary_signal_id,
            dismissed.summary_at,
        )

    # -- failures -------------------------------------------------------------------------------

    @case("notifications", 78)
    async def test_a_failure_is_counted_and_tried_again_later(self, store: Storage) -> None:
        """Pending with one attempt more and its error; the fifth failure is the last."""
        await scheduled(store)

        for attempt in range(1, 6):
            got = await claim_one(store)
            failed = await store.notifications.fail_claims(
                [got.ref], error=f"boom {attempt}", at=at(50), retry_at=[at(60)], max_attempts=5
            )
            assert [attempt] == [row.delivery_attempts for row in failed]
            record = await stored(store)
            assert (f"boom {attempt}", at(50)) == (
                record.last_delivery_error,
                record.last_delivery_attempt_at,
            )
            if attempt < 5:
                assert ("pending", at(60)) == (record.status, record.deliver_at)
                assert ([], ["n1"]) == (await due(store, at(59)), await due(store, at(60)))

        assert record.status == "failed"
        assert await due(store) == []

    @case("notifications", 79)
    async def test_attempts_over_the_limit_stay_as_they_are(self, store: Storage) -> None:
        """A record with 288 attempts fails with 288."""
        await scheduled(store)
        await store.notifications.update_notification(
            "t1", "n1", NotificationPatch(delivery_attempts=288)
        )
        got = await claim_one(store)

        await store.notifications.fail_claims(
            [got.ref], error="boom", at=NOW, retry_at=[NOW], max_attempts=5
        )

        record = await stored(store)
        assert ("failed", 288) == (record.status, record.delivery_attempts)

    async def test_a_failure_never_changes_a_seen_record(self, store: Storage) -> None:
        """S22: no attempt, no error, no status; the other claims are counted."""
        await scheduled(store, "n1")
        await scheduled(store, "n2")
        claims = await claim(store)
        await set_status(store, "n1", "seen")

        failed = await store.notifications.fail_claims(
            [got.ref for got in claims],
            error="boom",
            at=NOW,
            retry_at=[at(500), at(600)],
            max_attempts=1,
        )

        assert [("n2", "failed")] == [(row.id, row.status) for row in failed]
        seen = await stored(store, "n1")
        assert ("seen", 0, None, at(1)) == (
            seen.status,
            seen.delivery_attempts,
            seen.last_delivery_error,
            seen.deliver_at,
        )

    async def test_a_failed_summary_moves_the_summary_only(self, store: Storage) -> None:
        """S20: the retry stands in the column that was due."""
        await scheduled(store, deliver_at=at(900), summary_at=at(2))
        got = await claim_one(store)

        await store.notifications.fail_claims(
            [got.ref], error="boom", at=NOW, retry_at=[at(300)], max_attempts=5
        )

        record = await stored(store)
        assert (at(900), at(300)) == (record.deliver_at, record.summary_at)

    async def test_every_claim_needs_its_own_retry(self, store: Storage) -> None:
        """Lists of different lengths are a fault, and nothing is written."""
        await scheduled(store)
        got = await claim_one(store)

        with pytest.raises(StorageArgumentError):
            await store.notifications.fail_claims(
                [got.ref], error="boom", at=NOW, retry_at=[], max_attempts=5
            )

        assert (await stored(store)).delivery_attempts == 0

    # -- giving back ----------------------------------------------------------------------------

    async def test_a_released_record_is_as_it_was(self, store: Storage) -> None:
        """S19: its schedule returns, no attempt is counted."""
        await scheduled(store, deliver_at=at(1), summary_at=at(2))
        before = await stored(store)
        got = await claim_one(store)

        released = await store.notifications.release_claims([got.ref])

        assert released == 1
        assert before.to_wire() == (await stored(store)).to_wire()
        again = await claim_one(store, "two")
        assert again.ref.token > got.ref.token

    async def test_a_record_may_be_released_for_later(self, store: Storage) -> None:
        """S20: the columns that were due move, the others stay; attempts are unchanged."""
        await scheduled(store, deliver_at=at(1), summary_at=at(900))
        got = await claim_one(store)

        await store.notifications.release_claims([got.ref], due_at=at(130))

        record = await stored(store)
        assert (at(130), at(900), 0) == (
            record.deliver_at,
            record.summary_at,
            record.delivery_attempts,
        )
        assert await due(store) == []

    @case("notifications", 100)
    async def test_a_failed_record_can_be_queued_again(
        self, store: Storage, clock: ShiftedClock
    ) -> None:
        """Pending, attempts 0, due now; from any other status an error."""
        await scheduled(store)
        await store.notifications.update_notification(
            "t1", "n1", NotificationPatch(status="failed", delivery_attempts=5)
        )

        again = await store.notifications.requeue("t1", "n1")

        assert ("pending", 0) == (again.status, again.delivery_attempts)
        soon = clock.now() + timedelta(minutes=1)
        assert ["n1"] == await due(store, soon)
        with pytest.raises(StorageConflictError):
            await store.notifications.requeue("t1", "n1")
        with pytest.raises(NotificationNotFoundError):
            await store.notifications.requeue("t1", "nowhere")

    # -- guards ---------------------------------------------------------------------------------

    async def test_an_expired_guard_is_told(self, store: Storage) -> None:
        """S6: the ingress never decided, so the policy has to be asked again."""
        await store.notifications.create_notification(event(id="n1"), guard_until=at(60))

        got = await claim_one(store)

        assert (True, True) == (got.full_due, got.guard_expired)

    async def test_a_delivery_takes_the_guard_away(self, store: Storage) -> None:
        """S6: a successful delivery restores None."""
        for name in ("full", "summary"):
            await store.notifications.create_notification(event(id=name), guard_until=at(60))
        refs = {got.record.id: got.ref for got in await claim(store)}

        await store.notifications.finalize_full(refs["full"], delivered_signal_id="s", at=NOW)
        await store.notifications.finalize_summary([refs["summary"]], summary_signal_id="s", at=NOW)

        assert [None, None] == [(await stored(store, name)).deliver_at for name in refs]
        assert await due(store) == []

    async def test_a_released_guard_stays_a_guard(self, store: Storage) -> None:
        """S6: nothing was decided, so the next claimer asks the policy, too."""
        for name in ("now", "later"):
            await store.notifications.create_notification(event(id=name), guard_until=at(60))
        refs = {got.record.id: got.ref for got in await claim(store)}

        await store.notifications.release_claims([refs["now"]])
        await store.notifications.release_claims([refs["later"]], due_at=at(90))

        assert {("now", True), ("later", True)} == {
            (got.record.id, got.guard_expired) for got in await claim(store)
        }

    async def test_an_ingress_that_decides_late_settles_behind_the_claim(
        self, store: Storage
    ) -> None:
        """S6: its decision stands, whatever the claimer does with the record."""
        await store.notifications.create_notification(event(id="n1"), guard_until=at(60))
        got = await claim_one(store)

        await store.notifications.update_notification(
            "t1", "n1", NotificationPatch(delivery_reason="persisted"), settle_guard=True
        )
        await store.notifications.release_claims([got.ref])

        assert (await stored(store)).deliver_at is None
        assert await due(store, at(10_000)) == []

    async def test_an_event_that_came_during_a_summary_is_not_forgotten(
        self, store: Storage
    ) -> None:
        """S6: its guard takes effect when the claim leaves no schedule."""
        await scheduled(store, deliver_at=None, summary_at=at(2), dedupe_key="k")
        got = await claim_one(store)
        await store.notifications.create_notification(
            event(dedupe_key="k", summary="newer"), guard_until=at(160)
        )

        await store.notifications.finalize_summary([got.ref], summary_signal_id="s", at=NOW)

        assert (await stored(store)).deliver_at == at(160)
        again = await store.notifications.claim_due(at(160), "two")
        assert [True] == [other.guard_expired for other in again]

    # -- confirmation ---------------------------------------------------------------------------

    async def test_an_accepted_signal_is_sent_again_until_it_is_confirmed(
        self, store: Storage
    ) -> None:
        """S21: the same id, to one claimer at a time; confirming ends it."""
        await scheduled(store)
        got = await claim_one(store)
        await store.notifications.finalize_full(
            got.ref, delivered_signal_id=got.signal_id, at=at(50)
        )

        early = await store.notifications.claim_unconfirmed(at(50), "two")
        late = await store.notifications.claim_unconfirmed(at(51), "two")
        busy = await store.notifications.claim_unconfirmed(at(51), "three")
        other = await store.notifications.confirm_delivery("t1", "n1", signal_id="other")
        await store.notifications.release_claims([one.ref for one in late])
        confirmed = await store.notifications.confirm_delivery("t1", "n1", signal_id=got.signal_id)
        after = await store.notifications.claim_unconfirmed(at(51), "two")

        assert ([], [], []) == (early, busy, after)
        assert [got.signal_id] == [one.signal_id for one in late]
        assert late[0].ref.token > got.ref.token
        assert (False, True) == (other, confirmed)
        assert (await stored(store)).status == "delivered"

    async def test_only_what_is_still_wanted_is_sent_again(self, store: Storage) -> None:
        """S21: seen records are not; acceptances of the ingress are; agents filter."""
        for name, agent in (("n1", "a1"), ("n2", "a1"), ("n3", "a2")):
            await scheduled(store, name, agent_id=agent, deliver_at=None)
            await store.notifications.record_acceptance(
                "t1", name, signal_id=f"sig-{name}", at=at(10)
            )
        await set_status(store, "n1", "seen")

        claims = await store.notifications.claim_unconfirmed(at(20), "two", agent_ids=["a1"])

        assert [("n2", "sig-n2", False)] == [
            (got.record.id, got.signal_id, got.full_due) for got in claims
        ]

    async def test_confirming_the_unknown_is_false(self, store: Storage) -> None:
        """No record, no acceptance: an answer, not an error."""
        await scheduled(store)

        assert not await store.notifications.confirm_delivery("t1", "n1", signal_id="s")
        assert not await store.notifications.confirm_delivery("t1", "nowhere", signal_id="s")


async def claim_all(store: Storage, arguments: Mapping[str, Any]) -> list[str]:
    """One member of a crowd: claim in small portions until nothing is left."""
    got: list[str] = []
    while claims := await store.notifications.claim_due(NOW, arguments["owner"], limit=7):
        got += [one.record.id for one in claims]
    return got


class ClaimCrowdSuite(Suite):
    """What many dispatchers at once get."""

    capabilities = ("notifications", "notifications.claims")
    tier = 2

    @case("notifications", 91)
    async def test_claimers_get_disjoint_sets_that_cover_everything(
        self, store: Storage, subject: Subject, open_store: OpenStore, processes: Processes
    ) -> None:
        """Four processes, a hundred due records, each of them claimed exactly once."""
        names = [f"n{number:03}" for number in range(100)]
        for name in names:
            await scheduled(store, name)

        got = await in_crowd(
            claim_all,
            [{"owner": f"p{number}"} for number in range(4)],
            subject=subject,
            open_store=open_store,
            processes=processes,
        )

        assert names == sorted(name for part in got for name in part)

    async def test_tasks_of_two_handles_get_disjoint_sets(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Also within one process, many at the same time."""
        names = [f"n{number:02}" for number in range(40)]
        for name in names:
            await scheduled(store, name)

        async with open_store() as other:
            results: Sequence[Any] = await at_once(
                [
                    claim(handle, f"{owner}{number}", limit=3)
                    for number in range(10)
                    for owner, handle in (("a", store), ("b", other))
                ]
            )

        assert [] == [result for result in results if isinstance(result, BaseException)]
        taken = [got.record.id for part in results for got in part]
        assert len(taken) == len(set(taken))
        rest = await claim(store, "rest")
        assert names == sorted([*taken, *(got.record.id for got in rest)])

    async def test_of_two_final_writes_with_one_token_one_wins(
        self, store: Storage, open_store: OpenStore
    ) -> None:
        """Finalising and failing the same claim: exactly one happened."""
        for number in range(10):
            await scheduled(store, f"n{number}")
        claims = await claim(store)

        async with open_store() as other:
            results: Sequence[Any] = await at_once(
                [
                    call
                    for got in claims
                    for call in (
                        store.notifications.finalize_full(
                            got.ref, delivered_signal_id=got.signal_id, at=NOW
                        ),
                        other.notifications.fail_claims(
                            [got.ref], error="boom", at=NOW, retry_at=[at(500)], max_attempts=5
                        ),
                    )
                ]
            )

        pairs = list(zip(results[::2], results[1::2], strict=True))
        assert [1] * 10 == [(done is not None) + len(failed) for done, failed in pairs]
        for got, (done, _) in zip(claims, pairs, strict=True):
            record = await stored(store, got.record.id)
            assert (("delivered", 0) if done else ("pending", 1)) == (
                record.status,
                record.delivery_attempts,
            )
