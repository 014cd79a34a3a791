"""A supervisor whose sub-agent waits for a person goes on in the other language."""

from __future__ import annotations

from typing import Any, Final

from mastra_conformance.cases import case
from mastra_conformance.node import NodePeer
from mastra_conformance.suites.interop.shared import RESOURCE, THREAD, InteropSuite
from mastra_conformance.suites.runtime.agents import (
    Workshop,
    application,
    deploy_calls,
    workshop,
)
from mastra_core import Agent
from mastra_core.base.clock import Clock
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.storage import Storage
from mastra_core.testing.scripted_model import Gates, Script, ScriptedModel, text, tool_call

__all__ = ("SubAgentInteropSuite",)

_MEMORY: Final = {"memory": {"thread": THREAD, "resource": RESOURCE}}
_ASK: Final = {"prompt": "Deploy it."}


def _team(worker_says: list[Script], boss_says: list[Script]) -> tuple[Workshop, Workshop]:
    worker = workshop(worker_says, agent_id="worker")
    gates = Gates()
    model = ScriptedModel(boss_says, gates=gates)
    boss = Agent(id="boss", instructions="Delegate.", model=model, agents=[worker.agent])
    return worker, Workshop(agent=boss, model=model, gates=gates)


async def _node_team(node: NodePeer, worker_says: list[Any], boss_says: list[Any]) -> None:
    tools = [{"id": "deploy", "requireApproval": True}]
    await node.do(
        "mastra",
        agents=[
            {"id": "worker", "script": worker_says, "tools": tools},
            {"id": "boss", "script": boss_says, "subAgents": ["worker"]},
        ],
    )


class SubAgentInteropSuite(InteropSuite):
    """The outer run is answered; the inner one, which the other side began, goes on."""

    capabilities = ("memory", "workflows", "notifications", "workflows.claim_resume")

    @case("snapshots", 85)
    async def test_we_answer_for_a_sub_agent_of_node(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """Both runs are listed as over there; the tool runs once, and both runs are gone."""
        deploy = {"tool": "deploy", "id": "inner", "input": {"env": "prod"}}
        ask = {"tool": "agent-worker", "id": "outer", "input": _ASK}
        await _node_team(node, [[deploy]], [[ask]])
        answer = await node.agent("boss", "stream", "deploy it", _MEMORY)
        worker, boss = _team([[text("deployed")]], [[text("done by Python")]])

        async with application(shared_store, boss, clock=clock, ids=UuidIds()):
            [outer] = (await boss.agent.list_suspended_runs()).runs
            [inner] = (await worker.agent.list_suspended_runs()).runs
            output = await boss.agent.approve_tool_call(outer.run_id, "outer")
            said = await output.text
            left = [
                (await agent.list_suspended_runs()).total for agent in (boss.agent, worker.agent)
            ]

        assert ("suspended", outer.run_id) == (answer["finishReason"], answer["runId"])
        assert "outer" == outer.tool_calls[0].tool_call_id
        assert "inner" == inner.tool_calls[0].tool_call_id
        assert ("done by Python", [0, 0]) == (said, left)
        assert [("deploy", {"env": "prod"}, None)] == worker.executed

    @case("snapshots", 86)
    async def test_node_answers_for_a_sub_agent_of_ours(
        self, shared_store: Storage, node: NodePeer, clock: Clock
    ) -> None:
        """It finds the inner run by the outer one; its tool runs once over there."""
        ask = tool_call("agent-worker", _ASK, id="outer")
        worker, boss = _team([deploy_calls("prod")], [[ask]])
        async with application(shared_store, boss, clock=clock, ids=UuidIds()):
            output = await boss.agent.stream("deploy it", thread_id=THREAD, resource_id=RESOURCE)
            assert "suspended" == await output.finish_reason
        await _node_team(node, [[{"text": "deployed"}]], [[{"text": "done by Node"}]])

        listed = await node.agent("boss", "listSuspendedRuns", {"threadId": THREAD})
        answer = await node.agent(
            "boss", "approveToolCall", {"runId": output.run_id, "toolCallId": "outer"}
        )
        calls = await node.do("calls")
        left = [await node.agent(name, "listSuspendedRuns", {}) for name in ("boss", "worker")]

        [run] = listed["runs"]
        assert (output.run_id, ["deploy"]) == (
            run["runId"],
            [call["toolName"] for call in run["toolCalls"]],
        )
        assert ("done by Node", "stop") == (answer["text"], answer["finishReason"])
        assert [{"tool": "deploy", "input": {"env": "prod"}}] == calls
        assert [[], []] == [found["runs"] for found in left]
        assert [] == worker.executed
