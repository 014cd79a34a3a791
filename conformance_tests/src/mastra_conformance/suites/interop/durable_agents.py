"""The run of a durable agent of the TypeScript system goes on here, and there again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from mastra_conformance.cases import case
from mastra_conformance.node import NodePeer, NodePeerError
from mastra_conformance.suite import requires
from mastra_conformance.suites.interop.shared import AGENT, RESOURCE, THREAD, InteropSuite
from mastra_conformance.suites.runtime.agents import Workshop, application, workshop
from mastra_conformance.suites.runtime.neighbours import until
from mastra_core import Agent
from mastra_core.base.clock import Clock
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.storage import Storage
from mastra_core.errors import ResumeKindMismatchError
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call
from mastra_core.wire.snapshots import DURABLE_OUTER_WORKFLOW

__all__ = ("DurableAgentInteropSuite",)

_DEPLOY: Final = {"tool": "deploy", "id": "call_1", "input": {"env": "prod"}}
_TOOLS: Final = (
    {"id": "deploy", "requireApproval": True},
    {"id": "ask", "suspend": {"question": "which?"}},
    {"id": "echo"},
)
_MEMORY: Final = {"memory": {"thread": THREAD, "resource": RESOURCE}, "closeOnSuspend": True}


async def _park(
    store: Storage,
    node: NodePeer,
    *script: list[dict[str, Any]],
    options: Mapping[str, Any] = _MEMORY,
) -> str:
    """A run of a durable agent that waits over there."""
    agent = {"id": AGENT, "script": list(script), "tools": list(_TOOLS), "durable": True}
    await node.do("mastra", agents=[agent])
    answer = await node.agent(AGENT, "stream", "deploy it", dict(options))
    assert "suspended" == answer["finishReason"]
    await until(lambda: _is_parked(store, str(answer["runId"])))
    return str(answer["runId"])


async def _is_parked(store: Storage, run_id: str) -> bool:
    """Node stores both rows of a run after its stream has said that it waits."""
    return ["suspended"] * 2 == [status for _, status in await _rows(store, run_id)]


async def _rows(store: Storage, run_id: str) -> list[tuple[str, Any]]:
    page = await store.workflows.list_workflow_runs()
    return [
        (row.workflow_name, row.snapshot["status"])
        for row in page.runs
        if row.run_id == run_id and isinstance(row.snapshot, dict)
    ]


async def _are_gone(store: Storage, run_id: str) -> bool:
    """Node removes the rows of a run once its stream has ended."""
    return not await _rows(store, run_id)


class DurableAgentInteropSuite(InteropSuite):
    """Approvals and suspensions of a durable agent, answered here."""

    capabilities = ("memory", "workflows", "notifications", "workflows.claim_resume")

    @case("snapshots", 85)
    async def test_we_approve_a_run_of_a_durable_agent(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """The tool runs here, once; the conversation is stored; Node has nothing to answer."""
        run_id = await _park(shared_store, node, [_DEPLOY], [{"text": "done by Node"}])
        helper = workshop([[text("done by Python")]], agent_id=AGENT)
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            listed = await helper.agent.list_suspended_runs(thread_id=THREAD)
            output = await helper.agent.approve_tool_call(run_id, "call_1")
            said = await output.text
            left = await helper.agent.list_suspended_runs()
        page = await shared_store.memory.list_messages(THREAD, resource_id=RESOURCE)
        there = await node.agent(AGENT, "listSuspendedRuns", {})
        with pytest.raises(NodePeerError):
            await node.agent(AGENT, "approveToolCall", {"runId": run_id, "toolCallId": "call_1"})
        calls = await node.do("calls")

        [run] = listed.runs
        assert (run_id, THREAD, RESOURCE) == (run.run_id, run.thread_id, run.resource_id)
        assert [("deploy", {"env": "prod"}, True)] == [
            (call.tool_name, call.args, call.requires_approval) for call in run.tool_calls
        ]
        assert [("deploy", {"env": "prod"}, None)] == helper.executed
        assert ("done by Python", 0, [], []) == (said, left.total, there["runs"], calls)
        assert [] == await _rows(shared_store, run_id)
        assert ["user", "assistant", "assistant"] == [message.role for message in page.messages]
        [call] = page.messages[1].content["parts"]
        assert {"deployed": "prod"} == call["toolInvocation"]["result"]
        assert "pendingToolApprovals" not in page.messages[1].content["metadata"]
        [prompt] = helper.prompts()
        assert "deploy it" in str(prompt)

    async def test_we_decline_a_run_of_a_durable_agent(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """The tool doesn't run; the model is told why; the run is over."""
        run_id = await _park(shared_store, node, [_DEPLOY])
        helper = workshop([[text("declined")]], agent_id=AGENT)
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            output = await helper.agent.decline_tool_call(run_id, "call_1", reason="not today")
            said = await output.text

        assert ("declined", []) == (said, helper.executed)
        assert "not today" in str(helper.prompts())
        assert [] == await _rows(shared_store, run_id)

    @case("snapshots", 85)
    async def test_we_resume_a_tool_of_a_durable_agent(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """A tool that suspended with a question over there gets its answer here."""
        run_id = await _park(shared_store, node, [{"tool": "ask", "id": "call_1", "input": {}}])
        helper = workshop([[text("thanks")]], agent_id=AGENT)
        answer = {"answer": "the left one"}
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            listed = await helper.agent.list_suspended_runs(thread_id=THREAD)
            with pytest.raises(ResumeKindMismatchError):
                await helper.agent.approve_tool_call(run_id, "call_1")
            output = await helper.agent.resume_stream(answer, run_id=run_id)
            said = await output.text
            left = await helper.agent.list_suspended_runs()

        [run] = listed.runs
        assert [("call_1", {"question": "which?"})] == [
            (call.tool_call_id, call.suspend_payload) for call in run.tool_calls
        ]
        assert [("ask", {}, answer)] == helper.executed
        assert ("thanks", 0) == (said, left.total)

    async def test_a_run_that_waits_again_goes_on_in_node(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """What was done here isn't done again there: only the call that still waits runs."""
        test = {"tool": "deploy", "id": "call_2", "input": {"env": "test"}}
        first = {"tool": "echo", "id": "call_0", "input": {"env": "x"}}
        run_id = await _park(
            shared_store, node, [{"text": "look"}, first], [{"text": "go"}, _DEPLOY, test]
        )
        helper = workshop([[text("never said")]], agent_id=AGENT)
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            output = await helper.agent.approve_tool_call(run_id, "call_1")
            reason = await output.finish_reason
            [run] = (await helper.agent.list_suspended_runs()).runs
        rows = await _rows(shared_store, run_id)

        approval = {"runId": run_id, "toolCallId": "call_2", "closeOnSuspend": True}
        answer = await node.agent(AGENT, "approveToolCall", approval)
        calls = await node.do("calls")
        requests = await node.do("requests")

        assert "suspended" == reason
        assert [("deploy", {"env": "prod"}, None)] == helper.executed
        assert ["call_2"] == [call.tool_call_id for call in run.tool_calls]
        assert {
            ("durable-agentic-loop", "suspended"),
            ("durable-agentic-execution", "suspended"),
        } == set(rows)
        assert "stop" == answer["finishReason"]
        assert [("echo", "x"), ("deploy", "test")] == [
            (call["tool"], call["input"]["env"]) for call in calls
        ]
        assert "deployed" in str(requests[-1])
        await until(lambda: _are_gone(shared_store, run_id))

    async def test_a_new_call_of_our_model_can_be_answered_in_node(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """The run went on here for a step, and waits with another call for either side."""
        run_id = await _park(shared_store, node, [_DEPLOY], [{"text": "done by Node"}])
        again = [text("And then?"), tool_call("deploy", {"env": "test"}, id="call_2")]
        helper = workshop([again], agent_id=AGENT)
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            output = await helper.agent.approve_tool_call(run_id, "call_1")
            reason = await output.finish_reason

        listed = await node.agent(AGENT, "listSuspendedRuns", {})
        approval = {"runId": run_id, "toolCallId": "call_2", "closeOnSuspend": True}
        answer = await node.agent(AGENT, "approveToolCall", approval)
        calls = await node.do("calls")
        page = await shared_store.memory.list_messages(THREAD, resource_id=RESOURCE)

        assert ("suspended", [run_id]) == (reason, [run["runId"] for run in listed["runs"]])
        assert ("stop", "done by Node") == (answer["finishReason"], answer["text"])
        assert [{"tool": "deploy", "input": {"env": "test"}}] == calls
        said = str([message.content for message in page.messages])
        assert said.index("call_1") < said.index("And then?") < said.index("done by Node")
        await until(lambda: _are_gone(shared_store, run_id))

    async def test_we_answer_for_a_sub_agent_of_a_durable_agent(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """The outer run is a durable agent's, the inner one isn't: both go on, and are gone."""
        deploy = {"tool": "deploy", "id": "inner", "input": {"env": "prod"}}
        ask = {"tool": "agent-worker", "id": "outer", "input": {"prompt": "Deploy it."}}
        await node.do(
            "mastra",
            agents=[
                {"id": "worker", "script": [[deploy]], "tools": list(_TOOLS)},
                {"id": "boss", "script": [[ask]], "subAgents": ["worker"], "durable": True},
            ],
        )
        await node.agent("boss", "stream", "deploy it", _MEMORY)
        worker = workshop([[text("deployed")]], agent_id="worker")
        gates = Gates()
        model = ScriptedModel([[text("done by Python")]], gates=gates)
        agent = Agent(id="boss", model=model, agents=[worker.agent])
        boss = Workshop(agent=agent, model=model, gates=gates)
        async with application(shared_store, boss, clock=clock, ids=UuidIds()):

            async def is_listed() -> bool:
                return (await agent.list_suspended_runs()).total > 0

            await until(is_listed)
            [outer] = (await agent.list_suspended_runs()).runs
            output = await agent.approve_tool_call(outer.run_id, "outer")
            said = await output.text
        rows = await shared_store.workflows.list_workflow_runs()

        assert ["deploy"] == [call.tool_name for call in outer.tool_calls]
        assert ("done by Python", 0) == (said, rows.total)
        assert [("deploy", {"env": "prod"}, None)] == worker.executed

    async def test_we_approve_a_run_without_a_thread(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """Its conversation stands in its rows only; nothing of it is stored elsewhere."""
        run_id = await _park(shared_store, node, [_DEPLOY], options={"closeOnSuspend": True})
        helper = workshop([[text("done by Python")]], agent_id=AGENT)
        async with application(shared_store, helper, clock=clock, ids=UuidIds()):
            output = await helper.agent.approve_tool_call(run_id, "call_1")
            said = await output.text
            threads = await shared_store.memory.list_threads()

        assert ("done by Python", 0) == (said, threads.total)
        assert "deploy it" in str(helper.prompts()[0])
        assert [("deploy", {"env": "prod"}, None)] == helper.executed
        assert [] == await _rows(shared_store, run_id)

    @requires("workflows.claim_resume")
    async def test_node_is_refused_while_we_hold_the_claim(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """An approval over there fails without running the tool; given back, it is listed."""
        run_id = await _park(shared_store, node, [_DEPLOY])
        helper = workshop(agent_id=AGENT)
        key = {"workflow_name": DURABLE_OUTER_WORKFLOW, "run_id": run_id}
        async with application(shared_store, helper, clock=clock, ids=UuidIds()) as mastra:
            assert mastra.snapshots is not None
            claim = mastra.snapshots.new_claim(
                claim_id="c1", owner="python", target=None, payload={}, digest="d"
            )
            taken = await shared_store.workflows.claim_resume(**key, claim=claim)
            approval = {"runId": run_id, "toolCallId": "call_1", "closeOnSuspend": True}
            refused: Any = None
            try:
                refused = await node.agent(AGENT, "approveToolCall", approval)
            except NodePeerError as exc:
                refused = exc
            during = await node.do("calls")
            await shared_store.workflows.release_resume_claim(**key, claim_id="c1")

        assert taken.acquired
        assert isinstance(refused, NodePeerError)
        assert "suspended" in refused.message
        assert [] == during
        listed = await node.agent(AGENT, "listSuspendedRuns", {})
        assert [run_id] == [run["runId"] for run in listed["runs"]]
