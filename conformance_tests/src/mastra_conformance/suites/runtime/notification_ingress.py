"""Events on their way in: what is stored, decided and sent at once (notifications.md 6)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.suite import Suite
from mastra_conformance.suites.runtime.inboxes import RESOURCE, THREAD, Inbox, target
from mastra_core.base.ids import Ids
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.contracts.storage import Storage
from mastra_core.errors import (
    ConfigError,
    InvalidSignalError,
    NotificationError,
    StorageConnectionError,
)
from mastra_core.notifications import AgentInbox, NotificationService
from mastra_core.notifications.schedule import NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID
from mastra_core.rules.notification_claims import full_signal_id, summary_signal_id
from mastra_core.testing.faults import faulty_storage, raise_at
from mastra_core.testing.recording_sink import RecordingSink

__all__ = (
    "_BLOCKED",
    "IngressSuite",
)

_BLOCKED = Accepted(action="blocked", run_id="run-of-another", reason="thread-blocked")


async def _schedule_exists(store: Storage) -> bool:
    return await store.schedules.get_schedule(NOTIFICATION_DISPATCH_SCHEDULE_ROW_ID) is not None


async def _rows(store: Storage) -> list[str]:
    return [row.id for row in await store.notifications.list_notifications(THREAD)]


class IngressSuite(Suite):
    """What one send call does to records and schedules, and what it sends."""

    role = "runtime"
    capabilities = ("notifications", "schedules")

    # -- refusals -------------------------------------------------------------------------------

    @case("notifications", 54)
    async def test_without_an_inbox_nothing_is_sent(self, clock: ShiftedClock, ids: Ids) -> None:
        """The text is contract."""
        service = NotificationService(None, clock=clock, ids=ids)
        sink = RecordingSink(clock=clock)
        inbox = AgentInbox(sink=sink)

        with pytest.raises(NotificationError) as raised:
            await service.ingest(inbox, {"source": "s", "kind": "k", "summary": ""}, target())

        text = "sendNotificationSignal requires a notifications storage domain"
        assert text == raised.value.message
        assert [] == sink.sent

    @case("notifications", 53)
    async def test_a_bad_attribute_name_stores_nothing(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Not even the good events of the same call."""
        inbox = Inbox(store, clock=clock, ids=ids)

        with pytest.raises(
            InvalidSignalError, match=r"^Invalid signal XML attribute name: bad name$"
        ):
            await inbox.send_all({}, {"attributes": {"bad name": 1}})

        assert [] == await _rows(store)
        assert [] == inbox.sink.sent

    @pytest.mark.parametrize(
        ("members", "text"),
        [
            ({"priority": "huge"}, "priority"),
            ({"source": ""}, "source"),
            ({"kind": ""}, "kind"),
            ({"summary": None}, "summary"),
            ({"deliverAt": "2026-01-01T00:00:00.000Z"}, "deliverAt"),
            ({"created_at": "2026-01-01T00:00:00.000Z"}, "created_at"),
            ({"attributes": {"a": [1]}}, "attribute"),
        ],
    )
    async def test_a_malformed_event_stores_nothing(
        self, store: Storage, clock: ShiftedClock, ids: Ids, members: dict[str, Any], text: str
    ) -> None:
        """Everything is checked before the first write (S5)."""
        inbox = Inbox(store, clock=clock, ids=ids)

        with pytest.raises(InvalidSignalError, match=text):
            await inbox.send_all({}, members)

        assert [] == await _rows(store)

    @pytest.mark.parametrize(("thread_id", "resource_id"), [("", RESOURCE), (THREAD, "")])
    async def test_a_target_needs_thread_and_resource(
        self, store: Storage, clock: ShiftedClock, ids: Ids, thread_id: str, resource_id: str
    ) -> None:
        """A record without them could never be delivered."""
        inbox = Inbox(store, clock=clock, ids=ids)

        with pytest.raises(InvalidSignalError, match="requires resourceId and threadId"):
            await inbox.send(target(thread_id, resource_id=resource_id))

    # -- the built-in policy --------------------------------------------------------------------

    @case("notifications", 55)
    @pytest.mark.parametrize("priority", ["urgent", "high", "medium"])
    async def test_an_idle_thread_is_woken(
        self, store: Storage, clock: ShiftedClock, ids: Ids, priority: str
    ) -> None:
        """One wake; the record is delivered, knows its signal, and nothing is due any more."""
        inbox = Inbox(store, clock=clock, ids=ids)

        result = await inbox.send(priority=priority)

        record = await inbox.record(result.record.id)
        assert record == result.record
        assert ["wake"] == [to.if_idle.behavior for to in inbox.sink.targets]
        assert ("delivered", full_signal_id(THREAD, record.id, 1)) == (
            record.status,
            record.delivered_signal_id,
        )
        assert record.delivered_at is not None
        assert (None, None) == (record.deliver_at, record.summary_at)
        assert result.decision.reason == record.delivery_reason
        assert "run-woken" == result.run_id
        assert result.accepted is not None
        assert result.signal is not None
        assert record.delivered_signal_id == result.signal.id
        assert not await _schedule_exists(store)

    @case("notifications", 56)
    async def test_urgent_goes_into_the_active_run(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The full text is queued; that counts as delivered."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)

        result = await inbox.send(priority="urgent")

        assert result.accepted == Accepted(action="deliver", run_id="run-active")
        assert ("delivered", "urgent") == (result.record.status, result.record.delivery_reason)
        assert ["notification"] == [signal.tag_name for signal in inbox.sink.signals]

    @case("notifications", 57)
    async def test_high_is_announced_to_the_active_run_and_delivered_later(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A summary of one record now; the record waits with a due time; the row exists."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)

        result = await inbox.send(priority="high")

        (signal,) = inbox.sink.signals
        record = await inbox.record(result.record.id)
        assert {"pending": 1, "priority": "high"} == signal.attributes
        assert summary_signal_id(THREAD, [(record.id, 1)], 0) == signal.id
        assert ("pending", signal.id, None) == (
            record.status,
            record.summary_signal_id,
            record.summary_at,
        )
        assert record.deliver_at is not None
        assert await inbox.is_due(record.id)
        assert await _schedule_exists(store)

    @case("notifications", 58)
    async def test_medium_is_announced_to_the_active_run_and_stays_in_the_inbox(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """No due time, so no row either."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)

        result = await inbox.send(priority="medium")

        record = await inbox.record(result.record.id)
        assert ["notification-summary"] == [signal.tag_name for signal in inbox.sink.signals]
        assert ("pending", None, None) == (record.status, record.deliver_at, record.summary_at)
        assert inbox.sink.signals[0].id == record.summary_signal_id
        assert not await _schedule_exists(store)

    @case("notifications", 59)
    @pytest.mark.parametrize("active", [(), (THREAD,)])
    async def test_low_waits_for_a_summary(
        self, store: Storage, clock: ShiftedClock, ids: Ids, active: tuple[str, ...]
    ) -> None:
        """Nothing is sent; the summary is due; the row exists."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.update(active)

        result = await inbox.send(priority="low")

        assert [] == inbox.sink.sent
        assert ("pending", None) == (result.record.status, result.record.deliver_at)
        assert result.record.summary_at is not None
        assert await _schedule_exists(store)

    # -- configured decisions -------------------------------------------------------------------

    @case("notifications", 60)
    async def test_discard_and_persist_send_nothing(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """One is dropped with its time, the other keeps only the reason."""
        policy = {
            "sources": {
                "spam": {"action": "discard", "reason": "spam"},
                "mail": {"action": "persist", "reason": "inbox only"},
            }
        }
        inbox = Inbox(store, clock=clock, ids=ids, policy=policy)

        dropped = await inbox.send(source="spam", priority="urgent")
        kept = await inbox.send(source="mail", priority="urgent")

        assert [] == inbox.sink.sent
        assert ("discarded", "spam") == (dropped.record.status, dropped.record.delivery_reason)
        assert dropped.record.discarded_at is not None
        assert ("pending", "inbox only", None, None) == (
            kept.record.status,
            kept.record.delivery_reason,
            kept.record.deliver_at,
            kept.record.summary_at,
        )
        assert not await inbox.is_due(kept.record.id, after=3600)

    async def test_defer_schedules_what_it_says(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The times of the decision replace the guard."""
        inbox = Inbox(store, clock=clock, ids=ids)
        when = inbox.later(3600)
        inbox = Inbox(
            store,
            clock=clock,
            ids=ids,
            policy={"default": {"action": "defer", "summaryAt": when, "reason": "later"}},
        )

        result = await inbox.send()

        assert (None, when, "later") == (
            result.record.deliver_at,
            result.record.summary_at,
            result.record.delivery_reason,
        )
        assert await _schedule_exists(store)

    async def test_queue_is_deliver(self, store: Storage, clock: ShiftedClock, ids: Ids) -> None:
        """There is no other handling of it."""
        inbox = Inbox(store, clock=clock, ids=ids, policy={"default": "queue"})

        result = await inbox.send(priority="low")

        assert ("delivered", "queue") == (result.record.status, result.decision.action)

    @case("notifications", 61)
    async def test_a_full_signal_that_is_only_stored_leaves_the_record_pending(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The message exists; the record keeps the reason, but no signal id and no due time."""
        inbox = Inbox(store, clock=clock, ids=ids)

        result = await inbox.send(target(if_idle={"behavior": "persist"}), priority="high")

        record = await inbox.record(result.record.id)
        assert {(THREAD, full_signal_id(THREAD, record.id, 1))} == inbox.sink.rows
        assert ("pending", None, "idle-high", None) == (
            record.status,
            record.delivered_signal_id,
            record.delivery_reason,
            record.deliver_at,
        )
        assert result.accepted == Accepted(action="persist")
        assert result.persisted is not None
        assert result.run_id is None

    @case("notifications", 62)
    async def test_stream_options_of_the_caller_win(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Those of the policy count only where the caller gave none."""
        policy = {"default": {"action": "deliver", "streamOptions": {"max_steps": 1}}}
        inbox = Inbox(store, clock=clock, ids=ids, policy=policy)

        await inbox.send(target(if_idle={"stream_options": {"max_steps": 2}}))
        await inbox.send()

        assert [{"max_steps": 2}, {"max_steps": 1}] == [
            to.if_idle.stream_options for to in inbox.sink.targets
        ]

    @case("notifications", 63)
    async def test_a_high_summary_on_a_thread_that_turned_idle_is_only_stored(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It wakes nobody, and the record doesn't count as summarized."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)

        def turn_idle(*_: Any) -> None:
            inbox.sink.active.clear()

        inbox.sink.answer = turn_idle

        result = await inbox.send(priority="high")

        assert ["persist"] == [to.if_idle.behavior for to in inbox.sink.targets]
        assert (None, None) == (result.record.summary_signal_id, result.record.summary_at)
        assert result.record.deliver_at is not None
        assert result.accepted == Accepted(action="persist")

    # -- lists ----------------------------------------------------------------------------------

    @case("notifications", 64)
    async def test_a_list_in_is_a_list_out(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Same length, same order; nothing in, nothing out; one in, one out."""
        inbox = Inbox(store, clock=clock, ids=ids)

        results = await inbox.send_all({"summary": "a"}, {"summary": "b"}, {"summary": "c"})

        assert ["a", "b", "c"] == [result.record.summary for result in results]
        assert ["a", "b", "c"] == [signal.contents for signal in inbox.sink.signals]
        assert [] == await inbox.send_all()

    @case("notifications", 65)
    async def test_events_of_one_record_become_one_signal(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """It has the last text, and both results are the same one."""
        inbox = Inbox(store, clock=clock, ids=ids)

        first, second, other = await inbox.send_all(
            {"summary": "old", "dedupe_key": "k"},
            {"summary": "new", "dedupe_key": "k"},
            {"summary": "other"},
        )

        assert first is second
        assert ["new", "other"] == [signal.contents for signal in inbox.sink.signals]
        assert (2, "delivered") == (first.record.coalesced_count, first.record.status)
        assert other.record.id != first.record.id

    async def test_the_same_call_again_changes_nothing(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """An id is a handle: a caller that lost the answer may ask again."""
        inbox = Inbox(store, clock=clock, ids=ids)
        first = await inbox.send(id="n1", priority="high")
        low = await inbox.send(id="n2", priority="low")

        again = await inbox.send(id="n1", priority="high")
        low_again = await inbox.send(id="n2", priority="low")

        assert (first.record, "deliver") == (again.record, again.decision.action)
        assert (low.record, "summarize") == (low_again.record, low_again.decision.action)
        assert 1 == len(inbox.sink.sent)

    # -- what goes wrong ------------------------------------------------------------------------

    @case("notifications", 66)
    async def test_a_rejected_delivery_is_tried_again_later(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """One attempt, the error, a due time after the pause, and the row for peers."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.answer = lambda *_: RuntimeError("no model")

        result = await inbox.send(priority="high")

        record = result.record
        assert ("pending", 1, "no model", "idle-high") == (
            record.status,
            record.delivery_attempts,
            record.last_delivery_error,
            record.delivery_reason,
        )
        assert (None, None) == (result.signal, result.accepted)
        assert record.deliver_at is not None
        pause = record.deliver_at - clock.now()
        assert timedelta(seconds=25) < pause < timedelta(seconds=34)
        assert await _schedule_exists(store)

        inbox.sink.answer = lambda *_: None
        done = await inbox.dispatch(after=40)

        assert [record.id] == [one.id for one in done.delivered]
        assert done.delivered[0].last_delivery_error is None

    async def test_an_error_of_the_call_itself_is_a_rejection_too(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The later events of the call are sent all the same."""
        inbox = Inbox(store, clock=clock, ids=ids)
        error = InvalidSignalError("not this one")
        inbox.sink.refuse = lambda signal: error if signal.contents == "a" else None

        first, second = await inbox.send_all({"summary": "a"}, {"summary": "b"})

        assert ("pending", "not this one") == (
            first.record.status,
            first.record.last_delivery_error,
        )
        assert "delivered" == second.record.status

    async def test_a_rejected_summary_is_tried_again_before_the_full_text(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Both are due after the pause, so that the order stays."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)
        inbox.sink.answer = lambda *_: RuntimeError("full")

        medium = await inbox.send(priority="medium")
        high = await inbox.send(priority="high")

        for record in (medium.record, high.record):
            assert record.summary_at is not None
            assert (1, "full", None) == (
                record.delivery_attempts,
                record.last_delivery_error,
                record.summary_signal_id,
            )
            assert not await inbox.is_due(record.id)
        assert high.record.deliver_at == high.record.summary_at
        assert medium.record.deliver_at is None

    async def test_the_fifth_failure_is_the_last(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A record that failed four times before is given up at ingress, too."""
        inbox = Inbox(store, clock=clock, ids=ids)
        await inbox.due(dedupe_key="k", deliver_at=inbox.later(3600))
        inbox.sink.answer = lambda *_: RuntimeError("down")
        for _ in range(4):
            await inbox.send(dedupe_key="k")

        result = await inbox.send(dedupe_key="k")

        assert ("failed", 5) == (result.record.status, result.record.delivery_attempts)
        assert not await inbox.is_due(result.record.id, after=86_400)

    @case("notifications", 67)
    @pytest.mark.parametrize(
        ("priority", "column"), [("urgent", "deliver_at"), ("medium", "summary_at")]
    )
    async def test_blocked_is_no_success(
        self, store: Storage, clock: ShiftedClock, ids: Ids, priority: str, column: str
    ) -> None:
        """Pending, no attempt, no signal id, due again soon."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.active.add(THREAD)
        inbox.sink.answer = lambda *_: _BLOCKED

        result = await inbox.send(priority=priority)

        record = await inbox.record(result.record.id)
        assert ("pending", 0, None, None) == (
            record.status,
            record.delivery_attempts,
            record.delivered_signal_id,
            record.summary_signal_id,
        )
        assert getattr(record, column) is not None
        assert not await inbox.is_due(record.id, after=25)
        assert await inbox.is_due(record.id, after=31)
        assert "run-of-another" == result.run_id
        assert await _schedule_exists(store)

    async def test_a_persist_that_stored_nothing_is_a_failure(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """An agent without memory can't keep a message (S9)."""
        inbox = Inbox(store, clock=clock, ids=ids)
        inbox.sink.has_memory = False

        result = await inbox.send(target(if_idle={"behavior": "persist"}), priority="high")

        assert 1 == result.record.delivery_attempts
        assert "has no memory" in (result.record.last_delivery_error or "")

    @case("notifications", 42)
    async def test_a_policy_that_raises_orphans_nothing(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The error reaches the caller; the records become due when their guard expires."""
        fails = [True]

        def decide(_: Any) -> str | None:
            if fails[0]:
                raise KeyError("no rule")
            return None

        inbox = Inbox(store, clock=clock, ids=ids, policy={"decide": decide})

        with pytest.raises(KeyError, match="no rule"):
            await inbox.send_all({"id": "a"}, {"id": "b"})

        assert not await inbox.is_due("a", after=50)
        assert await inbox.is_due("a", after=61)
        assert await inbox.is_due("b", after=61)

        fails[0] = False
        done = await inbox.dispatch(after=61)

        assert ["a", "b"] == sorted(record.id for record in done.delivered)
        assert {"idle-medium"} == {record.delivery_reason for record in done.delivered}

    @case("notifications", 43)
    @pytest.mark.parametrize(
        ("action", "missing"), [("defer", "deliver_at"), ("summarize", "summary_at")]
    )
    async def test_a_decision_without_a_time_is_refused(
        self, store: Storage, clock: ShiftedClock, ids: Ids, action: str, missing: str
    ) -> None:
        """The error names what is missing, and the record isn't parked for ever."""
        inbox = Inbox(store, clock=clock, ids=ids, policy={"default": action})

        with pytest.raises(ConfigError, match=missing):
            await inbox.send(id="n1")

        assert await inbox.is_due("n1", after=61)

    async def test_a_store_that_fails_after_the_send_leaves_a_due_record(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The dispatcher sends the same id again, which a thread takes once."""
        error = StorageConnectionError("gone")
        broken = faulty_storage(store, raise_at("notifications.update_notification:before", error))
        inbox = Inbox(broken, clock=clock, ids=ids)

        with pytest.raises(StorageConnectionError, match="gone"):
            await inbox.send(id="n1", priority="urgent")
        done = await inbox.dispatch(after=61)

        assert ["n1"] == [record.id for record in done.delivered]
        assert 2 == len(inbox.sink.sent)
        assert 1 == len(inbox.sink.rows)

    async def test_an_event_that_is_merged_while_the_first_is_being_sent_is_not_lost(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The first send may not call the newer text delivered."""
        inbox = Inbox(store, clock=clock, ids=ids)
        second = Inbox(store, clock=clock, ids=ids, policy={"default": {"action": "persist"}})

        async def merge(*_: Any) -> Accepted:
            await second.send(dedupe_key="k", summary="new")
            return Accepted(action="wake", run_id="run-1")

        inbox.sink.answer = merge

        result = await inbox.send(dedupe_key="k", summary="old", priority="high")

        assert ("pending", 2, "new", None) == (
            result.record.status,
            result.record.coalesced_count,
            result.record.summary,
            result.record.delivered_signal_id,
        )
