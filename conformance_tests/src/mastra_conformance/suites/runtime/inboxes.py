"""An inbox on the store under test, with agents whose signals are only noted.

What real agents make of the signals is in ``notifications``; here a test decides how each
send ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from mastra_core.base.clock import Clock
from mastra_core.base.ids import Ids
from mastra_core.contracts.signal_sink import IfActive, IfIdle, SignalTarget
from mastra_core.contracts.storage import Storage
from mastra_core.notifications import (
    AgentInbox,
    DispatchResult,
    NotificationResult,
    NotificationService,
    delivery_policy_from,
    settings_from,
)
from mastra_core.testing.recording_sink import RecordingSink
from mastra_core.wire.notifications import CreateNotification, NotificationRecord

__all__ = ("RESOURCE", "THREAD", "Inbox", "due_event", "target")

THREAD = "thread_1"
RESOURCE = "user_1"


def target(
    thread_id: str = THREAD,
    *,
    resource_id: str = RESOURCE,
    if_active: Mapping[str, Any] | None = None,
    if_idle: Mapping[str, Any] | None = None,
) -> SignalTarget:
    """Where a test sends to."""
    return SignalTarget(
        resource_id=resource_id,
        thread_id=thread_id,
        if_active=IfActive(**(if_active or {})),
        if_idle=IfIdle(**(if_idle or {})),
    )


def due_event(notification_id: str = "n1", **members: Any) -> CreateNotification:
    """An event as a store takes it; of high priority and without a schedule."""
    given = {
        "id": notification_id,
        "thread_id": THREAD,
        "resource_id": RESOURCE,
        "agent_id": "helper",
        "source": "github",
        "kind": "ci",
        "summary": f"text of {notification_id}",
        "priority": "high",
        **members,
    }
    return CreateNotification(**given)


class Inbox:
    """One process with an inbox and some agents; several on one store are a fleet."""

    def __init__(
        self,
        store: Storage,
        *,
        clock: Clock,
        ids: Ids,
        policy: Mapping[str, Any] | None = None,
        agents: Sequence[str] = ("helper",),
        sink: RecordingSink | None = None,
        knows_all: bool = True,
        **settings: Any,
    ) -> None:
        self.store = store
        self.clock = clock
        self.sink = sink or RecordingSink(agents[0], clock=clock)
        self.agents = {
            name: AgentInbox(
                sink=self.sink if name == self.sink.agent_id else RecordingSink(name, clock=clock),
                policy=delivery_policy_from(policy),
            )
            for name in agents
        }
        self.asked: list[str] = []
        self.given_up: list[NotificationRecord] = []
        self.announced = 0
        self.service = NotificationService(
            store.notifications,
            store.schedules,
            clock=clock,
            ids=ids,
            random=Random(7),
            settings=settings_from(settings),
            find=self._find,
            agent_ids=(lambda: list(self.agents)) if knows_all else None,
            on_failed=self.given_up.append,
            announce=self._announce,
        )

    def _find(self, agent_id: str) -> AgentInbox | None:
        self.asked.append(agent_id)
        return self.agents.get(agent_id)

    async def _announce(self) -> None:
        self.announced += 1

    async def send(self, to: SignalTarget | None = None, **members: Any) -> NotificationResult:
        """One event for the first agent."""
        event = {"source": "github", "kind": "ci", "summary": "CI failed", **members}
        inbox = self.agents[self.sink.agent_id]
        result: NotificationResult = await self.service.ingest(inbox, event, to or target())
        return result

    async def send_all(self, *events: Mapping[str, Any]) -> list[NotificationResult]:
        """Several events in one call."""
        filled = [{"source": "github", "kind": "ci", "summary": "CI failed", **e} for e in events]
        inbox = self.agents[self.sink.agent_id]
        results: list[NotificationResult] = await self.service.ingest(inbox, filled, target())
        return results

    async def due(self, notification_id: str = "n1", **members: Any) -> NotificationRecord:
        """A stored record that is due for full delivery, unless the members say otherwise."""
        if not {"deliver_at", "summary_at"} & set(members):
            members["deliver_at"] = self.clock.now()
        return await self.store.notifications.create_notification(
            due_event(notification_id, **members)
        )

    async def undecided(self, **members: Any) -> NotificationRecord:
        """What an ingress leaves that died right after it had stored the event."""
        return await self.store.notifications.create_notification(
            due_event("n1", **members), guard_until=self.later(60)
        )

    def later(self, seconds: float) -> datetime:
        """A time so far from now."""
        return self.clock.now() + timedelta(seconds=seconds)

    async def dispatch(self, after: float = 0, *, limit: int | None = None) -> DispatchResult:
        """Dispatch what is due so many seconds from now."""
        return await self.service.dispatch_due(now=self.later(after), limit=limit)

    async def record(
        self, notification_id: str = "n1", *, thread_id: str = THREAD
    ) -> NotificationRecord:
        """The record as it is stored now."""
        found = await self.store.notifications.get_notification(thread_id, notification_id)
        assert found is not None
        return found

    async def is_due(self, notification_id: str = "n1", *, after: float = 0) -> bool:
        """Would anybody list it as due, so many seconds from now?"""
        due = await self.store.notifications.list_due_notifications(self.later(after))
        return notification_id in {record.id for record in due}
