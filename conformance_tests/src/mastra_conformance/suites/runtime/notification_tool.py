"""The inbox as an agent sees it: pages, searches, reading, marking (notifications.md 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.suite import Suite
from mastra_conformance.suites.runtime.inboxes import RESOURCE, THREAD, Inbox
from mastra_core.base.ids import Ids
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.contracts.storage import Storage
from mastra_core.contracts.tool import Tool, ToolContext
from mastra_core.errors import (
    NotificationError,
    NotificationNotFoundError,
    StorageConnectionError,
    ToolInputError,
)
from mastra_core.notifications import create_notification_inbox_tool
from mastra_core.rules.notification_claims import full_signal_id
from mastra_core.testing.faults import faulty_storage, raise_at
from mastra_core.wire.notifications import NotificationPatch

__all__ = (
    "_BLOCKED",
    "_NOTHING",
    "InboxToolSuite",
    "_Desk",
)

_BLOCKED = Accepted(action="blocked", run_id="run-of-another", reason="thread-blocked")


class _NoWriter:
    """The tool writes nothing into the stream."""

    async def write(self, value: Any) -> None:
        raise AssertionError

    async def custom(self, chunk: Any) -> None:
        raise AssertionError


async def _never(*_: Any) -> None:
    raise AssertionError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Desk:
    """An agent's place at the inbox."""

    inbox: Inbox
    tool: Tool
    context: ToolContext

    async def call(self, action: str, **arguments: Any) -> dict[str, Any]:
        """One call, through the checks of its arguments."""
        assert self.tool.execute is not None
        args = self.tool.parse_input({"action": action, **arguments})
        result: dict[str, Any] = await self.tool.execute(args, self.context)
        return result

    async def add(self, *names: str, **members: Any) -> None:
        """Unread records without a schedule."""
        for name in names:
            await self.inbox.due(name, deliver_at=None, summary=f"text of {name}", **members)

    async def statuses(self, *names: str) -> list[str]:
        """The stored statuses."""
        return [(await self.inbox.record(name)).status for name in names]


def _desk(
    store: Storage,
    *,
    clock: ShiftedClock,
    ids: Ids,
    thread_id: str | None = THREAD,
    resource_id: str | None = RESOURCE,
    looks_up: bool = True,
    allow_other_threads: bool = False,
) -> _Desk:
    inbox = Inbox(store, clock=clock, ids=ids)
    tool = create_notification_inbox_tool(
        store.notifications,
        find=inbox.agents.get if looks_up else None,
        clock=clock,
        allow_other_threads=allow_other_threads,
    )
    context = ToolContext(
        agent_id="helper",
        run_id="run-1",
        tool_call_id="call-1",
        tool_name=tool.id,
        writer=_NoWriter(),
        suspend=_never,
        thread_id=thread_id,
        resource_id=resource_id,
    )
    return _Desk(inbox=inbox, tool=tool, context=context)


def _ids(result: dict[str, Any]) -> list[str]:
    return [shown["id"] for shown in result["notifications"]]


def _read(
    message: str, *, delivered: int = 0, seen: int = 0, unavailable: int = 0, already: int = 0
) -> dict[str, Any]:
    return {
        "message": message,
        "delivered": delivered,
        "markedSeen": seen,
        "unavailable": unavailable,
        "alreadyRead": already,
    }


_NOTHING = "No unread notifications needed delivery."


