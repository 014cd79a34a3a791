"""The schedule row that tells peers to dispatch, and the loop that doesn't need it
(notifications.md 11, S18).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.suite import Suite
from mastra_conformance.suites.runtime.inboxes import THREAD, Inbox
from mastra_conformance.suites.storage.things import schedule
from mastra_core.base.ids import Ids
from mastra_core.base.isotime import to_iso_ms
from mastra_core.base.jsonjs import decode
from mastra_core.contracts.storage import Storage
from mastra_core.errors import NotificationError, StorageConnectionError
from mastra_core.notifications.schedule import NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID as ROW
from mastra_core.testing.faults import faulty_storage, raise_at
from mastra_core.wire.schedules import Schedule

__all__ = (
    "_TARGET",
    "ScheduleSuite",
)

_TARGET = (
    '{"type":"workflow","workflowId":"__mastra_notification_dispatcher","inputData":{"limit":%d}}'
)


async def _row(store: Storage) -> Schedule:
    found = await store.schedules.get_schedule(ROW)
    assert found is not None
    return found


@asynccontextmanager
async def _looping(*inboxes: Inbox) -> AsyncIterator[None]:
    """Their loops run; at the end they stop by themselves."""
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for inbox in inboxes:
            group.create_task(inbox.service.run_loop())
        try:
            yield
        finally:
            for inbox in inboxes:
                inbox.service.stop()


class _Sends:
    """Waits for what the loop sends."""

    def __init__(self, inbox: Inbox) -> None:
        self._sink = inbox.sink
        self._sent = asyncio.Event()
        inbox.sink.answer = self._note

    def _note(self, *_: Any) -> None:
        self._sent.set()

    async def wait(self, count: int) -> None:
        """Until so many signals were sent."""
        async with asyncio.timeout(60):
            while len(self._sink.sent) < count:
                await self._sent.wait()
                self._sent.clear()


class ScheduleSuite(Suite):
    """Row, ticks and loop."""

    role = "runtime"
    capabilities = ("notifications", "notifications.claims", "schedules", "schedules.claim_fire")

    # -- the row --------------------------------------------------------------------------------

    @case("notifications", 112)
    async def test_without_a_deferral_there_is_no_row(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """And nobody looks at schedules."""
        looks: list[str] = []
        polls: list[str] = []
        polled = asyncio.Event()

        def note(point: str) -> None:
            if point.startswith("schedules."):
                looks.append(point)
            if point == "notifications.claim_due:after":
                polls.append(point)
                if len(polls) == 4:
                    polled.set()

        inbox = Inbox(faulty_storage(store, note), clock=clock, ids=ids, poll_ms=20)

        await inbox.send(priority="high")
        await inbox.dispatch()
        async with _looping(inbox):
            await polled.wait()

        assert [] == looks
        assert [] == await store.schedules.list_schedules()

    @case("notifications", 113)
    async def test_the_first_deferral_makes_the_row_that_every_process_knows(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Ids, target, cron and metadata are contract; a second deferral changes nothing."""
        inbox = Inbox(store, clock=clock, ids=ids)
        before = clock.now_ms()

        await inbox.send(priority="low")
        row = await _row(store)
        await inbox.send(priority="low")

        assert row == await _row(store)
        assert decode(_TARGET % 100) == row.target
        assert "__mastra_notification_dispatch" == row.id
        assert ("*/1 * * * *", None, "active", None) == (
            row.cron,
            row.timezone,
            row.status,
            row.last_fire_at,
        )
        assert {"internal": True, "feature": "notifications"} == row.metadata
        assert 0 == row.next_fire_at % 60_000
        assert before < row.next_fire_at <= before + 62_000
        assert before <= row.created_at == row.updated_at <= clock.now_ms()
        assert 1 == inbox.announced

    @case("notifications", 114)
    async def test_changed_settings_patch_the_row(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Cron and batch size; a paused row stays paused."""
        await Inbox(store, clock=clock, ids=ids).send(priority="low")
        await store.schedules.update_schedule(ROW, {"status": "paused"})
        changed = Inbox(store, clock=clock, ids=ids, cron="0 * * * *", batchSize=7)

        await changed.send(priority="low")

        row = await _row(store)
        assert ("0 * * * *", "paused") == (row.cron, row.status)
        assert decode(_TARGET % 7) == row.target
        assert 0 == row.next_fire_at % 1_800_000  # time zones differ by half hours, too
        assert 1 == changed.announced

    @case("notifications", 115)
    async def test_disabled_means_no_row_and_no_dispatch(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The loop ends at once."""
        inbox = Inbox(store, clock=clock, ids=ids, enabled=False)

        await inbox.send(priority="low")
        async with asyncio.timeout(60):
            await inbox.service.run_loop()

        assert [] == await store.schedules.list_schedules()
        assert [] == inbox.sink.sent
        assert await inbox.service.claim_tick() is None

    async def test_a_row_that_cant_be_written_stops_no_event(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It is made good at the next deferral."""
        error = StorageConnectionError("gone")
        broken = faulty_storage(store, raise_at("schedules.create_schedule:before", error))
        inbox = Inbox(broken, clock=clock, ids=ids)

        first = await inbox.send(priority="low")
        missing = await store.schedules.get_schedule(ROW)
        await inbox.send(priority="low")

        assert ("pending", None) == (first.record.status, missing)
        assert "active" == (await _row(store)).status

    async def test_two_creators_at_once_make_one_row(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The slower one takes what it finds."""
        rival = Inbox(store, clock=clock, ids=ids)

        async def race(point: str) -> None:
            if point == "schedules.create_schedule:before":
                await rival.send(priority="low")

        inbox = Inbox(faulty_storage(store, race), clock=clock, ids=ids)

        await inbox.send(priority="low")

        assert [ROW] == [row.id for row in await store.schedules.list_schedules()]
        assert (0, 1) == (inbox.announced, rival.announced)

    # -- ticks ----------------------------------------------------------------------------------

    @case("notifications", 117)
    async def test_one_of_several_schedulers_gets_the_tick(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It moves the row on and leaves a note; the others get nothing."""
        fleet = [Inbox(store, clock=clock, ids=ids) for _ in range(5)]
        await fleet[0].send(priority="low")
        scheduled = (await _row(store)).next_fire_at
        early = await fleet[0].service.claim_tick()
        clock.advance(120_000)

        ticks = await asyncio.gather(*(inbox.service.claim_tick() for inbox in fleet))

        row = await _row(store)
        (trigger,) = await store.schedules.list_triggers(ROW)
        run_id = f"sched___mastra_notification_dispatch_{scheduled}"
        assert early is None
        assert [{"limit": 100}] == [tick for tick in ticks if tick is not None]
        assert row.next_fire_at > clock.now_ms()  # missed ticks aren't caught up
        assert run_id == row.last_run_id == trigger.run_id
        assert (scheduled, "published", "schedule-fire") == (
            trigger.scheduled_fire_at,
            trigger.outcome,
            trigger.trigger_kind,
        )

    @case("notifications", 117)
    async def test_the_slower_of_two_schedulers_gets_nothing(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It read the row before the other one moved it on."""
        rival = Inbox(store, clock=clock, ids=ids)
        won: list[Any] = []

        async def race(point: str) -> None:
            if point == "schedules.get_schedule:after" and not won:
                won.append(await rival.service.claim_tick())

        await rival.send(priority="low")
        clock.advance(120_000)
        inbox = Inbox(faulty_storage(store, race), clock=clock, ids=ids)

        lost = await inbox.service.claim_tick()

        assert ([{"limit": 100}], None) == (won, lost)
        assert 1 == len(await store.schedules.list_triggers(ROW))

    async def test_a_tick_that_cant_be_noted_is_taken_all_the_same(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The history is for people."""
        error = StorageConnectionError("gone")
        broken = faulty_storage(store, raise_at("schedules.record_trigger:before", error))
        inbox = Inbox(broken, clock=clock, ids=ids)
        await inbox.send(priority="low")
        clock.advance(120_000)

        tick = await inbox.service.claim_tick()

        assert {"limit": 100} == tick
        assert [] == await store.schedules.list_triggers(ROW)

    async def test_a_loop_may_take_the_ticks_too(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Only if it is told to: a tick that it takes is one that no peer gets."""
        plain = Inbox(store, clock=clock, ids=ids, poll_ms=20)
        await plain.send(priority="low")
        first = (await _row(store)).next_fire_at
        clock.advance(120_000)
        sends = _Sends(plain)
        async with _looping(plain):
            await sends.wait(1)
        untouched = (await _row(store)).next_fire_at

        taker = Inbox(store, clock=clock, ids=ids, poll_ms=20, claims_ticks=True)
        await taker.due("n2")
        sends = _Sends(taker)
        async with _looping(taker):
            await sends.wait(1)

        assert first == untouched
        assert (await _row(store)).next_fire_at > first

    @case("notifications", 119)
    async def test_rows_with_targets_that_we_dont_know_are_left_alone(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Neither claimed nor patched nor deleted, not even under our id."""
        past = clock.now_ms() - 1000
        strange = schedule("other", next_fire_at=past)
        target = {"type": "agent", "agentId": "a"}
        ours = schedule(ROW, next_fire_at=past, cron="*/1 * * * *", target=target)
        await store.schedules.create_schedule(strange)
        await store.schedules.create_schedule(ours)
        before = [await store.schedules.get_schedule(name) for name in ("other", ROW)]
        inbox = Inbox(store, clock=clock, ids=ids, claims_ticks=True)

        ticks = [await inbox.service.claim_tick() for _ in range(10)]
        await inbox.dispatch()

        assert [None] * 10 == ticks
        assert before == [await store.schedules.get_schedule(name) for name in ("other", ROW)]

    @case("notifications", 116)
    async def test_a_time_that_is_none_is_refused(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The text is contract; a good one says what is due."""
        inbox = Inbox(store, clock=clock, ids=ids)
        await inbox.due("n1", deliver_at=inbox.later(1000))
        await inbox.due("n2", deliver_at=inbox.later(2000))

        with pytest.raises(NotificationError) as raised:
            await inbox.service.run_workflow({"now": "not-a-date"})
        result = await inbox.service.run_workflow({"now": to_iso_ms(inbox.later(3000)), "limit": 1})
        rest = await inbox.service.run_workflow({})

        assert "Invalid notification dispatch time: not-a-date" == raised.value.message
        assert {"delivered": 1, "failed": 0} == result
        assert {"delivered": 0, "failed": 0} == rest

    # -- the loop -------------------------------------------------------------------------------

    @case("notifications", 118)
    async def test_the_loop_needs_no_row(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A row that a foreign process deleted is missed by nobody and comes back."""
        inbox = Inbox(store, clock=clock, ids=ids, poll_ms=20)
        sends = _Sends(inbox)
        async with _looping(inbox):
            await inbox.send(priority="low", summary="a")
            await sends.wait(1)
            await store.schedules.delete_schedule(ROW)

            await inbox.due("n1")
            await sends.wait(2)
            gone = await store.schedules.get_schedule(ROW)
            await inbox.send(priority="low", summary="b")
            await sends.wait(3)

        assert gone is None
        assert "active" == (await _row(store)).status

    async def test_a_thread_that_becomes_idle_gets_what_waited_for_it(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """At once, and only that."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)
        await inbox.due("soon", deliver_at=inbox.later(20))
        sends = _Sends(inbox)
        announced = await inbox.send(priority="high", summary="the text")
        await inbox.dispatch()
        waits = await inbox.is_due(announced.record.id, after=25)
        async with _looping(inbox):
            inbox.sink.active.clear()
            inbox.service.thread_idle("user_1", THREAD)
            await sends.wait(2)

        assert not waits
        assert ["github: 1", "the text"] == [signal.contents for signal in inbox.sink.signals]
        assert "delivered" == (await inbox.record(announced.record.id)).status
        soon = await inbox.record("soon")
        assert ("pending", False) == (soon.status, await inbox.is_due("soon", after=15))
        assert await inbox.is_due("soon", after=25)

    async def test_a_thread_that_becomes_idle_while_a_record_is_put_off_isnt_missed(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The run tells its end once, and that may be before anybody waits for it."""
        inboxes: list[Inbox] = []

        def end_run(point: str) -> None:
            if point == "notifications.release_claims:before":
                inboxes[0].sink.active.clear()
                inboxes[0].service.thread_idle("user_1", THREAD)

        inbox = Inbox(faulty_storage(store, end_run), clock=clock, ids=ids)
        inboxes.append(inbox)
        inbox.sink.active.add(THREAD)
        sends = _Sends(inbox)
        await inbox.send(priority="high", summary="the text")
        async with _looping(inbox):
            await sends.wait(2)

        assert ["github: 1", "the text"] == [signal.contents for signal in inbox.sink.signals]

    async def test_the_loop_outlives_a_failing_store(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It logs, waits for its next look and goes on."""
        failed = asyncio.Event()
        left = [2]

        def fail(point: str) -> None:
            if point == "notifications.claim_due:before" and left[0] > 0:
                left[0] -= 1
                if not left[0]:
                    failed.set()
                raise StorageConnectionError("gone")

        inbox = Inbox(faulty_storage(store, fail), clock=clock, ids=ids, poll_ms=20)
        sends = _Sends(inbox)
        await inbox.due("n1")
        async with _looping(inbox):
            await failed.wait()
            await sends.wait(1)

        assert "delivered" == (await inbox.record()).status
