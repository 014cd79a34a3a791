"""A run that waits for a person goes on in the other language."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mastra_conformance.cases import case
from mastra_conformance.node import NodePeer, NodePeerError
from mastra_conformance.suite import requires
from mastra_conformance.suites.interop.shared import AGENT, RESOURCE, THREAD, InteropSuite
from mastra_conformance.suites.runtime.agents import application, deploy_calls, workshop
from mastra_core.base.clock import Clock
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.storage import Storage
from mastra_core.testing.scripted_model import text
from mastra_core.wire.snapshots import OUTER_WORKFLOW

__all__ = ("SuspendedRunInteropSuite",)

_CALL: Final = {"tool": "deploy", "id": "call_1", "input": {"env": "prod"}}
_TOOLS: Final = ({"id": "deploy", "requireApproval": True},)
_ASK: Final = ({"id": "ask", "suspend": {"question": "which?"}},)
_MEMORY: Final = {"memory": {"thread": THREAD, "resource": RESOURCE}}


class SuspendedRunInteropSuite(InteropSuite):
    """Approvals and suspensions across."""

    capabilities = ("memory", "workflows", "notifications", "workflows.claim_resume")

    @pytest.fixture
    async def parked_by_node(self, shared_store: Storage, node: NodePeer) -> str:
        """The id of a run of Node that waits for an approval."""
        script = [[_CALL], [{"text": "done by Node"}]]
        await node.do("mastra", agents=[{"id": AGENT, "script": script, "tools": list(_TOOLS)}])
        answer = await node.agent(AGENT, "stream", "deploy it", _MEMORY)
        assert "suspended" == answer["finishReason"]
        return str(answer["runId"])

    @case("snapshots", 85)
    async def test_we_approve_a_run_of_node(
        self, shared_store: Storage, parked_by_node: str, clock: Clock
    ) -> None:
        """It is listed with its call; the tool runs here, once; the run finishes and is gone."""
        helper = workshop([[text("done by Python")]], agent_id=AGENT)
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            listed = await helper.agent.list_suspended_runs(thread_id=THREAD)
            output = await helper.agent.approve_tool_call(parked_by_node, "call_1")
            said = await output.text
            left = await helper.agent.list_suspended_runs()

        [run] = listed.runs
        assert (parked_by_node, THREAD, RESOURCE) == (run.run_id, run.thread_id, run.resource_id)
        assert ["deploy"] == [call.tool_name for call in run.tool_calls]
        assert [("deploy", {"env": "prod"}, None)] == helper.executed
        assert "done by Python" == said
        assert [] == left.runs

    async def test_we_decline_a_run_of_node(
        self, shared_store: Storage, parked_by_node: str, clock: Clock
    ) -> None:
        """The tool doesn't run; Node doesn't list the run any more."""
        helper = workshop([[text("declined")]], agent_id=AGENT)
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            output = await helper.agent.decline_tool_call(parked_by_node, "call_1")
            said = await output.text

        assert "declined" == said
        assert [] == helper.executed

    @case("snapshots", 85)
    async def test_we_resume_a_tool_of_node(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """A tool that suspended with a question over there gets its answer here."""
        script = [[{"tool": "ask", "id": "call_1", "input": {}}]]
        await node.do("mastra", agents=[{"id": AGENT, "script": script, "tools": list(_ASK)}])
        answer = await node.agent(AGENT, "stream", "ask me", _MEMORY)
        helper = workshop([[text("thanks")]], agent_id=AGENT)

        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            listed = await helper.agent.list_suspended_runs(thread_id=THREAD)
            output = await helper.agent.resume_stream(
                {"answer": "the left one"}, run_id=answer["runId"], tool_call_id="call_1"
            )
            said = await output.text
            left = await helper.agent.list_suspended_runs()

        assert [("call_1", {"question": "which?"})] == [
            (call.tool_call_id, call.suspend_payload)
            for run in listed.runs
            for call in run.tool_calls
        ]
        assert ("thanks", 0) == (said, left.total)
        assert [("ask", {}, {"answer": "the left one"})] == helper.executed

    @case("snapshots", 86)
    async def test_node_approves_a_run_of_ours(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """It is listed over there; its tool runs there, once; the run finishes and is gone."""
        run_id = await _park_here(shared_store, clock)
        script = [[{"text": "done by Node"}]]
        await node.do("mastra", agents=[{"id": AGENT, "script": script, "tools": list(_TOOLS)}])

        listed = await node.agent(AGENT, "listSuspendedRuns", {"threadId": THREAD})
        answer = await node.agent(
            AGENT, "approveToolCall", {"runId": run_id, "toolCallId": "call_1"}
        )
        calls = await node.do("calls")
        page = await shared_store.memory.list_messages(THREAD, resource_id=RESOURCE)
        left = await shared_store.workflows.list_suspended_runs(
            workflow_names=[OUTER_WORKFLOW], agent_id=AGENT
        )

        [run] = listed["runs"]
        assert (run_id, THREAD, RESOURCE) == (run["runId"], run["threadId"], run["resourceId"])
        assert ["deploy"] == [call["toolName"] for call in run["toolCalls"]]
        assert ("done by Node", "stop") == (answer["text"], answer["finishReason"])
        assert [{"tool": "deploy", "input": {"env": "prod"}}] == calls
        assert "done by Node" in _texts(page.messages)
        assert [] == left.rows

    @requires("workflows.claim_resume")
    @case("snapshots", 87)
    async def test_node_is_refused_while_we_hold_the_claim(
        self, shared_store: Storage, node: NodePeer, parked_by_node: str, clock: Clock
    ) -> None:
        """An approval over there fails without running the tool; given back, it is listed."""
        helper = workshop(agent_id=AGENT)
        key = {"workflow_name": OUTER_WORKFLOW, "run_id": parked_by_node}
        async with application(shared_store, helper, clock=clock, ids=UuidIds()) as mastra:
            assert mastra.snapshots is not None
            claim = mastra.snapshots.new_claim(
                claim_id="c1", owner="python", target=None, payload={}, digest="d"
            )
            taken = await shared_store.workflows.claim_resume(**key, claim=claim)
            approval = {"runId": parked_by_node, "toolCallId": "call_1"}
            refused: Any = None
            try:
                # The streaming method never answers when it is refused.
                refused = await node.agent(AGENT, "approveToolCallGenerate", approval)
            except NodePeerError as exc:
                refused = exc
            during = await node.do("calls")
            await shared_store.workflows.release_resume_claim(**key, claim_id="c1")

        assert taken.acquired
        assert isinstance(refused, NodePeerError)
        assert "suspended" in refused.message
        assert [] == during
        listed = await node.agent(AGENT, "listSuspendedRuns", {})
        assert [parked_by_node] == [run["runId"] for run in listed["runs"]]

    async def test_node_sees_no_run_that_we_have_finished(
        self, shared_store: Storage, node: NodePeer, parked_by_node: str, clock: Clock
    ) -> None:
        """After our approval it lists nothing, and approving again fails."""
        helper = workshop([[text("done by Python")]], agent_id=AGENT)
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            output = await helper.agent.approve_tool_call(parked_by_node, "call_1")
            await output.text

        listed = await node.agent(AGENT, "listSuspendedRuns", {})
        with pytest.raises(NodePeerError):
            await node.agent(AGENT, "approveToolCall", {"runId": parked_by_node})

        assert [] == listed["runs"]
        assert [] == await node.do("calls")

    async def test_one_thread_is_spoken_in_by_both(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """Node's model sees what was said here, and ours what was said there."""
        script = [[{"text": "Node says hello"}]]
        await node.do("mastra", agents=[{"id": AGENT, "script": script}])
        helper = workshop([[text("Python says hello")]], agent_id=AGENT)

        await node.agent(AGENT, "stream", "first", _MEMORY)
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            output = await helper.agent.stream("second", thread_id=THREAD, resource_id=RESOURCE)
            await output.text
        page = await node.store("memory", "listMessages", {"threadId": THREAD})

        assert ["first", "Node says hello", "second", "Python says hello"] == [
            part["text"]
            for message in page["messages"]
            for part in message["content"]["parts"]
            if part["type"] == "text"
        ]
        [prompt] = helper.prompts()
        assert "Node says hello" in str(prompt)


async def _park_here(store: Storage, clock: Clock) -> str:
    """A run of ours that waits for an approval; its process is gone."""
    helper = workshop([deploy_calls("prod")], agent_id=AGENT)
    async with application(store, helper, clock=clock, ids=UuidIds()):
        output = await helper.agent.stream("deploy it", thread_id=THREAD, resource_id=RESOURCE)
        assert "suspended" == await output.finish_reason
        return str(output.run_id)


def _texts(messages: Any) -> list[str]:
    return [
        part["text"]
        for message in messages
        for part in message.content["parts"]
        if part["type"] == "text"
    ]