class InboxToolSuite(Suite):
    """What each action shows, sends and marks."""

    role = "runtime"
    capabilities = ("notifications", "notifications.claims", "schedules")

    async def test_it_is_a_tool(self, store: Storage, clock: ShiftedClock, ids: Ids) -> None:
        """Its id and the names of its arguments are contract."""
        tool = _desk(store, clock=clock, ids=ids).tool
        schema = tool.input_json_schema()

        assert isinstance(tool, Tool)
        assert ("notification-inbox", False) == (tool.id, tool.can_suspend)
        assert {
            "action", "threadId", "id", "status", "priority", "source", "query", "limit"
        } == set(schema["properties"])  # fmt: skip
        assert ["action"] == schema["required"]
        assert tool.resume_json_schema() is None

    # -- pages ----------------------------------------------------------------------------------

    @case("notifications", 101)
    async def test_the_same_call_again_shows_the_next_page(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Twenty and five, none twice, then none."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add(*(f"n{number}" for number in range(25)))

        pages = [await desk.call("list") for _ in range(3)]

        assert [(20, True), (5, False), (0, False)] == [
            (len(page["notifications"]), page["hasMore"]) for page in pages
        ]
        assert 25 == len({name for page in pages for name in _ids(page)})

    @case("notifications", 102)
    async def test_a_page_hides_payloads_and_is_marked_in_one_write(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """What it shows as seen is stored as seen; other members are those from before."""
        writes: list[str] = []

        def note(point: str) -> None:
            if ".update" in point and point.endswith(":before"):
                writes.append(point)

        desk = _desk(faulty_storage(store, note), clock=clock, ids=ids)
        await desk.add("n1", "n2", payload={"secret": 1}, metadata={"m": 1})
        before = await desk.inbox.record("n1")

        page = await desk.call("list")

        assert ["notifications.update_notifications_status:before"] == writes
        assert (2, False) == (page["markedSeen"], page["hasMore"])
        (shown,) = [one for one in page["notifications"] if one["id"] == "n1"]
        wire = before.to_wire()
        del wire["payload"], wire["metadata"]
        assert {**wire, "status": "seen"} == shown
        assert ["seen", "seen"] == await desk.statuses("n1", "n2")

    @case("notifications", 103)
    async def test_a_page_is_shown_even_if_it_cant_be_marked(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """With the statuses as they are stored."""
        error = StorageConnectionError("gone")
        broken = faulty_storage(
            store, raise_at("notifications.update_notifications_status:before", error)
        )
        desk = _desk(broken, clock=clock, ids=ids)
        await desk.add("n1")

        page = await desk.call("list")

        assert 0 == page["markedSeen"]
        assert ["pending"] == [shown["status"] for shown in page["notifications"]]
        assert ["pending"] == await desk.statuses("n1")

    @case("notifications", 104)
    async def test_records_that_were_read_can_be_listed_and_stay_as_they_are(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A status and a limit of one's own."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add("n1", "n2", "n3", "n4")
        await desk.call("list")
        before = [await desk.inbox.record(f"n{number}") for number in range(1, 5)]

        page = await desk.call("list", status="seen", limit=3)

        after = [await desk.inbox.record(f"n{number}") for number in range(1, 5)]
        assert (3, True, 0) == (
            len(page["notifications"]), page["hasMore"], page["markedSeen"]
        )  # fmt: skip
        assert before == after

    async def test_lists_can_be_narrowed(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """By priority and source; a search looks at all statuses."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add("n1", priority="low", source="slack")
        await desk.add("n2", priority="low", source="github")
        await desk.add("n3", priority="urgent", source="github")

        narrowed = await desk.call("list", priority="low", source="github")
        found = await desk.call("search", query="TEXT OF n")

        assert ["n2"] == _ids(narrowed)
        assert {"n1", "n2", "n3"} == set(_ids(found))
        assert 2 == found["markedSeen"]

    async def test_a_record_dismissed_while_it_is_marked_stays_dismissed(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Only unread ones become seen by being listed (S24)."""

        async def dismiss(point: str) -> None:
            if point == "notifications.list_notifications:after":
                await store.notifications.update_notification(
                    THREAD, "n1", NotificationPatch(status="dismissed")
                )

        desk = _desk(faulty_storage(store, dismiss), clock=clock, ids=ids)
        await desk.add("n1", "n2")

        page = await desk.call("list")

        assert 1 == page["markedSeen"]
        assert ["dismissed", "seen"] == await desk.statuses("n1", "n2")

    async def test_what_is_merged_while_it_is_marked_is_shown(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Nobody would bring it again."""
        desk_ids: list[_Desk] = []

        async def merge(point: str) -> None:
            if point == "notifications.list_notifications:after":
                await desk_ids[0].inbox.due("n2", dedupe_key="k", summary="new", deliver_at=None)

        desk = _desk(faulty_storage(store, merge), clock=clock, ids=ids)
        desk_ids.append(desk)
        await desk.inbox.due("n1", dedupe_key="k", summary="old", deliver_at=None)

        page = await desk.call("list")

        assert ["new"] == [shown["summary"] for shown in page["notifications"]]

    # -- arguments ------------------------------------------------------------------------------

    @case("notifications", 105)
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"action": "search"}, "notification-inbox search requires query"),
            ({"action": "search", "query": " \n"}, "notification-inbox search requires query"),
            ({"action": "markSeen"}, "notification-inbox markSeen requires id"),
            ({"action": "dismiss", "id": " "}, "notification-inbox dismiss requires id"),
            ({"action": "archive"}, "notification-inbox archive requires id"),
        ],
    )
    async def test_missing_arguments_are_named(
        self,
        store: Storage,
        clock: ShiftedClock,
        ids: Ids,
        *,
        arguments: dict[str, Any],
        text: str,
    ) -> None:
        """The texts are contract."""
        tool = _desk(store, clock=clock, ids=ids).tool

        with pytest.raises(ToolInputError) as raised:
            tool.parse_input(arguments)

        assert text == raised.value.message

    @pytest.mark.parametrize(
        "arguments",
        [
            {},
            {"action": "shout"},
            {"action": "list", "status": "new"},
            {"action": "list", "limit": 0},
            {"action": "list", "priority": "huge"},
        ],
    )
    async def test_values_outside_the_schema_are_refused(
        self, store: Storage, clock: ShiftedClock, ids: Ids, arguments: dict[str, Any]
    ) -> None:
        """Before anything is looked up."""
        tool = _desk(store, clock=clock, ids=ids).tool

        with pytest.raises(ToolInputError):
            tool.parse_input(arguments)

    async def test_null_is_absent(self, store: Storage, clock: ShiftedClock, ids: Ids) -> None:
        """Models write null for what they don't want to say."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add("n1")

        page = await desk.call("list", id=None, status=None, threadId=None, limit=None)

        assert ["n1"] == _ids(page)

    # -- reading --------------------------------------------------------------------------------

    @case("notifications", 106)
    async def test_reading_a_record_sends_its_full_signal(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The text comes as a signal, not in the result."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add("n1")

        result = await desk.call("read", id="n1")

        (signal,) = desk.inbox.sink.signals
        record = await desk.inbox.record("n1")
        assert _read("1 notification will now be delivered.", delivered=1) == result
        assert ("text of n1", "delivered") == (
            signal.contents,
            (signal.attributes or {})["status"],
        )
        assert full_signal_id(THREAD, "n1", 1) == signal.id == record.delivered_signal_id
        assert ("seen", None) == (record.status, record.delivered_at)

    async def test_reading_without_an_id_reads_what_is_unread(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Then nothing is left to read."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add("n1", "n2", "n3")

        first = await desk.call("read", limit=2)
        second = await desk.call("read")
        third = await desk.call("read")

        assert _read("2 notifications will now be delivered.", delivered=2) == first
        assert _read("1 notification will now be delivered.", delivered=1) == second
        assert _read(_NOTHING) == third

    @case("notifications", 107)
    async def test_reading_sends_nothing_twice(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A delivered record is only marked, one that was put away not even that."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.inbox.due("n1")
        await desk.inbox.dispatch()
        await desk.add("n2")
        await desk.call("archive", id="n2")
        sent = len(desk.inbox.sink.sent)

        delivered = await desk.call("read", id="n1")
        archived = await desk.call("read", id="n2")

        assert _read(_NOTHING, seen=1) == delivered
        assert _read(_NOTHING, already=1) == archived
        assert sent == len(desk.inbox.sink.sent)
        assert ["seen", "archived"] == await desk.statuses("n1", "n2")

    @case("notifications", 107)
    async def test_what_nobody_can_deliver_is_unavailable(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Without a resource, or without anybody to ask for agents."""
        homeless = _desk(store, clock=clock, ids=ids, resource_id=None)
        await homeless.add("n1", resource_id=None)
        alone = _desk(store, clock=clock, ids=ids, looks_up=False)

        results = [await desk.call("read", id="n1") for desk in (homeless, alone)]

        assert [_read(_NOTHING, unavailable=1)] * 2 == results
        assert ["pending"] == await alone.statuses("n1")

    @case("notifications", 108)
    async def test_an_unknown_id_is_an_error(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The text is contract."""
        desk = _desk(store, clock=clock, ids=ids)

        for action in ("read", "markSeen", "dismiss", "archive"):
            with pytest.raises(NotificationNotFoundError) as raised:
                await desk.call(action, id="n9")
            assert "Notification n9 was not found for thread thread_1" == raised.value.message

    async def test_an_unknown_agent_is_an_error(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The record stays as it is."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add("n1", agent_id="ghost")

        with pytest.raises(NotificationError, match="Agent with id ghost not found"):
            await desk.call("read", id="n1")

        assert ["pending"] == await desk.statuses("n1")

    @case("notifications", 109)
    async def test_what_was_read_is_not_delivered_when_it_is_due(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The dispatcher finds nothing."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.inbox.due("n1", deliver_at=desk.inbox.later(60))
        await desk.call("read", id="n1")

        result = await desk.inbox.dispatch(after=61)

        assert ([], 1) == (result.signals, len(desk.inbox.sink.sent))

    @case("notifications", 111)
    @pytest.mark.parametrize("answer", [RuntimeError("no model"), _BLOCKED])
    async def test_a_signal_that_nobody_took_leaves_the_record_unread(
        self, store: Storage, clock: ShiftedClock, ids: Ids, answer: Accepted | Exception
    ) -> None:
        """Rejected or blocked; reading again works."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add("n1")
        desk.inbox.sink.answer = lambda *_: answer

        failed = await desk.call("read", id="n1")
        record = await desk.inbox.record("n1")
        desk.inbox.sink.answer = lambda *_: None
        again = await desk.call("read", id="n1")

        assert _read(_NOTHING, unavailable=1) == failed
        assert ("pending", None) == (record.status, record.delivered_signal_id)
        assert 1 == again["delivered"]

    async def test_reading_again_after_a_crash_makes_no_second_message(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The id follows from the record (C10)."""
        error = StorageConnectionError("gone")
        broken = faulty_storage(store, raise_at("notifications.update_notification:before", error))
        desk = _desk(broken, clock=clock, ids=ids)
        await desk.add("n1")

        with pytest.raises(StorageConnectionError):
            await desk.call("read", id="n1")
        again = await desk.call("read", id="n1")

        assert 1 == again["delivered"]
        assert (2, 1) == (len(desk.inbox.sink.sent), len(desk.inbox.sink.rows))

    async def test_a_record_put_away_while_it_is_read_stays_away(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A person's word stands."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add("n1")

        async def dismiss(*_: Any) -> Accepted:
            await store.notifications.update_notification(
                THREAD, "n1", NotificationPatch(status="dismissed")
            )
            return Accepted(action="deliver", run_id="run-1")

        desk.inbox.sink.answer = dismiss

        await desk.call("read", id="n1")

        assert ["dismissed"] == await desk.statuses("n1")

    async def test_marks_are_set_whatever_the_status_was(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Each returns the full record."""
        desk = _desk(store, clock=clock, ids=ids)
        await desk.add("n1", payload={"p": 1})

        results = [await desk.call(a, id="n1") for a in ("archive", "dismiss", "markSeen")]

        assert ["archived", "dismissed", "seen"] == [r["notification"]["status"] for r in results]
        assert {"p": 1} == results[-1]["notification"]["payload"]
        assert (await desk.inbox.record("n1")).to_wire() == results[-1]["notification"]

    # -- whose inbox ----------------------------------------------------------------------------

    @case("notifications", 110)
    async def test_other_threads_are_closed_by_default(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Whatever the action, and also for a run without a thread."""
        desks = [_desk(store, clock=clock, ids=ids, thread_id=own) for own in (THREAD, None)]
        await desks[0].add("n1", thread_id="thread_2")

        for desk in desks:
            for call in ({"action": "list"}, {"action": "read"}, {"action": "dismiss", "id": "n1"}):
                with pytest.raises(ToolInputError, match="thread_2"):
                    await desk.call(**call, threadId="thread_2")

        assert "pending" == (await desks[0].inbox.record("n1", thread_id="thread_2")).status

    @case("notifications", 110)
    async def test_opened_threads_show_only_the_callers_resource(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Records of another resource are refused by id and left out of lists."""
        desk = _desk(store, clock=clock, ids=ids, allow_other_threads=True)
        await desk.add("mine", thread_id="thread_2")
        await desk.add("theirs", thread_id="thread_2", resource_id="user_2")
        await desk.add("nobodys", thread_id="thread_2", resource_id=None)

        page = await desk.call("list", threadId="thread_2")
        for name in ("theirs", "nobodys"):
            for action in ("read", "archive"):
                with pytest.raises(ToolInputError, match="another resource"):
                    await desk.call(action, id=name, threadId="thread_2")

        assert ["mine"] == _ids(page)
        unread = await self._unread(store, "thread_2")
        assert {"theirs", "nobodys"} == set(unread)

    async def test_a_thread_is_needed(self, store: Storage, clock: ShiftedClock, ids: Ids) -> None:
        """The text is contract."""
        desk = _desk(store, clock=clock, ids=ids, thread_id=None)

        with pytest.raises(ToolInputError) as raised:
            await desk.call("list")

        assert "notification-inbox requires a threadId" == raised.value.message

    async def _unread(self, store: Storage, thread_id: str) -> Sequence[str]:
        rows = await store.notifications.list_notifications(thread_id, status="pending")
        return [row.id for row in rows]
