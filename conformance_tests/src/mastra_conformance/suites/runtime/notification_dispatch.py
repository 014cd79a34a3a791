"""Due records on their way out: order, groups, outcomes, retries (notifications.md 7, 9)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.processes import Processes
from mastra_conformance.suite import Suite, several_processes
from mastra_conformance.suites.runtime.inboxes import RESOURCE, THREAD, Inbox
from mastra_core.base.ids import Ids
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.contracts.storage import Storage
from mastra_core.errors import SignalPersistUnavailableError, StorageConnectionError
from mastra_core.rules.notification_claims import full_signal_id, summary_signal_id
from mastra_core.testing.faults import faulty_storage, raise_at
from mastra_core.testing.recording_sink import RecordingSink
from mastra_core.wire.notifications import NotificationPatch

__all__ = ("DispatchCrowdSuite", "DispatchSuite")

_Elapse = Callable[[int], Awaitable[None]]

_BLOCKED = Accepted(action="blocked", run_id="run-of-another", reason="thread-blocked")


def _texts(inbox: Inbox) -> list[str]:
    """What was sent: the text of full signals and of summaries, in order."""
    return [str(signal.contents) for signal in inbox.sink.signals]


class DispatchSuite(Suite):
    """One dispatcher at work."""

    role = "runtime"
    capabilities = ("notifications", "notifications.claims", "schedules")

    # -- full signals ---------------------------------------------------------------------------

    @case("notifications", 69)
    async def test_a_due_record_is_delivered_once(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The signal says delivered, and when."""
        inbox = Inbox(store, clock=clock, ids=ids)
        await inbox.due()
        now = inbox.later(10)

        first = await inbox.service.dispatch_due(now=now)
        second = await inbox.service.dispatch_due(now=now)

        (signal,) = inbox.sink.signals
        record = await inbox.record()
        assert [record] == first.delivered
        assert ([], [], []) == (second.delivered, second.failed, second.signals)
        assert "delivered" == (signal.attributes or {})["status"]
        block = (signal.metadata or {})["notification"]
        assert now == datetime.fromisoformat(block["deliveredAt"])
        assert (full_signal_id(THREAD, "n1", 1), now) == (
            record.delivered_signal_id,
            record.last_delivery_attempt_at,
        )

    @case("notifications", 76)
    async def test_a_deferred_record_goes_into_the_active_run(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Only high ones wait for an idle thread."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)
        await inbox.due(priority="medium")

        await inbox.dispatch()

        assert ("delivered", ["text of n1"]) == ((await inbox.record()).status, _texts(inbox))

    @case("notifications", 75)
    async def test_an_announced_high_record_waits_for_an_idle_thread(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Waiting costs no attempt; on an idle thread it is delivered."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)
        result = await inbox.send(priority="high", summary="the text")

        waits = await inbox.dispatch()
        again = await inbox.dispatch(after=31)
        record = await inbox.record(result.record.id)
        inbox.sink.active.clear()
        done = await inbox.dispatch(after=62)

        assert (0, 0) == (waits.handled, again.handled)
        assert ("pending", 0) == (record.status, record.delivery_attempts)
        assert ["delivered"] == [one.status for one in done.delivered]
        assert ["github: 1", "the text"] == _texts(inbox)

    @case("notifications", 77)
    @pytest.mark.parametrize(
        "patch",
        [
            NotificationPatch(status="seen"),
            NotificationPatch(status="dismissed"),
            NotificationPatch(delivered_signal_id="sent-by-somebody"),
        ],
    )
    async def test_what_was_settled_after_the_claim_is_not_sent(
        self, store: Storage, clock: ShiftedClock, ids: Ids, patch: NotificationPatch
    ) -> None:
        """Each record is read again before it is sent; nothing is counted."""

        async def settle(point: str) -> None:
            if point == "notifications.claim_due:after":
                await store.notifications.update_notification(THREAD, "n1", patch)

        inbox = Inbox(faulty_storage(store, settle), clock=clock, ids=ids)
        await inbox.due()

        result = await inbox.dispatch()

        assert ([], 0) == (inbox.sink.sent, result.handled)
        assert 0 == (await inbox.record()).delivery_attempts
        assert not await inbox.is_due()

    @case("notifications", 81)
    async def test_a_record_seen_while_its_signal_is_under_way_stays_seen(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It learns the signal's id and is not sent again."""
        inbox = Inbox(store, clock=clock, ids=ids)
        await inbox.due()

        async def see(*_: Any) -> Accepted:
            await store.notifications.update_notification(
                THREAD, "n1", NotificationPatch(status="seen")
            )
            return Accepted(action="wake", run_id="run-1")

        inbox.sink.answer = see

        await inbox.dispatch()
        await inbox.dispatch(after=3600)

        record = await inbox.record()
        assert ("seen", full_signal_id(THREAD, "n1", 1), None) == (
            record.status,
            record.delivered_signal_id,
            record.delivered_at,
        )
        assert 1 == len(inbox.sink.sent)

    @case("notifications", 90)
    async def test_an_event_merged_while_the_signal_is_under_way_comes_next(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The record stays pending, and the new text is a signal of its own."""
        inbox = Inbox(store, clock=clock, ids=ids)
        await inbox.due(dedupe_key="k", summary="old")

        async def merge(*_: Any) -> Accepted:
            inbox.sink.answer = lambda *_: None
            await inbox.due("n2", dedupe_key="k", summary="new", deliver_at=None)
            return Accepted(action="wake", run_id="run-1")

        inbox.sink.answer = merge

        first = await inbox.dispatch()
        between = await inbox.record()
        await inbox.dispatch()

        record = await inbox.record()
        assert first.has_more
        assert ("pending", None) == (between.status, between.delivered_signal_id)
        assert ["old", "new"] == _texts(inbox)
        assert ("delivered", full_signal_id(THREAD, "n1", 2)) == (
            record.status,
            record.delivered_signal_id,
        )

    # -- summaries ------------------------------------------------------------------------------

    @case("notifications", 70)
    async def test_due_summaries_of_one_group_are_one_signal(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Both records stay pending, know its id, and are not due any more."""
        inbox = Inbox(store, clock=clock, ids=ids)
        for name, source in (("n1", "slack"), ("n2", "github")):
            await inbox.due(name, source=source, priority="low", summary_at=clock.now())

        result = await inbox.dispatch()

        records = [await inbox.record("n1"), await inbox.record("n2")]
        assert ["github: 1, slack: 1"] == _texts(inbox)
        assert {(inbox.sink.signals[0].id, "pending", None)} == {
            (one.summary_signal_id, one.status, one.summary_at) for one in records
        }
        assert {"n1", "n2"} == {one.id for one in result.delivered}
        assert all(one.last_delivery_attempt_at is not None for one in records)

    @case("notifications", 71)
    async def test_agents_resources_and_threads_get_their_own_summaries(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Four records, four groups."""
        inbox = Inbox(store, clock=clock, ids=ids, agents=("helper", "other"))
        scopes: list[dict[str, Any]] = [
            {},
            {"agent_id": "other"},
            {"resource_id": "user_2"},
            {"thread_id": "thread_2"},
        ]
        for number, scope in enumerate(scopes):
            await inbox.due(f"n{number}", summary_at=clock.now(), priority="low", **scope)

        result = await inbox.dispatch()

        assert [1] * 4 == [(signal.attributes or {})["pending"] for signal in result.signals]
        assert 4 == len({signal.id for signal in result.signals})

    @case("notifications", 72)
    async def test_a_summary_of_low_ones_wakes_nobody_and_asks_no_policy(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """One more urgent member, and it wakes with the options of the first record."""
        asked: list[str] = []

        def decide(subject: Any) -> dict[str, Any]:
            asked.append(subject.record.id)
            return {"action": "deliver", "stream_options": {"tag": subject.record.id}}

        inbox = Inbox(store, clock=clock, ids=ids, policy={"decide": decide})
        await inbox.due("n1", priority="low", summary_at=clock.now())
        await inbox.dispatch()
        only_low = inbox.sink.targets[0].if_idle
        asked_for_low = list(asked)
        await inbox.due("n2", priority="low", summary_at=inbox.later(-2))
        await inbox.due("n3", priority="medium", summary_at=inbox.later(-1))

        await inbox.dispatch()

        mixed = inbox.sink.targets[1].if_idle
        assert ("persist", None, []) == (only_low.behavior, only_low.stream_options, asked_for_low)
        assert ("wake", {"tag": "n2"}) == (mixed.behavior, mixed.stream_options)

    @case("notifications", 73)
    async def test_what_is_due_both_ways_is_summarized_first(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The full text comes with the next dispatch."""
        inbox = Inbox(store, clock=clock, ids=ids)
        now = clock.now()
        await inbox.due(deliver_at=now, summary_at=now)

        first = await inbox.dispatch()
        between = await inbox.record()
        second = await inbox.dispatch()

        assert [["notification-summary"], ["notification"]] == [
            [signal.tag_name for signal in result.signals] for result in (first, second)
        ]
        assert ("pending", now, None) == (between.status, between.deliver_at, between.summary_at)
        assert "delivered" == (await inbox.record()).status

    @case("notifications", 73)
    async def test_one_dispatch_never_handles_a_record_twice(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Not even if it looks again because others only wait."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add("busy")
        now = clock.now()
        await inbox.due(deliver_at=now, summary_at=now)
        await inbox.due("waits", thread_id="busy")
        await store.notifications.update_notification(
            "busy", "waits", NotificationPatch(summary_signal_id="announced")
        )

        first = await inbox.dispatch(limit=2)
        between = await inbox.record()
        second = await inbox.dispatch(limit=2)

        assert [["notification-summary"], ["notification"]] == [
            [signal.tag_name for signal in result.signals] for result in (first, second)
        ]
        assert ("pending", now) == (between.status, between.deliver_at)

    @case("notifications", 87)
    async def test_a_member_dismissed_meanwhile_is_not_counted(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It learns no summary id; without any member there is no signal."""
        gone = ["n1"]

        async def dismiss(point: str) -> None:
            if point == "notifications.claim_due:after":
                for name in gone:
                    await store.notifications.update_notification(
                        THREAD, name, NotificationPatch(status="dismissed")
                    )

        inbox = Inbox(faulty_storage(store, dismiss), clock=clock, ids=ids)
        for name in ("n1", "n2"):
            await inbox.due(name, priority="low", summary_at=clock.now())

        await inbox.dispatch()

        assert ["github: 1"] == _texts(inbox)
        dismissed = await inbox.record("n1")
        assert ("dismissed", None) == (dismissed.status, dismissed.summary_signal_id)

        gone.append("n3")
        await inbox.due("n3", priority="low", summary_at=clock.now())
        await inbox.dispatch()

        assert 1 == len(inbox.sink.sent)

    @case("notifications", 88)
    async def test_a_store_that_fails_while_finalizing_a_summary_leaves_no_half(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        elapse: _Elapse,
    ) -> None:
        """No member changed; the retry has the same id, so the thread takes it once."""
        error = StorageConnectionError("gone")
        broken = faulty_storage(store, raise_at("notifications.finalize_summary:before", error))
        inbox = Inbox(broken, clock=clock, ids=ids, visibility_ms=1)
        for name in ("n1", "n2", "n3"):
            await inbox.due(name, priority="low", summary_at=clock.now())

        first = await inbox.dispatch()
        between = [await inbox.record(name) for name in ("n1", "n2", "n3")]
        await elapse(5)
        second = await inbox.dispatch(after=300)

        assert [None] * 3 == [record.summary_signal_id for record in between]
        assert [0] * 3 == [record.delivery_attempts for record in between]
        assert {"gone"} == {str(failure.error) for failure in first.failed}
        assert 1 == len(inbox.sink.signals)
        assert 3 == len(second.delivered)
        assert {inbox.sink.signals[0].id} == {one.summary_signal_id for one in second.delivered}

    async def test_a_later_summary_of_the_same_records_is_a_new_signal(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A retry repeats the id, the next summary doesn't."""
        inbox = Inbox(store, clock=clock, ids=ids)
        await inbox.due(priority="low", summary_at=clock.now())
        await inbox.dispatch()
        await store.notifications.update_notification(
            THREAD, "n1", NotificationPatch(summary_at=clock.now())
        )

        await inbox.dispatch()

        assert [summary_signal_id(THREAD, [("n1", 1)], n) for n in (0, 1)] == [
            signal.id for signal in inbox.sink.signals
        ]

    # -- order ----------------------------------------------------------------------------------

    @case("notifications", 74)
    async def test_a_group_goes_by_priority_and_age(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A summary stands where its most urgent and its oldest member would."""
        inbox = Inbox(store, clock=clock, ids=ids)
        now = clock.now()
        for name, priority, age, is_summary in (
            ("low", "low", 50, False),
            ("high-young", "high", 10, False),
            ("high-old", "high", 30, False),
            ("urgent", "urgent", 0, False),
            ("sum-1", "high", 20, True),
            ("sum-2", "low", 60, True),
            ("medium", "medium", 90, False),
        ):
            when = {"summary_at": now} if is_summary else {"deliver_at": now}
            await inbox.due(
                name, priority=priority, created_at=inbox.later(-age), summary=name, **when
            )

        await inbox.dispatch()

        assert ["urgent", "github: 2", "high-old", "high-young", "medium", "low"] == _texts(inbox)

    @case("notifications", 85)
    async def test_waiting_records_starve_nobody(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Two hundred that wait for a busy thread don't fill the batch."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)
        for number in range(200):
            await inbox.due(f"high-{number}", deliver_at=inbox.later(-100 + number / 100))
        for record in await store.notifications.list_notifications(THREAD):
            await store.notifications.update_notification(
                THREAD, record.id, NotificationPatch(summary_signal_id="announced")
            )
        await inbox.due("medium", priority="medium", thread_id="thread_2", summary="the medium")

        before = clock.now()
        result = await inbox.dispatch()
        took = (clock.now() - before).total_seconds()

        assert ["the medium"] == _texts(inbox)
        assert 1 == result.handled
        assert not await inbox.is_due("high-0", after=29 - took)
        assert await inbox.is_due("high-0", after=31)

    async def test_the_limit_counts_what_was_handled(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The result tells that there is more."""
        inbox = Inbox(store, clock=clock, ids=ids)
        for number in range(5):
            await inbox.due(f"n{number}", thread_id=f"thread_{number}")

        first = await inbox.dispatch(limit=3)
        second = await inbox.dispatch(limit=3)

        assert [(3, True), (2, False)] == [(r.handled, r.has_more) for r in (first, second)]

    # -- failures -------------------------------------------------------------------------------

    @case("notifications", 78, 86)
    async def test_failures_are_counted_and_rest_longer_each_time(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """About 30, 60, 120, 240 seconds; the fifth failure is the last."""
        inbox = Inbox(store, clock=clock, ids=ids)
        await inbox.due()
        inbox.sink.answer = lambda *_: RuntimeError("no model")
        pauses: list[float] = []
        now = clock.now()

        for attempt in range(1, 5):
            result = await inbox.service.dispatch_due(now=now)
            record = await inbox.record()
            assert ["no model"] == [str(failure.error) for failure in result.failed]
            assert ("pending", attempt, "no model", now) == (
                record.status,
                record.delivery_attempts,
                record.last_delivery_error,
                record.last_delivery_attempt_at,
            )
            assert record.deliver_at is not None
            pauses.append((record.deliver_at - now).total_seconds())
            early = await inbox.service.dispatch_due(now=now)
            assert 0 == early.handled
            now = record.deliver_at
        await inbox.service.dispatch_due(now=now)

        record = await inbox.record()
        assert ("failed", 5) == (record.status, record.delivery_attempts)
        assert not await inbox.is_due(after=864_000)
        assert ["n1"] == [one.id for one in inbox.given_up]
        expected = (30, 60, 120, 240)
        assert all(0.89 * e < p < 1.11 * e for e, p in zip(expected, pauses, strict=True))
        assert len(set(pauses)) == 4

    @case("notifications", 79)
    async def test_a_record_over_the_limit_keeps_its_number(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """An old release counted on and on."""
        inbox = Inbox(store, clock=clock, ids=ids)
        await inbox.due()
        await store.notifications.update_notification(
            THREAD, "n1", NotificationPatch(delivery_attempts=288)
        )
        inbox.sink.answer = lambda *_: RuntimeError("no model")

        await inbox.dispatch()

        record = await inbox.record()
        assert ("failed", 288) == (record.status, record.delivery_attempts)

    @case("notifications", 80)
    async def test_records_without_ids_fail_with_a_text(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The texts are contract."""
        inbox = Inbox(store, clock=clock, ids=ids)
        now = clock.now()
        await inbox.due("n-sum", agent_id=None, summary_at=now)
        await inbox.due("n-agent", agent_id=None)
        await inbox.due("n-resource", resource_id=None)

        result = await inbox.dispatch()

        expected = {
            "n-sum": "Notification n-sum cannot be summarized without agentId, resourceId, "
            "and threadId",
            "n-agent": "Notification n-agent is missing agentId",
            "n-resource": "Notification n-resource is missing resourceId",
        }
        assert expected == {one.record.id: str(one.error) for one in result.failed}
        assert expected == {
            name: (await inbox.record(name)).last_delivery_error for name in expected
        }

    @case("notifications", 89)
    @pytest.mark.parametrize(
        ("answer", "attempts"),
        [
            (_BLOCKED, 0),
            (Accepted(action="discard"), 1),
            (SignalPersistUnavailableError(agent_id="helper"), 1),
        ],
    )
    @pytest.mark.parametrize("column", ["deliver_at", "summary_at"])
    async def test_what_reached_nobody_is_not_delivered(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        *,
        answer: Accepted | Exception,
        attempts: int,
        column: str,
    ) -> None:
        """Blocked, discarded, or stored by an agent without memory."""
        inbox = Inbox(store, clock=clock, ids=ids)
        when: dict[str, Any] = {column: clock.now()}
        await inbox.due(priority="medium", **when)
        inbox.sink.answer = lambda *_: answer

        result = await inbox.dispatch()

        record = await inbox.record()
        assert ([], []) == (result.delivered, result.signals)
        assert ("pending", None, None, attempts) == (
            record.status,
            record.delivered_signal_id,
            record.summary_signal_id,
            record.delivery_attempts,
        )
        assert not await inbox.is_due(after=20)
        assert await inbox.is_due(after=40)

    # -- agents and policies --------------------------------------------------------------------

    @case("notifications", 83)
    @pytest.mark.parametrize("knows_all", [True, False])
    async def test_a_record_of_an_unknown_agent_is_left_to_others(
        self, store: Storage, clock: ShiftedClock, ids: Ids, *, knows_all: bool
    ) -> None:
        """Ten dispatches cost no attempt, and whoever knows the agent gets it at once."""
        inbox = Inbox(store, clock=clock, ids=ids, knows_all=knows_all)
        other = Inbox(store, clock=clock, ids=ids, agents=("stranger",))
        await inbox.due(agent_id="stranger")

        results = [await inbox.dispatch() for _ in range(10)]
        record = await inbox.record()
        done = await other.dispatch()

        assert [0] * 10 == [result.handled for result in results]
        assert ("pending", 0) == (record.status, record.delivery_attempts)
        assert ["n1"] == [one.id for one in done.delivered]

    async def test_a_lookup_that_raises_counts_for_every_record_of_the_group(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The other groups are delivered."""
        inbox = Inbox(store, clock=clock, ids=ids, agents=("helper", "other"))
        await inbox.due("n1")
        await inbox.due("n2")
        await inbox.due("n3", agent_id="other")
        plain = inbox.sink.thread_activity

        def activity(**where: str) -> Any:
            raise RuntimeError("registry down")

        inbox.sink.thread_activity = activity  # type: ignore[method-assign]

        result = await inbox.dispatch()

        assert {"n1": "registry down", "n2": "registry down"} == {
            one.record.id: str(one.error) for one in result.failed
        }
        assert ["n3"] == [one.id for one in result.delivered]
        inbox.sink.thread_activity = plain  # type: ignore[method-assign]
        assert 2 == len((await inbox.dispatch(after=40)).delivered)

    @case("notifications", 84)
    @pytest.mark.parametrize("column", ["deliver_at", "summary_at"])
    async def test_hold_leaves_a_record_to_another_process(
        self, store: Storage, clock: ShiftedClock, ids: Ids, column: str
    ) -> None:
        """Still pending, nothing counted, due for everybody else."""
        holds = {"decide": lambda _: {"action": "deliver", "hold": True}}
        inbox = Inbox(store, clock=clock, ids=ids, policy=holds)
        other = Inbox(store, clock=clock, ids=ids)
        when: dict[str, Any] = {column: clock.now()}
        await inbox.due(**when)

        held = await inbox.dispatch()
        record = await inbox.record()
        done = await other.dispatch()

        assert ([], 0) == (inbox.sink.sent, held.handled)
        assert ("pending", 0) == (record.status, record.delivery_attempts)
        assert ["n1"] == [one.id for one in done.delivered]

    @case("notifications", 41)
    async def test_a_policy_that_raises_at_dispatch_only_loses_its_options(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A warning, and delivery without stream options."""

        def decide(_: Any) -> None:
            raise ValueError("no rule")

        inbox = Inbox(store, clock=clock, ids=ids, policy={"decide": decide})
        await inbox.due()

        with caplog.at_level(logging.WARNING):
            result = await inbox.dispatch()

        assert ["n1"] == [one.id for one in result.delivered]
        assert [None] == [to.if_idle.stream_options for to in inbox.sink.targets]
        assert [(logging.WARNING, "no rule")] == [
            (entry.levelno, str(entry.exc_info and entry.exc_info[1]))
            for entry in caplog.records
            if entry.exc_info
        ]

    async def test_stream_options_of_the_policy_reach_the_run(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Of the decision at dispatch only they count."""
        policy = {"default": {"action": "discard", "stream_options": {"max_steps": 3}}}
        inbox = Inbox(store, clock=clock, ids=ids, policy=policy)
        await inbox.due()

        result = await inbox.dispatch()

        assert ["n1"] == [one.id for one in result.delivered]
        assert [{"max_steps": 3}] == [to.if_idle.stream_options for to in inbox.sink.targets]

    @case("notifications", 68)
    @pytest.mark.parametrize(
        ("priority", "active", "expected"),
        [
            ("high", False, ("delivered", ["text of n1"])),
            ("high", True, ("pending", ["github: 1"])),
            ("medium", True, ("pending", ["github: 1"])),
            ("low", False, ("pending", ["github: 1"])),
        ],
    )
    async def test_an_event_that_was_never_decided_about_is_decided_by_the_dispatcher(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        *,
        priority: str,
        active: bool,
        expected: tuple[str, list[str]],
    ) -> None:
        """As an ingress would have done it, when the guard expires (C1)."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.update([THREAD] if active else [])
        await inbox.undecided(priority=priority)

        early = await inbox.dispatch(after=30)
        await inbox.dispatch(after=61)
        await inbox.dispatch(after=62)

        record = await inbox.record()
        assert 0 == early.handled
        assert expected == (record.status, _texts(inbox))
        assert 0 == record.delivery_attempts

    @pytest.mark.parametrize(
        ("decision", "status", "deliver_at"),
        [
            ({"action": "discard", "reason": "no"}, "discarded", None),
            ({"action": "persist", "reason": "no"}, "pending", None),
            ({"action": "defer", "deliver_at": "2100-01-01T00:00:00.000Z"}, "pending", 2100),
            ({"action": "defer", "summary_at": "2100-01-01T00:00:00.000Z"}, "pending", None),
        ],
    )
    async def test_a_late_decision_takes_the_guard_away(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        *,
        decision: dict[str, str],
        status: str,
        deliver_at: int | None,
    ) -> None:
        """Nothing is sent that the policy doesn't want sent."""
        inbox = Inbox(store, clock=clock, ids=ids, policy={"default": decision})
        await inbox.undecided()

        result = await inbox.dispatch(after=61)

        record = await inbox.record()
        assert [] == inbox.sink.sent
        assert [record] == result.decided
        assert (status, decision.get("reason")) == (record.status, record.delivery_reason)
        assert deliver_at == (record.deliver_at.year if record.deliver_at else None)
        assert not await inbox.is_due(after=1000)


class DispatchCrowdSuite(Suite):
    """Several dispatchers at once."""

    role = "runtime"
    capabilities = ("notifications", "notifications.claims", "schedules")
    tier = 2

    @case("notifications", 82)
    async def test_ten_dispatchers_send_each_record_once(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A hundred due records, a hundred signals, a hundred rows."""
        sink = RecordingSink(clock=clock)
        fleet = [Inbox(store, clock=clock, ids=ids, sink=sink, batch_size=10) for _ in range(10)]
        for number in range(100):
            await fleet[0].due(f"n{number}", thread_id=f"thread_{number % 7}")

        async def work(inbox: Inbox) -> None:
            while (await inbox.dispatch()).has_more:
                pass

        async with asyncio.TaskGroup() as group:
            for inbox in fleet:
                group.create_task(work(inbox))

        rows = [
            row
            for number in range(7)
            for row in await store.notifications.list_notifications(f"thread_{number}")
        ]
        assert (100, 100) == (len(sink.sent), len(sink.rows))
        assert [("delivered", 0)] * 100 == [(row.status, row.delivery_attempts) for row in rows]
        assert {RESOURCE} == {to.resource_id for to in sink.targets}

    @case("notifications", 82)
    @several_processes()
    async def test_three_processes_send_each_record_once(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """What one of them sent, no other did."""
        inbox = Inbox(store, clock=clock, ids=ids)
        for number in range(100):
            await inbox.due(f"n{number}", thread_id=f"thread_{number % 7}")
        worker = "mastra_conformance.suites.runtime.inbox_workers:dispatch_all"

        async with AsyncExitStack() as stack:
            fleet = [await stack.enter_async_context(processes.start(worker)) for _ in range(3)]
            for each in fleet:
                await each.reached("ready")
            for each in fleet:
                await each.go()
            sent = [await each.result() for each in fleet]

        assert 100 == sum(map(len, sent)) == len({name for names in sent for name in names})
        assert [] == await store.notifications.list_due_notifications(inbox.later(3600))
