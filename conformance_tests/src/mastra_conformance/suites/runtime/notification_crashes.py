"""Processes die with an event in their hands; another one finishes (notifications.md 13).

The rows of the crash matrix, C1 to C10. Children are really killed, at the store's named
points; what they were about to write is not written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.processes import Processes, WorkerDiedError
from mastra_conformance.suite import Suite, several_processes
from mastra_conformance.suites.runtime.inbox_workers import busy, crash, freeze
from mastra_conformance.suites.runtime.inboxes import due_event
from mastra_conformance.suites.runtime.notifications import RESOURCE, THREAD, House, house
from mastra_core.base.ids import Ids
from mastra_core.contracts.storage import Storage
from mastra_core.notifications import (
    NotificationSettings,
    build_notification_dispatch_schedule,
    create_notification_inbox_tool,
)
from mastra_core.rules.notification_claims import full_signal_id
from mastra_core.testing.scripted_model import text, tool_call

__all__ = (
    "_LAPSED_MS",
    "_SHORT",
    "CrashSuite",
    "_Elapse",
)

_Elapse = Callable[[int], Awaitable[None]]

_SHORT = {"visibility_ms": 400}
"""Claims that a test lets lapse; a server's clock really waits for them."""
_LAPSED_MS = 500


async def _crashed(processes: Processes, **arguments: Any) -> None:
    """A process did something and was killed at the point."""
    async with processes.start(crash, **arguments) as worker:
        with pytest.raises(WorkerDiedError, match="code 77"):
            await worker.result()


async def _store_due(store: Storage, clock: ShiftedClock, *names: str, **members: Any) -> None:
    given = members or {"deliver_at": clock.now()}
    for name in names or ("n1",):
        await store.notifications.create_notification(due_event(name, **given))


async def _is_due(store: Storage, clock: ShiftedClock, name: str = "n1") -> bool:
    due = await store.notifications.list_due_notifications(clock.now())
    return name in {record.id for record in due}


async def _ids_of_notification_rows(home: House) -> list[str]:
    return [row.id for row in await home.rows() if row.type != "user"]


