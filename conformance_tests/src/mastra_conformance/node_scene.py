"""What every adapter must read in the scene that the TypeScript system wrote.

One agent, one thread with a run that waits for an approval, an inbox in its states, and the
schedule of the dispatcher. An adapter loads the scene into a database of its own, gives an open
store as ``node_store``, and derives a class of tests from ``ReadsNodeScene``.
"""

from __future__ import annotations

from datetime import UTC, datetime

from mastra_core.contracts.storage import Storage

__all__ = ("ReadsNodeScene",)


class ReadsNodeScene:
    """Tests of a store on the scene."""

    async def test_nodes_messages_are_listed_oldest_first(self, node_store: Storage) -> None:
        page = await node_store.memory.list_messages("thread_456", resource_id="user_123")

        assert [
            ("signal", "user"),
            ("assistant", None),
            ("signal", "notification"),
            ("assistant", None),
        ] == [(message.role, message.type) for message in page.messages]
        assert 'Use the latest "note" & <b>' == page.messages[0].content["parts"][0]["text"]
        assert "call_1" in page.messages[3].content["metadata"]["pendingToolApprovals"]

    async def test_nodes_inbox_is_listed_in_its_states(self, node_store: Storage) -> None:
        records = await node_store.notifications.list_notifications("thread_456")

        assert [
            ("urgent", "delivered"),
            ("high", "pending"),
            ("medium", "delivered"),
            ("low", "pending"),
        ] == [(record.priority, record.status) for record in records]

    async def test_nodes_due_records_are_due(self, node_store: Storage) -> None:
        now = datetime(2026, 11, 30, 6, tzinfo=UTC)

        due = await node_store.notifications.list_due_notifications(now)

        assert ["low", "high"] == [record.priority for record in due]

    async def test_another_agent_sees_none_of_it(self, node_store: Storage) -> None:
        page = await node_store.workflows.list_suspended_runs(
            workflow_names=["agentic-loop"], agent_id="somebody-else"
        )

        assert (0, []) == (page.total, page.rows)

    async def test_nodes_schedule_is_listed(self, node_store: Storage) -> None:
        [schedule] = await node_store.schedules.list_schedules(
            workflow_id="__mastra_notification_dispatcher"
        )

        assert {"type", "workflowId", "inputData"} == set(schedule.target)
        assert {"internal": True, "feature": "notifications"} == schedule.metadata
