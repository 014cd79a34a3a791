"""Events that real agents get: what the model sees and what the thread keeps
(notifications.md 5-10).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from mastra_conformance.cases import case
from mastra_conformance.clock import ShiftedClock
from mastra_conformance.suite import Suite
from mastra_conformance.suites.runtime.inboxes import due_event
from mastra_core import Agent, FunctionTool, Mastra, MemoryOptions
from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.contracts.storage import Storage
from mastra_core.contracts.tool import Tool
from mastra_core.notifications import NotificationResult, create_notification_inbox_tool
from mastra_core.rules.notification_claims import full_signal_id
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import Gates, Script, ScriptedModel, text, tool_call
from mastra_core.wire.messages import Message
from mastra_core.wire.notifications import NotificationRecord

__all__ = ("RESOURCE", "THREAD", "House", "NotificationsSuite", "house")

THREAD = "thread_1"
RESOURCE = "user_1"


class House:
    """An application with one agent whose model follows a script."""

    def __init__(self, mastra: Mastra, agent: Agent, model: ScriptedModel) -> None:
        self.mastra = mastra
        self.agent = agent
        self.model = model

    async def notify(self, **members: Any) -> NotificationResult:
        """One event."""
        event = {"source": "github", "kind": "ci", "summary": "CI failed", **members}
        result = await self.agent.send_notification_signal(
            event, resource_id=RESOURCE, thread_id=THREAD
        )
        assert isinstance(result, NotificationResult)
        return result

    async def dispatch(self, after: float = 0) -> list[str]:
        """Deliver what is due so many seconds from now; the tags of what was sent."""
        now = self.mastra.clock.now() + timedelta(seconds=after)
        result = await self.mastra.dispatch_due_notifications(now=now)
        return [signal.tag_name for signal in result.signals]

    async def quiet(self) -> None:
        """Until no run is left on the thread."""
        async with asyncio.timeout(60):
            while self.mastra.threads.is_active(RESOURCE, THREAD) or len(self.mastra.runs):
                await self.mastra.threads.tasks.join()
                await self.mastra.runs.join()

    async def seen_by_model(self, call: int) -> list[str]:
        """The user turns of one request."""
        turns = [turn for turn in self.model.requests[call].prompt if turn["role"] == "user"]
        return [
            part["text"] if isinstance(part, dict) else part
            for turn in turns
            for part in (
                turn["content"] if isinstance(turn["content"], list) else [turn["content"]]
            )
        ]

    async def rows(self, role: str = "signal") -> list[Message]:
        """Stored messages of one role, oldest first."""
        page = await self.mastra.storage.memory.list_messages(THREAD)
        return [message for message in page.messages if message.role == role]

    async def record(self, notification_id: str) -> NotificationRecord:
        """The record as it is stored now."""
        found = await self.mastra.storage.notifications.get_notification(THREAD, notification_id)
        assert found is not None
        return found


@asynccontextmanager
async def house(
    store: Storage,
    *,
    clock: Clock,
    ids: Ids,
    calls: Sequence[Script] = (),
    tools: Sequence[Tool] = (),
    memory: bool | MemoryOptions = True,
    enabled: bool = False,
    model: ScriptedModel | None = None,
    has_model: bool = True,
    **settings: Any,
) -> AsyncIterator[House]:
    """The application, open; its dispatcher works only if ``enabled``."""
    model = model or ScriptedModel(calls, gates=Gates())
    agent = Agent(
        id="helper",
        instructions="Help.",
        model=model if has_model else None,
        tools=tools,
        memory=memory,
    )
    async with Mastra(
        storage=store,
        pubsub="memory:",
        lease="memory:",
        agents=[agent],
        notifications={"enabled": enabled, "poll_ms": 20, **settings},
        clock=clock,
        ids=ids,
    ) as mastra:
        yield House(mastra, agent, model)


class NotificationsSuite(Suite):
    """From the event to the prompt, and to the row."""

    role = "runtime"
    capabilities = ("memory", "workflows", "notifications", "notifications.claims", "schedules")

    @case("notifications", 55)
    async def test_an_event_wakes_an_idle_agent(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The model sees the markup, the thread keeps one signal row under the signal's id."""
        async with house(store, clock=clock, ids=ids, calls=[[text("Seen")]]) as home:
            result = await home.notify(
                priority="high", summary="A < B", attributes={"pr": 12}, payload={"secret": 1}
            )
            await home.quiet()
            again = await home.dispatch(after=3600)
            (row,) = await home.rows()
            (answer,) = await home.rows("assistant")
            (seen,) = await home.seen_by_model(0)

        record = result.record
        assert (
            f'<notification pr="12" id="{record.id}" source="github" type="ci" kind="ci" '
            'priority="high" status="delivered">A &lt; B</notification>' == seen
        )
        assert ("wake", [], "delivered") == (
            result.accepted and result.accepted.action, again, record.status
        )  # fmt: skip
        assert (full_signal_id(THREAD, record.id, 1), "notification", RESOURCE) == (
            row.id,
            row.type,
            row.resource_id,
        )
        assert result.run_id is not None
        assert "Seen" == answer.content["parts"][-1]["text"]

    @case("notifications", 61)
    async def test_an_event_that_may_only_be_stored_stays_in_the_inbox(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The message is a row, nobody is asked, and the record isn't delivered."""
        async with house(store, clock=clock, ids=ids) as home:
            result = await home.agent.send_notification_signal(
                {"source": "github", "kind": "ci", "summary": "CI failed", "priority": "high"},
                resource_id=RESOURCE,
                thread_id=THREAD,
                if_idle={"behavior": "persist"},
            )
            await home.quiet()
            (row,) = await home.rows()
            assert isinstance(result, NotificationResult)
            record = await home.record(result.record.id)

        assert full_signal_id(THREAD, record.id, 1) == row.id
        assert ("pending", None) == (record.status, record.delivered_signal_id)
        assert [] == home.model.requests

    @case("notifications", 82)
    async def test_parallel_dispatches_store_one_row_per_record(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Ten at once, a hundred due records: a hundred rows of the agent's thread."""
        names = [f"n{number}" for number in range(100)]
        for name in names:
            await store.notifications.create_notification(due_event(name, deliver_at=clock.now()))
        calls = [[text("ok")] for _ in names]
        async with house(store, clock=clock, ids=ids, calls=calls) as home:
            async with asyncio.TaskGroup() as group:
                sent = [group.create_task(home.dispatch()) for _ in range(10)]
            await home.quiet()
            page = await store.memory.list_messages(THREAD, per_page=False)

        rows = [row.id for row in page.messages if row.role == "signal"]
        assert ["notification"] * 100 == [tag for one in sent for tag in one.result()]
        assert sorted(full_signal_id(THREAD, name, 1) for name in names) == sorted(rows)

    @case("notifications", 56, 57, 75)
    async def test_events_reach_a_running_agent(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Urgent in full, high as a summary; its full text when the thread is idle."""
        calls = [
            [text("one"), {"type": "gate", "name": "working"}],
            [text("two")],
            [text("three")],
        ]
        async with house(store, clock=clock, ids=ids, calls=calls) as home:
            home.agent.send_message("go", resource_id=RESOURCE, thread_id=THREAD)
            await home.model.gates.reached("working")
            urgent = await home.notify(priority="urgent", summary="now")
            high = await home.notify(priority="high", summary="soon")
            during = await home.dispatch()
            home.model.gates.open("working")
            await home.quiet()
            in_run = await home.seen_by_model(1)
            after = await home.dispatch(after=31)
            await home.quiet()
            woken = await home.seen_by_model(2)
            record = await home.record(high.record.id)

        assert ["deliver", "deliver"] == [
            result.accepted and result.accepted.action for result in (urgent, high)
        ]
        assert ([], ["notification"]) == (during, after)
        assert [">now</notification>", ">github: 1</notification-summary>"] == [
            turn[turn.index(">") :] for turn in in_run[1:]
        ]
        assert woken[-1].endswith(">soon</notification>")
        assert ("delivered", 0) == (record.status, record.delivery_attempts)

    @case("notifications", 59, 72)
    async def test_low_events_are_summed_up_without_a_run(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The summary is stored; the model sees it when somebody wakes it."""
        async with house(store, clock=clock, ids=ids, calls=[[text("ok")]]) as home:
            for source in ("slack", "github"):
                await home.notify(priority="low", source=source)
            tags = await home.dispatch()
            calls_before = len(home.model.requests)
            home.agent.send_message("what's new?", resource_id=RESOURCE, thread_id=THREAD)
            await home.quiet()
            seen = await home.seen_by_model(0)

        assert (["notification-summary"], 0) == (tags, calls_before)
        assert (
            '<notification-summary pending="2" priority="low">github: 1, slack: 1'
            "</notification-summary>" == seen[0]
        )

    @case("notifications", 102, 106, 109)
    async def test_an_agent_lists_and_reads_its_inbox(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """The text comes with the next step; nothing is delivered a second time."""
        calls = [
            [tool_call("notification-inbox", {"action": "list", "status": "archived"})],
            [tool_call("notification-inbox", {"action": "read"}, id="call_2")],
            [text("done")],
        ]
        tool = create_notification_inbox_tool(store.notifications, clock=clock)
        async with house(store, clock=clock, ids=ids, calls=calls, tools=[tool]) as home:
            low = await home.notify(priority="low", summary="standup")
            home.agent.send_message("check", resource_id=RESOURCE, thread_id=THREAD)
            await home.quiet()
            seen = await home.seen_by_model(2)
            later = await home.dispatch(after=3600)
            record = await home.record(low.record.id)
            answers = await home.rows("assistant")

        assert seen[-1].endswith(">standup</notification>")
        assert ("seen", full_signal_id(THREAD, record.id, 1)) == (
            record.status,
            record.delivered_signal_id,
        )
        assert [] == later
        results = [
            part["toolInvocation"]["result"]
            for message in answers
            for part in message.content["parts"]
            if part["type"] == "tool-invocation"
        ]
        assert {"notifications": [], "hasMore": False, "markedSeen": 0} == results[0]
        assert "1 notification will now be delivered." == results[1]["message"]

    @case("notifications", 66, 78)
    async def test_an_agent_without_a_model_gets_its_events_later(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Each failure rests longer; a repaired agent gets the text."""
        async with house(store, clock=clock, ids=ids, model=None) as home:
            broken = Agent(id="broken", model=None)
            home.mastra.add_agent(broken)
            result = await broken.send_notification_signal(
                {"source": "s", "kind": "k", "summary": "text", "priority": "urgent"},
                resource_id=RESOURCE,
                thread_id=THREAD,
            )
            assert isinstance(result, NotificationResult)
            early = await home.dispatch()
            broken._model = ScriptedModel([[text("ok")]])  # noqa: SLF001 – an operator's repair
            late = await home.dispatch(after=40)
            await home.quiet()
            record = await home.record(result.record.id)

        assert ("pending", 1) == (result.record.status, result.record.delivery_attempts)
        assert result.record.last_delivery_error
        assert ([], ["notification"]) == (early, late)
        assert ("delivered", 1, None) == (
            record.status,
            record.delivery_attempts,
            record.last_delivery_error,
        )

    @case("notifications", 89)
    async def test_an_agent_without_memory_persists_nothing_and_says_so(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """A summary that could only be stored isn't counted as sent."""
        async with house(store, clock=clock, ids=ids, memory=False) as home:
            result = await home.notify(priority="low")
            tags = await home.dispatch()
            record = await home.record(result.record.id)

        assert [] == tags
        assert ("pending", None, 1) == (
            record.status,
            record.summary_signal_id,
            record.delivery_attempts,
        )

    @case("notifications", 67)
    async def test_a_thread_parked_by_another_agent_blocks(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """Nothing is counted, and nothing is lost."""
        deploy = tool_call("deploy", {})

        async def execute(args: Any, context: Any) -> str:
            return "done"

        other = Agent(
            id="other",
            model=ScriptedModel([[deploy]]),
            tools=[FunctionTool(id="deploy", execute=execute, require_approval=True)],
        )
        async with house(store, clock=clock, ids=ids, calls=[[text("ok")]]) as home:
            home.mastra.add_agent(other)
            output = await other.stream("go", thread_id=THREAD, resource_id=RESOURCE)
            await output.wait()
            blocked = await home.notify(priority="urgent")
            still = await home.dispatch(after=31)
            record = await home.record(blocked.record.id)
            await other.decline_tool_call(output.run_id, "call_1")
            await home.quiet()
            freed = await home.dispatch(after=62)
            await home.quiet()
            after = await home.record(blocked.record.id)

        assert blocked.accepted is not None
        assert ("blocked", "pending", 0) == (
            blocked.accepted.action, record.status, record.delivery_attempts
        )  # fmt: skip
        assert ([], ["notification"], "delivered") == (still, freed, after.status)

    async def test_the_dispatcher_of_an_application_works_by_itself(
        self, store: Storage, clock: ShiftedClock, ids: Ids
    ) -> None:
        """An announced high event follows as soon as the run has ended."""
        delivered = asyncio.Event()

        def note(point: str) -> None:
            if point == "notifications.finalize_full:after":
                delivered.set()

        calls = [[text("one"), {"type": "gate", "name": "working"}], [text("two")], [text("three")]]
        watched = faulty_storage(store, note)
        async with house(watched, clock=clock, ids=ids, calls=calls, enabled=True) as home:
            home.agent.send_message("go", resource_id=RESOURCE, thread_id=THREAD)
            await home.model.gates.reached("working")
            result = await home.notify(priority="high", summary="soon")
            home.model.gates.open("working")
            async with asyncio.timeout(60):
                await delivered.wait()
            await home.quiet()
            rows = await home.rows()
            record = await home.record(result.record.id)

        assert "delivered" == record.status
        assert ["notification-summary", "notification"] == [
            row.type for row in rows if row.type != "user"
        ]

    @pytest.mark.parametrize("repeats", [3])
    async def test_sending_one_id_again_changes_nothing(
        self, store: Storage, clock: ShiftedClock, ids: Ids, repeats: int
    ) -> None:
        """Neither a second row nor a second run."""
        async with house(store, clock=clock, ids=ids, calls=[[text("ok")]]) as home:
            for _ in range(repeats):
                result = await home.notify(id="n1", priority="high")
                await home.quiet()
            rows = await home.rows()

        assert "delivered" == result.record.status
        assert (1, 1) == (len(rows), len(home.model.requests))
