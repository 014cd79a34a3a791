"""What a dispatcher makes of lost claims, failing stores and signals that nobody saw
(notifications.md S12-S22).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.suite import Suite
from mastra_conformance.suites.runtime.inboxes import THREAD, Inbox
from mastra_core.base.ids import Ids
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.contracts.storage import Storage
from mastra_core.errors import StorageConnectionError
from mastra_core.testing.faults import faulty_storage, raise_at
from mastra_core.wire.notifications import NotificationPatch

__all__ = ("RecoverySuite",)

_Elapse = Callable[[int], Awaitable[None]]

_BLOCKED = Accepted(action="blocked", run_id="run-of-another", reason="thread-blocked")


class RecoverySuite(Suite):
    """One dispatcher when things go wrong."""

    role = "runtime"
    capabilities = ("notifications", "notifications.claims", "schedules")

    # -- claims ---------------------------------------------------------------------------------

    @case("notifications", 96)
    async def test_a_slow_send_keeps_its_claim(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        elapse: _Elapse,
    ) -> None:
        """It is renewed as long as the send takes, so nobody steals it."""
        renewed = asyncio.Event()

        def note(point: str) -> None:
            if point == "notifications.extend_claim:after":
                renewed.set()

        inbox = Inbox(faulty_storage(store, note), clock=clock, ids=ids, visibility_ms=900)
        rival = Inbox(store, clock=clock, ids=ids)
        await inbox.due()
        started, finish = asyncio.Event(), asyncio.Event()

        async def slowly(*_: Any) -> Accepted:
            started.set()
            await finish.wait()
            return Accepted(action="wake", run_id="run-1")

        inbox.sink.answer = slowly
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            dispatching = group.create_task(inbox.dispatch())
            await started.wait()
            stolen = []
            for _ in range(9):
                await elapse(300)
                await renewed.wait()
                renewed.clear()
                stolen += (await rival.dispatch()).signals
            finish.set()

        assert [] == stolen
        assert ["n1"] == [one.id for one in dispatching.result().delivered]

    async def test_a_claim_that_was_taken_over_before_the_send_is_not_sent(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        elapse: _Elapse,
    ) -> None:
        """Old claims are asked about just before the send."""
        rival = Inbox(store, clock=clock, ids=ids)

        async def freeze(point: str) -> None:
            if point == "notifications.get_notification:after":
                await elapse(500)
                await rival.dispatch()

        inbox = Inbox(faulty_storage(store, freeze), clock=clock, ids=ids, visibility_ms=300)
        await inbox.due()

        result = await inbox.dispatch()

        assert (0, 1) == (len(inbox.sink.sent), len(rival.sink.sent))
        assert ([], []) == (result.delivered, result.signals)
        stored = await store.notifications.get_notification(THREAD, "n1")
        assert stored is not None
        assert "delivered" == stored.status

    @pytest.mark.parametrize("point", ["get_notification:after", "finalize_summary:before"])
    async def test_a_member_that_was_taken_over_leaves_the_others_alone(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        elapse: _Elapse,
        *,
        point: str,
    ) -> None:
        """It belongs to somebody else now; the rest of the summary is finished."""
        taken: list[str] = []

        async def take_one(reached: str) -> None:
            if reached == f"notifications.{point}" and not taken:
                await elapse(500)
                claims = await store.notifications.claim_due(clock.now(), "rival", limit=1)
                taken.extend(claim.record.id for claim in claims)

        broken = faulty_storage(store, take_one)
        inbox = Inbox(broken, clock=clock, ids=ids, visibility_ms=300)
        for name in ("n1", "n2", "n3"):
            await inbox.due(name, priority="low", summary_at=clock.now())

        result = await inbox.dispatch()

        done = {record.id for record in result.delivered}
        assert 1 == len(taken)
        assert {"n1", "n2", "n3"} - set(taken) == done
        stored = await store.notifications.get_notification(THREAD, taken[0])
        assert stored is not None
        assert ("pending", None) == (stored.status, stored.summary_signal_id)

    async def test_a_renewal_that_fails_is_tried_again(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        elapse: _Elapse,
    ) -> None:
        """One missed renewal leaves two thirds of the time."""
        renewals: list[str] = []
        renewed = asyncio.Event()

        def fail_once(point: str) -> None:
            if point == "notifications.extend_claim:before" and not renewals:
                renewals.append("failed")
                renewed.set()
                raise StorageConnectionError("gone")
            if point == "notifications.extend_claim:after":
                renewals.append("done")
                renewed.set()

        inbox = Inbox(faulty_storage(store, fail_once), clock=clock, ids=ids, visibility_ms=900)
        await inbox.due()

        async def slowly(*_: Any) -> Accepted:
            for _step in range(2):
                await elapse(310)
                await renewed.wait()
                renewed.clear()
            return Accepted(action="wake", run_id="run-1")

        inbox.sink.answer = slowly

        async with asyncio.timeout(30):
            result = await inbox.dispatch()

        assert ["failed", "done"] == renewals
        assert ["n1"] == [record.id for record in result.delivered]

    # -- failing stores ------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("point", "answer"),
        [
            ("finalize_full:before", None),
            ("fail_claims:before", RuntimeError("no model")),
            ("get_notification:before", None),
            ("release_claims:before", _BLOCKED),
        ],
    )
    async def test_a_store_that_fails_on_one_record_leaves_the_others_alone(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        elapse: _Elapse,
        *,
        point: str,
        answer: Accepted | Exception | None,
    ) -> None:
        """Its claim lapses, and it is sent again under the same id, if it was sent at all."""
        error = StorageConnectionError("gone")
        broken = faulty_storage(store, raise_at(f"notifications.{point}", error))
        inbox = Inbox(broken, clock=clock, ids=ids, visibility_ms=1)
        await inbox.due("n1", priority="urgent")
        await inbox.due("n2")
        inbox.sink.answer = lambda signal, _: answer if signal.contents == "text of n1" else None

        first = await inbox.dispatch()
        inbox.sink.answer = lambda *_: None
        await elapse(5)
        second = await inbox.dispatch(after=40)

        assert ["n1"] == [failure.record.id for failure in first.failed]
        assert ["n2"] == [record.id for record in first.delivered]
        assert ["n1"] == [record.id for record in second.delivered]
        assert 2 == len(inbox.sink.signals)

    async def test_a_store_that_fails_for_one_group_leaves_the_others_alone(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Its claims are given back at the end."""
        error = StorageConnectionError("gone")
        broken = faulty_storage(store, raise_at("notifications.update_notification:before", error))
        inbox = Inbox(broken, clock=clock, ids=ids)
        await inbox.undecided()
        await inbox.due("n2", thread_id="thread_2", deliver_at=inbox.later(60.5))

        first = await inbox.dispatch(after=61)
        second = await inbox.dispatch(after=61)

        assert [["n2"], ["n1"]] == [[r.id for r in one.delivered] for one in (first, second)]

    async def test_a_record_that_cant_be_handled_is_given_up_some_day(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It costs attempts like any failure, and the others are delivered."""
        error = RuntimeError("a fault of ours")
        broken = faulty_storage(store, raise_at("notifications.get_notification:before", error))
        inbox = Inbox(broken, clock=clock, ids=ids)
        await inbox.due("n1", priority="urgent")
        await inbox.due("n2")

        result = await inbox.dispatch()

        assert ["n2"] == [record.id for record in result.delivered]
        record = await inbox.record("n1")
        assert (1, "a fault of ours") == (record.delivery_attempts, record.last_delivery_error)

    async def test_a_send_that_never_ends_holds_nobody_up_for_ever(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It counts as failed; the signal has the same id when it is tried again."""
        inbox = Inbox(store, clock=clock, ids=ids, send_timeout_ms=20)
        await inbox.due("n1", priority="urgent")
        await inbox.due("n2")
        never = asyncio.Event()

        async def hang(*_: Any) -> Accepted:
            await never.wait()
            return Accepted(action="wake", run_id="run-1")

        inbox.sink.answer = lambda signal, _: hang() if signal.contents == "text of n1" else None

        first = await inbox.dispatch()
        never.set()
        inbox.sink.answer = lambda *_: None
        second = await inbox.dispatch(after=40)

        assert ["n1"] == [failure.record.id for failure in first.failed]
        assert ["n2"] == [record.id for record in first.delivered]
        assert ["n1"] == [record.id for record in second.delivered]
        assert 2 == len(inbox.sink.signals)

    async def test_claims_that_cant_be_given_back_lapse(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        elapse: _Elapse,
    ) -> None:
        """The dispatch itself isn't a failure."""
        error = StorageConnectionError("gone")
        broken = faulty_storage(store, raise_at("notifications.release_claims:before", error))
        inbox = Inbox(broken, clock=clock, ids=ids, knows_all=False, visibility_ms=1)
        await inbox.due(agent_id="stranger")

        await inbox.dispatch()
        await elapse(5)

        assert await inbox.is_due(after=1)

    async def test_a_dispatch_that_is_told_to_stop_ends_after_its_signal(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """What it has not sent is due for others at once."""
        inbox = Inbox(store, clock=clock, ids=ids)
        for number in range(3):
            await inbox.due(f"n{number}", thread_id=f"thread_{number // 2}")

        def stop(*_: Any) -> None:
            inbox.service.stop()

        inbox.sink.answer = stop

        result = await inbox.dispatch()

        assert (1, 1) == (len(inbox.sink.sent), len(result.delivered))
        due = await store.notifications.list_due_notifications(clock.now())
        assert 2 == len(due)

    async def test_a_policy_that_raises_again_loses_no_event(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It is delivered in full, as a peer would that knows no guards."""

        def decide(_: Any) -> None:
            raise ValueError("no rule")

        inbox = Inbox(store, clock=clock, ids=ids, policy={"decide": decide})
        await inbox.undecided(priority="low")

        result = await inbox.dispatch(after=61)

        assert ["delivered"] == [record.status for record in result.delivered]

    async def test_hold_leaves_an_undecided_event_to_another_process(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Nothing is decided about it."""
        holds = {"default": {"action": "deliver", "hold": True}}
        inbox = Inbox(store, clock=clock, ids=ids, policy=holds)
        await inbox.undecided()

        held = await inbox.dispatch(after=61)
        done = await Inbox(store, clock=clock, ids=ids).dispatch(after=61)

        assert (0, ["n1"]) == (held.handled, [record.id for record in done.delivered])

    # -- unconfirmed signals -------------------------------------------------------------------

    async def test_nobody_asks_for_messages_of_an_agent_without_memory(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """They will never exist, so nothing is sent again for want of them."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.has_memory = False
        inbox.sink.stores_queued = False
        await inbox.send(priority="urgent")
        await inbox.due()
        await inbox.due("n2", priority="medium", summary_at=clock.now())

        await inbox.dispatch()
        later = [await inbox.dispatch(after=after) for after in (300, 3000, 30_000)]

        assert [[], [], []] == [result.signals for result in later]
        assert 3 == len(inbox.sink.sent)

    @case("notifications", 99)
    async def test_an_accepted_signal_that_nobody_saw_is_sent_again(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The same id, after a while, until its message row exists (C7)."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.stores_queued = False
        ingested = await inbox.send(priority="urgent")
        await inbox.due("n1")
        await inbox.dispatch()
        sent_at_first = [signal.id for signal in inbox.sink.signals]

        early = await inbox.dispatch(after=100)
        inbox.sink.stores_queued = True
        repeated = await inbox.dispatch(after=130)
        inbox.sink.stores_queued = False
        confirmed = await inbox.dispatch(after=400)
        never = await inbox.dispatch(after=4000)

        assert [] == early.signals
        assert set(sent_at_first) == {signal.id for signal in repeated.signals}
        assert ([], []) == (confirmed.signals, never.signals)
        assert 2 == len(inbox.sink.rows)
        assert "delivered" == (await inbox.record(ingested.record.id)).status

    async def test_an_accepted_summary_that_nobody_saw_is_sent_again(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """With the members that are still unread, under the same id."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.stores_queued = False
        for name in ("n1", "n2"):
            await inbox.due(name, priority="medium", summary_at=clock.now())
        (first,) = (await inbox.dispatch()).signals
        await store.notifications.update_notification(
            THREAD, "n2", NotificationPatch(status="seen")
        )

        (second,) = (await inbox.dispatch(after=130)).signals

        assert (first.id, "github: 1") == (second.id, second.contents)

    async def test_nobody_asks_again_about_what_was_read(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Only records that are pending or delivered are wanted."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.stores_queued = False
        await inbox.due()
        await inbox.dispatch()
        await store.notifications.update_notification(
            THREAD, "n1", NotificationPatch(status="archived")
        )

        later = await inbox.dispatch(after=500)

        assert [] == later.signals

    async def test_a_thread_that_cant_be_read_leaves_the_others_alone(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Its signals are looked for again with the next dispatch."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.stores_queued = False
        await inbox.due("n1")
        await inbox.due("n2", thread_id="thread_2")
        await inbox.dispatch()
        inbox.sink.unreadable.add(THREAD)

        first = await inbox.dispatch(after=130)
        inbox.sink.unreadable.clear()
        second = await inbox.dispatch(after=140)

        assert [["text of n2"], ["text of n1"]] == [
            [signal.contents for signal in result.signals] for result in (first, second)
        ]

    async def test_repetitions_become_rare_and_end(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A thread that never stores anything isn't asked for ever."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.stores_queued = False
        await inbox.due()
        await inbox.dispatch()

        # Closely at first; a far server would take a minute for every minute of a day.
        looks = [*range(60, 3_600, 60), *range(3_600, 200_000, 240)]
        times = [t for t in looks if (await inbox.dispatch(after=t)).signals]

        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert times[0] <= 180
        assert max(gaps) <= 1_200
        assert gaps[:2] == sorted(gaps[:2])
        assert 86_400 <= times[-1] <= 88_000

    async def test_a_cancelled_dispatch_gives_its_claims_back(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Nobody has to wait until they lapse."""
        inbox = Inbox(store, clock=clock, ids=ids)
        await inbox.due("n1")
        await inbox.due("n2", thread_id="thread_2")
        started, goes_on = asyncio.Event(), asyncio.Event()

        async def hang(*_: Any) -> Accepted:
            started.set()
            await goes_on.wait()
            return Accepted(action="wake", run_id="run-1")

        inbox.sink.answer = hang
        task = asyncio.create_task(inbox.dispatch())
        await started.wait()
        task.cancel()
        await asyncio.wait([task])
        goes_on.set()

        assert task.cancelled()
        assert await inbox.is_due("n1")
        assert await inbox.is_due("n2")
