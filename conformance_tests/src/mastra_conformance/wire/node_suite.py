"""One store, two languages: what a TypeScript process wrote is found and goes on here."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mastra_conformance.cases import case
from mastra_conformance.suite import Suite, requires
from mastra_conformance.suites.runtime.agents import Workshop, application, workshop
from mastra_conformance.wire.forms import plain
from mastra_conformance.wire.node_rows import NodeRows, load_node_rows, write_node_rows
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.storage import Storage
from mastra_core.testing.logical_clock import LogicalClock
from mastra_core.testing.scripted_model import text
from mastra_core.wire.messages import Message
from mastra_core.wire.snapshots import OUTER_WORKFLOW

__all__ = ("NodeDataSuite",)

_THREAD: Final = "thread_456"
_RESOURCE: Final = "user_123"
#: What only the writer of a row knows.
_WRITTEN_WHEN: Final = ("updatedAt", "deliveredAt")


class NodeDataSuite(Suite):
    """
    A thread, its inbox and a suspended run, written by the TypeScript system.

    An adapter that can open a database of that system overrides ``node_store`` with a copy
    of one; by default the rows are written through the contract.
    """

    role = "runtime"
    tier = 3
    capabilities = ("memory", "workflows", "notifications")

    @pytest.fixture
    def rows(self) -> NodeRows:
        """What was written."""
        return load_node_rows()

    @pytest.fixture
    async def node_store(self, store: Storage, rows: NodeRows) -> Storage:
        """A store that holds the rows."""
        await write_node_rows(store, rows)
        return store

    async def test_the_thread_is_listed(self, node_store: Storage, rows: NodeRows) -> None:
        """With its title, its times and what the other side keeps in its metadata."""
        page = await node_store.memory.list_threads(resource_id=_RESOURCE)

        found = [_without(plain(thread), *_WRITTEN_WHEN) for thread in page.threads]
        assert [_without(row, *_WRITTEN_WHEN) for row in rows.threads] == found

    async def test_the_messages_are_listed(self, node_store: Storage, rows: NodeRows) -> None:
        """Oldest first, equal member by member."""
        page = await node_store.memory.list_messages(_THREAD, resource_id=_RESOURCE)

        assert rows.messages == [plain(message) for message in page.messages]

    async def test_the_inbox_is_listed(self, node_store: Storage, rows: NodeRows) -> None:
        """Each record in its state, with everything that was sent along."""
        records = await node_store.notifications.list_notifications(_THREAD)

        found = [_without(record.to_wire(), *_WRITTEN_WHEN) for record in reversed(records)]
        assert [_without(row, *_WRITTEN_WHEN) for row in rows.notifications] == found

    async def test_the_suspended_run_is_listed(self, node_store: Storage, rows: NodeRows) -> None:
        """By the agent that it belongs to, and by no other."""
        helper, other = workshop(agent_id="support-agent"), workshop(agent_id="other")
        async with application(node_store, helper, other, clock=LogicalClock(), ids=UuidIds()):
            listed = await helper.agent.list_suspended_runs(thread_id=_THREAD)
            foreign = await other.agent.list_suspended_runs()

        [run] = listed.runs
        assert (rows.run_id, _THREAD, _RESOURCE) == (run.run_id, run.thread_id, run.resource_id)
        call = {"toolCallId": "call_1", "toolName": "deploy", "args": {"env": "prod"}}
        assert [{**call, "requiresApproval": True}] == plain(run.tool_calls)
        assert [] == foreign.runs

    @requires("workflows.claim_resume", "workflows.fenced_writes")
    async def test_the_suspended_run_is_approved(self, node_store: Storage, rows: NodeRows) -> None:
        """The tool runs once, the model sees its result, the run finishes, its rows go."""
        helper = workshop([[text("all deployed")]], agent_id="support-agent")
        async with application(node_store, helper, clock=LogicalClock(), ids=UuidIds()):
            output = await helper.agent.approve_tool_call(rows.run_id, "call_1")
            said = await output.text
            left = await helper.agent.list_suspended_runs()

        assert ("all deployed", "success") == (said, output.status)
        assert [("deploy", {"env": "prod"}, None)] == helper.executed
        assert _result_shown(helper)
        assert [] == left.runs
        page = await node_store.memory.list_messages(_THREAD, resource_id=_RESOURCE)
        answered, answer = page.messages[-2:]
        [part] = answered.content["parts"]
        invocation = part["toolInvocation"]
        assert ("result", {"deployed": "prod"}) == (invocation["state"], invocation["result"])
        assert "pendingToolApprovals" not in answered.content["metadata"]
        assert "all deployed" == answer.content["content"]

    @case("streaming", 56)
    async def test_what_we_do_not_know_survives(self, node_store: Storage, rows: NodeRows) -> None:
        """A message that is read and saved again keeps all members and parts."""
        newer = {
            **rows.messages[-1],
            "id": "m-newer",
            "content": {
                "format": 2,
                "parts": [
                    {"type": "hologram", "data": {"depth": [1, None, 2.5]}, "createdAt": 1},
                    {"type": "text", "text": "read me", "lang": "en"},
                ],
                "annotations": [{"a": 1}],
                "futureMember": {"x": None},
            },
        }
        await node_store.memory.save_messages([Message.model_validate(newer)])

        [read] = await node_store.memory.list_messages_by_id(["m-newer"])
        await node_store.memory.save_messages([read])
        [again] = await node_store.memory.list_messages_by_id(["m-newer"])

        assert newer == plain(again)

    @requires("workflows.claim_resume")
    async def test_a_claim_leaves_the_snapshot_as_it_was(
        self, node_store: Storage, rows: NodeRows
    ) -> None:
        """A run that was taken and given back holds everything that was written."""
        helper = workshop(agent_id="support-agent")
        before = rows.snapshots[0]["snapshot"]
        async with application(node_store, helper, clock=LogicalClock(), ids=UuidIds()) as mastra:
            claim = mastra.snapshots.new_claim(
                claim_id="c1", owner="p1", target=None, payload={}, digest="d"
            )
            key = {"workflow_name": OUTER_WORKFLOW, "run_id": rows.run_id}
            taken = await node_store.workflows.claim_resume(**key, claim=claim)
            await node_store.workflows.release_resume_claim(**key, claim_id="c1")
            after = await node_store.workflows.load_workflow_snapshot(**key)

        assert taken.acquired
        assert before == after


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names and value is not None}


def _result_shown(helper: Workshop) -> bool:
    """Whether the one request after the resume holds the result of the call."""
    [prompt] = helper.prompts()
    results = [part for turn in prompt if turn["role"] == "tool" for part in turn["content"]]
    return {"type": "json", "value": {"deployed": "prod"}} in [p["output"] for p in results]