@several_processes()
class CrashSuite(Suite):
    """Each test kills a process and looks at what the next one makes of it."""

    role = "runtime"
    capabilities = ("memory", "workflows", "notifications", "notifications.claims", "schedules")
    tier = 2

    @case("notifications", 68)
    @pytest.mark.parametrize(
        "point",
        [
            "notifications.create_notification:after",  # C1: stored, nothing decided
            "memory.list_messages_by_id:before",  # C2: decided, about to be sent
        ],
    )
    async def test_killed_before_the_send_it_is_delivered_once(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        processes: Processes,
        *,
        point: str,
    ) -> None:
        """When the guard expires the policy is asked, and there is exactly one delivery."""
        await _crashed(
            processes, action="send", point=point, event={"id": "n1", "priority": "high"}
        )
        async with house(store, clock=clock, ids=ids, calls=[[text("Seen")]]) as home:
            early = await home.dispatch(after=55)
            tags = await home.dispatch(after=61)
            await home.quiet()
            again = await home.dispatch(after=3600)
            record = await home.record("n1")
            rows = await _ids_of_notification_rows(home)

        assert ([], ["notification"], []) == (early, tags, again)
        assert ("delivered", "idle-high", 0) == (
            record.status,
            record.delivery_reason,
            record.delivery_attempts,
        )
        assert [full_signal_id(THREAD, "n1", 1)] == rows
        assert 1 == len(home.model.requests)

    async def test_killed_after_the_decision_it_is_due_by_its_schedule(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """The decision stands (C2)."""
        await _crashed(
            processes,
            action="send",
            point="notifications.update_notification:after",
            event={"id": "n1", "priority": "low"},
        )
        async with house(store, clock=clock, ids=ids) as home:
            tags = await home.dispatch(after=1)
            record = await home.record("n1")

        assert ["notification-summary"] == tags
        assert ("pending", "idle-low-summary") == (record.status, record.delivery_reason)
        assert record.summary_signal_id is not None

    @case("notifications", 98)
    @pytest.mark.parametrize(
        ("action", "point"),
        [
            ("send", "notifications.record_acceptance:before"),
            ("send", "notifications.update_notification:before"),
            ("dispatch", "notifications.finalize_full:before"),
        ],
    )
    @pytest.mark.parametrize("once", [None, "memory.save_messages:after"])
    async def test_killed_after_the_send_it_makes_one_message(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        processes: Processes,
        elapse: _Elapse,
        *,
        action: str,
        point: str,
        once: str | None,
    ) -> None:
        """Sent again under the same id: one row, one final status (C3)."""
        if action == "dispatch":
            await _store_due(store, clock)
        await _killed_when_stored(processes, once, action=action, point=point)
        await elapse(_LAPSED_MS)
        async with house(store, clock=clock, ids=ids, calls=[[text("Seen")]]) as home:
            await home.dispatch(after=61)
            await home.quiet()
            again = await home.dispatch(after=3600)
            record = await home.record("n1")
            rows = await _ids_of_notification_rows(home)

        expected = full_signal_id(THREAD, "n1", 1)
        assert ([expected], []) == (rows, again)
        assert ("delivered", expected, 0) == (
            record.status,
            record.delivered_signal_id,
            record.delivery_attempts,
        )

    async def test_killed_with_a_claim_it_is_due_when_the_claim_lapses(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        processes: Processes,
        elapse: _Elapse,
    ) -> None:
        """No attempt is counted (C4)."""
        await _store_due(store, clock)
        await _crashed(
            processes, action="dispatch", point="notifications.claim_due:after", settings=_SHORT
        )
        held = await _is_due(store, clock)
        await elapse(_LAPSED_MS)
        lapsed = await _is_due(store, clock)
        async with house(store, clock=clock, ids=ids, calls=[[text("Seen")]]) as home:
            tags = await home.dispatch()
            await home.quiet()
            record = await home.record("n1")

        assert (False, True, ["notification"]) == (held, lapsed, tags)
        assert ("delivered", 0) == (record.status, record.delivery_attempts)

    @pytest.mark.parametrize("when", ["before", "after"])
    async def test_killed_around_the_end_of_a_summary_it_is_all_or_none(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        processes: Processes,
        elapse: _Elapse,
        *,
        when: str,
    ) -> None:
        """And one message either way (C5)."""
        names = ("n1", "n2", "n3")
        await _store_due(store, clock, *names, summary_at=clock.now(), priority="low")
        await _crashed(
            processes,
            action="dispatch",
            point=f"notifications.finalize_summary:{when}",
            settings=_SHORT,
        )
        between = [await store.notifications.get_notification(THREAD, name) for name in names]
        await elapse(_LAPSED_MS)
        async with house(store, clock=clock, ids=ids) as home:
            await home.dispatch(after=1)
            again = await home.dispatch(after=3600)
            after = [await home.record(name) for name in names]
            rows = await _ids_of_notification_rows(home)

        signal_ids = {record.summary_signal_id for record in between if record is not None}
        assert 1 == len(signal_ids)
        assert (when == "after") == (signal_ids != {None})
        assert (1, []) == (len(rows), again)
        assert set(rows) == {record.summary_signal_id for record in after}
        assert {(None, 0)} == {(one.summary_at, one.delivery_attempts) for one in after}

    @pytest.mark.parametrize(("when", "attempts"), [("before", 1), ("after", 2)])
    async def test_killed_while_counting_a_failure_it_counts_once(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        processes: Processes,
        elapse: _Elapse,
        *,
        when: str,
        attempts: int,
    ) -> None:
        """The next failure is the first or the second, as the store says (C6)."""
        await _store_due(store, clock)
        await _crashed(
            processes,
            action="dispatch",
            point=f"notifications.fail_claims:{when}",
            settings=_SHORT,
            fails=True,
        )
        await elapse(_LAPSED_MS)
        async with house(store, clock=clock, ids=ids, has_model=False) as home:
            await home.dispatch(after=40)
            record = await home.record("n1")

        assert ("pending", attempts) == (record.status, record.delivery_attempts)

    @case("notifications", 99)
    async def test_killed_with_the_signal_in_its_queue_it_is_sent_again(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """The same id after a while, and the model sees it once (C7)."""
        async with processes.start(busy) as worker:
            accepted = await worker.reached("queued")
            await worker.kill()
        async with house(store, clock=clock, ids=ids, calls=[[text("Seen")]]) as home:
            before = await _ids_of_notification_rows(home)
            early = await home.dispatch(after=100)
            tags = await home.dispatch(after=130)
            await home.quiet()
            again = [await home.dispatch(after=after) for after in (300, 600, 90_000)]
            rows = await _ids_of_notification_rows(home)
            seen = await home.seen_by_model(0)

        assert ["deliver", "delivered"] == accepted
        assert ([], [], ["notification"]) == (before, early, tags)
        assert [[], [], []] == again
        assert [full_signal_id(THREAD, "n1", 1)] == rows
        assert (1, 1) == (len(home.model.requests), "".join(seen).count("urgent text"))

    @case("notifications", 94, 95)
    async def test_frozen_beyond_its_claim_its_last_word_is_refused(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        processes: Processes,
        elapse: _Elapse,
    ) -> None:
        """The successor's result stands: no second row, no other status (C8)."""
        await _store_due(store, clock)
        async with processes.start(
            freeze, point="notifications.finalize_full:before", settings=_SHORT
        ) as worker:
            await worker.reached("sent")
            worker.pause()
            await elapse(_LAPSED_MS)
            async with house(store, clock=clock, ids=ids, calls=[[text("Seen")]]) as home:
                await home.dispatch()
                await home.quiet()
                record = await home.record("n1")
                read = await home.mastra.notifications.inbox.archive(THREAD, "n1")
                worker.resume()
                late = await worker.result()
                after = await home.record("n1")
                rows = await _ids_of_notification_rows(home)

        assert ("delivered", []) == (record.status, late["delivered"])
        assert read == after
        assert late["signals"] == rows == [full_signal_id(THREAD, "n1", 1)]

    async def test_killed_after_taking_a_tick_the_items_stay_due(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """Dispatch depends on no row (C9)."""
        row = build_notification_dispatch_schedule(NotificationSettings(), now_ms=clock.now_ms())
        await store.schedules.create_schedule(row)
        await _store_due(store, clock)
        clock.advance(120_000)
        await _crashed(
            processes,
            action="tick",
            point="notifications.claim_due:before",
            once="schedules.update_schedule_next_fire:after",
            settings={"enabled": True, "claims_ticks": True},
        )
        taken = await store.schedules.get_schedule(row.id)
        is_due = await _is_due(store, clock)
        async with house(store, clock=clock, ids=ids, calls=[[text("Seen")]]) as home:
            tags = await home.dispatch()
            await home.quiet()
            record = await home.record("n1")

        assert taken is not None
        assert taken.last_run_id is not None
        assert (True, ["notification"], "delivered") == (is_due, tags, record.status)

    async def test_killed_while_reading_the_record_stays_readable(
        self, store: Storage, clock: ShiftedClock, ids: Ids, processes: Processes
    ) -> None:
        """Reading again makes no second message (C10)."""
        await _store_due(store, clock, deliver_at=None)
        await _crashed(processes, action="read", point="notifications.update_notification:before")
        tool = create_notification_inbox_tool(store.notifications, clock=clock)
        read = tool_call("notification-inbox", {"action": "read", "id": "n1"})
        between = await store.notifications.get_notification(THREAD, "n1")
        async with house(
            store, clock=clock, ids=ids, calls=[[read], [text("done")]], tools=[tool]
        ) as home:
            home.agent.send_message("again", resource_id=RESOURCE, thread_id=THREAD)
            await home.quiet()
            record = await home.record("n1")
            rows = await _ids_of_notification_rows(home)

        assert between is not None
        assert ("pending", "seen") == (between.status, record.status)
        assert [full_signal_id(THREAD, "n1", 1)] == rows


async def _killed_when_stored(processes: Processes, once: str | None, **arguments: Any) -> None:
    """Kill at the point; with ``once`` only after the run has stored the signal."""
    event = {"id": "n1", "priority": "high"}
    await _crashed(processes, event=event, settings=_SHORT, once=once, **arguments)
