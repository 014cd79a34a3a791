"""The inbox between two languages."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from mastra_conformance.cases import case
from mastra_conformance.node import NodePeer
from mastra_conformance.suite import requires
from mastra_conformance.suites.interop.shared import (
    AGENT,
    RESOURCE,
    THREAD,
    InteropSuite,
    at,
    same_values,
)
from mastra_conformance.suites.runtime.agents import application, workshop
from mastra_core.base.clock import Clock, SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.storage import Storage
from mastra_core.testing.scripted_model import text
from mastra_core.wire.notifications import CreateNotification, NotificationPatch
from mastra_core.wire.threads import Thread

__all__ = ("NotificationInteropSuite",)


class NotificationInteropSuite(InteropSuite):
    """Node's ``notifications`` domain beside ours."""

    capabilities = ("memory", "workflows", "notifications")
    node_domains = ("notifications",)

    @case("notifications", 120)
    async def test_rows_of_node_are_read_here(self, shared_store: Storage, node: NodePeer) -> None:
        """All fields, as created and as changed."""
        created = await node.store("notifications", "createNotification", _full())
        early = await shared_store.notifications.get_notification(THREAD, "n1")
        changed = await node.store("notifications", "updateNotification", _patch())
        late = await shared_store.notifications.get_notification(THREAD, "n1")

        assert early is not None
        assert late is not None
        assert same_values(early, created)
        assert same_values(late, changed)
        assert {"seen", "n1"} == {late.status, late.id}
        assert [late] == await shared_store.notifications.list_notifications(THREAD)

    @case("notifications", 120)
    async def test_rows_of_ours_are_read_by_node(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """All fields, as created and as changed."""
        created = await shared_store.notifications.create_notification(
            CreateNotification.model_validate(_full())
        )
        early = await node.store(
            "notifications", "getNotification", {"threadId": THREAD, "id": "n1"}
        )
        patch = {key: value for key, value in _patch().items() if key not in {"id", "threadId"}}
        changed = await shared_store.notifications.update_notification(
            THREAD, "n1", NotificationPatch.model_validate(patch)
        )
        late = await node.store(
            "notifications", "getNotification", {"threadId": THREAD, "id": "n1"}
        )
        [listed] = await node.store("notifications", "listNotifications", {"threadId": THREAD})

        assert changed is not None
        assert same_values(created, early)
        assert same_values(changed, late)
        assert late == listed

    @case("notifications", 121)
    async def test_node_dispatches_what_we_wrote(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """A due record of ours reaches Node's agent and is delivered for both."""
        await _thread(shared_store)
        await shared_store.notifications.create_notification(
            CreateNotification.model_validate(_due("n1"))
        )
        await node.do("mastra", agents=[{"id": AGENT, "script": [[{"text": "seen"}]]}])

        answer = await node.do("dispatch", now=at(59))
        record = await shared_store.notifications.get_notification(THREAD, "n1")

        assert {"delivered": ["n1"], "failed": []} == answer
        assert record is not None
        assert "delivered" == record.status
        assert record.delivered_signal_id

    @case("notifications", 121)
    async def test_we_dispatch_what_node_wrote(self, shared_store: Storage, node: NodePeer) -> None:
        """A due record of Node reaches our agent and is delivered for both."""
        await _thread(shared_store)
        await node.store("notifications", "createNotification", _due("n1"))
        helper = workshop([[text("seen")]], agent_id=AGENT)

        async with application(shared_store, helper, clock=SystemClock(), ids=UuidIds()) as mastra:
            result = await mastra.dispatch_due_notifications()
        record = await node.store(
            "notifications", "getNotification", {"threadId": THREAD, "id": "n1"}
        )

        assert ["n1"] == [delivered.id for delivered in result.delivered]
        assert "delivered" == record["status"]
        assert record["deliveredSignalId"]

    @requires("notifications.claims")
    @case("notifications", 126)
    async def test_node_does_not_see_what_we_have_claimed(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """Its dispatcher goes past a record that we are delivering; given back, it is due."""
        await shared_store.notifications.create_notification(
            CreateNotification.model_validate(_due("n1"))
        )
        due = {"now": clock.now()}
        before = await node.store("notifications", "listDueNotifications", due)

        [claim] = await shared_store.notifications.claim_due(clock.now(), "python")
        during = await node.store("notifications", "listDueNotifications", {"now": clock.now()})
        await shared_store.notifications.release_claims([claim.ref])
        after = await node.store("notifications", "listDueNotifications", {"now": clock.now()})

        assert ["n1"] == [record["id"] for record in before]
        assert [] == during
        assert ["n1"] == [record["id"] for record in after]

    @case("notifications", 127)
    async def test_one_key_is_one_record_node_first(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """Our event merges into Node's record."""
        first = await node.store("notifications", "createNotification", _keyed("first"))
        second = await shared_store.notifications.create_notification(
            CreateNotification.model_validate(_keyed("second"))
        )

        records = await node.store("notifications", "listNotifications", {"threadId": THREAD})

        assert first["id"] == second.id
        assert [("second", 2)] == [(r["summary"], r["coalescedCount"]) for r in records]

    @case("notifications", 127)
    async def test_one_key_is_one_record_python_first(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """Node's event merges into our record."""
        first = await shared_store.notifications.create_notification(
            CreateNotification.model_validate(_keyed("first"))
        )
        second = await node.store("notifications", "createNotification", _keyed("second"))

        [record] = await shared_store.notifications.list_notifications(THREAD)

        assert first.id == second["id"]
        assert ("second", 2) == (record.summary, record.coalesced_count)

    async def test_both_create_one_key_at_once(self, shared_store: Storage, node: NodePeer) -> None:
        """Nobody fails, no event is lost from the inbox, and the next one merges.

        Node looks before it writes, without a lock, so it may make a record of its own per call;
        ours are one record.
        """
        ours = 8

        async def of_ours(number: int) -> str:
            created = await shared_store.notifications.create_notification(
                CreateNotification.model_validate(_keyed(f"python {number}"))
            )
            return created.id

        async def of_node(number: int) -> str:
            created = await node.store(
                "notifications", "createNotification", _keyed(f"node {number}")
            )
            return str(created["id"])

        answers = await asyncio.gather(
            *(of_ours(number) for number in range(ours)), *(of_node(number) for number in range(3))
        )
        records = await shared_store.notifications.list_notifications(THREAD)
        merged = await shared_store.notifications.create_notification(
            CreateNotification.model_validate(_keyed("last"))
        )

        assert set(answers) == {record.id for record in records}
        assert len(records) <= 1 + 3
        assert merged.id in answers

    async def test_marks_of_either_side_count_for_both(
        self, shared_store: Storage, node: NodePeer
    ) -> None:
        """Read here and archived there, each with its time."""
        for name in ("n1", "n2"):
            await node.store(
                "notifications",
                "createNotification",
                {**_full(), "id": name, "dedupeKey": name, "coalesceKey": name},
            )

        await shared_store.notifications.update_notifications_status(THREAD, ["n1"], "seen")
        args = {"threadId": THREAD, "ids": ["n2"], "status": "archived"}
        await node.store("notifications", "updateNotificationsStatus", args)
        ours = await shared_store.notifications.list_notifications(THREAD)
        theirs = await node.store("notifications", "listNotifications", {"threadId": THREAD})

        assert {("n1", "seen"), ("n2", "archived")} == {(r.id, r.status) for r in ours}
        times = {r["id"]: (r.get("seenAt"), r.get("archivedAt")) for r in theirs}
        assert isinstance(times["n1"][0], datetime)
        assert isinstance(times["n2"][1], datetime)


async def _thread(store: Storage) -> None:
    await store.memory.save_thread(
        Thread(id=THREAD, resource_id=RESOURCE, title="", created_at=at(0), updated_at=at(0))
    )


def _full() -> dict[str, Any]:
    return {
        "id": "n1",
        "threadId": THREAD,
        "resourceId": RESOURCE,
        "agentId": AGENT,
        "source": "github",
        "kind": "check_suite",
        "priority": "high",
        "summary": "Checks failed: ü 𝄞",
        "payload": {"n": 1.5, "list": [1, None, "x"], "deep": {"empty": {}, "none": None}},
        "sourceId": "42",
        "dedupeKey": "github:42",
        "coalesceKey": "github:repo",
        "attributes": {"branch": "main", "count": 3, "red": True},
        "metadata": {"trace": {"id": "t"}},
        "deliverAt": at(30, 7),
        "summaryAt": at(40, 9),
        "deliveryReason": "quiet hours",
        "createdAt": at(1, 234),
    }


def _patch() -> dict[str, Any]:
    return {
        "id": "n1",
        "threadId": THREAD,
        "status": "seen",
        "summary": "Checks failed twice",
        "payload": ["a", {"b": 2}],
        "attributes": {"branch": "dev"},
        "metadata": {"trace": None, "more": [True]},
        "deliverAt": None,
        "summaryAt": at(50, 1),
        "deliveryReason": "again",
        "deliveryAttempts": 2,
        "lastDeliveryAttemptAt": at(45, 3),
        "lastDeliveryError": "no model",
        "deliveredSignalId": "signal-1",
        "summarySignalId": "signal-2",
    }


def _due(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "threadId": THREAD,
        "resourceId": RESOURCE,
        "agentId": AGENT,
        "source": "github",
        "kind": "push",
        "priority": "high",
        "summary": "pushed",
        "deliverAt": at(0) - timedelta(minutes=5),
    }


def _keyed(summary: str) -> dict[str, Any]:
    return {
        "threadId": THREAD,
        "resourceId": RESOURCE,
        "agentId": AGENT,
        "source": "github",
        "kind": "check_suite",
        "priority": "medium",
        "summary": summary,
        "dedupeKey": "github:42",
    }
