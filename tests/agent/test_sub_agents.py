"""Agents that agents call: their answers, their waiting and their ends reach the supervisor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mastra_core import Agent, Mastra, ToolContext, tool
from mastra_core.config import Settings
from mastra_core.contracts.delegation import Delegation, DelegationChange
from mastra_core.contracts.storage import Storage
from mastra_core.errors import ConfigError, MastraError, SchemaError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call

MakeAgent = Callable[..., Agent]
pytestmark = pytest.mark.anyio

SCOPE = {"thread_id": "t", "resource_id": "r"}


@tool(require_approval=True)
async def deploy(env: str) -> str:
    """Deploy."""
    return f"deployed to {env}"


@tool(suspend_schema={"type": "object"}, resume_schema=int)
async def count(context: ToolContext) -> str:
    """Ask somebody to count."""
    if not context.is_resumed:
        await context.suspend({"question": "how many?"})
        return ""
    return f"{context.resume_data} of {context.suspend_payload['question']}"


def asks(name: str = "worker", prompt: str = "do it", id: str = "outer") -> Any:
    return tool_call(f"agent-{name}", {"prompt": prompt}, id=id)


def agent(id: str, *calls: Any, **options: Any) -> Agent:
    return Agent(id=id, model=ScriptedModel(calls), **options)


def requests_of(given: Agent) -> list[Any]:
    model = given.resolve_models(None)[0]
    assert isinstance(model, ScriptedModel)
    return model.requests


@asynccontextmanager
async def app(
    *agents: Agent, storage: Storage | None = None, **options: Any
) -> AsyncIterator[Mastra]:
    async with Mastra(
        storage=storage or InMemoryStorage(),
        lease="memory:",
        agents=agents,
        settings=Settings(),
        notifications={"enabled": False},
        **options,
    ) as mastra:
        yield mastra


async def ended(boss: Agent, **options: Any) -> Any:
    output = await boss.stream("go", **SCOPE, **options)
    await output.wait()
    return output


async def test_an_answer_is_the_result_of_a_call() -> None:
    worker = agent("worker", [text("42")], description="computes")
    boss = agent("boss", [asks(prompt="6 x 7?")], [text("It is 42.")], agents=[worker])
    async with app(boss):
        output = await ended(boss)

        assert "It is 42." == await output.text
        [result] = await output.tool_results
        assert "42" == result["payload"]["result"]["text"]
    [schema] = requests_of(boss)[0].tools
    assert ("agent-worker", "computes") == (schema.name, schema.description)
    [shown] = [turn for turn in requests_of(boss)[1].prompt if turn["role"] == "tool"]
    assert {"type": "text", "value": "42"} == shown["content"][0]["output"]
    assert ["go", "6 x 7?"] == [
        turn["content"][0]["text"]
        for turn in requests_of(worker)[0].prompt
        if turn["role"] == "user"
    ]


async def test_a_sub_agent_has_a_thread_of_its_own() -> None:
    worker = agent("worker", [text("done")])
    boss = agent("boss", [asks("helper")], [text("done")], agents={"helper": worker})
    async with app(boss) as mastra:
        output = await ended(boss)
        [result] = await output.tool_results
        thread_id = result["payload"]["result"]["subAgentThreadId"]
        thread = await mastra.storage.memory.get_thread_by_id(thread_id)
        rows = await mastra.storage.memory.list_messages(thread_id)

    assert thread is not None
    assert (True, "r-helper") == (thread_id.startswith("t-"), thread.resource_id)
    assert ["user", "assistant"] == [row.role for row in rows.messages]


async def test_without_a_thread_nothing_is_remembered() -> None:
    worker = agent("worker", [text("done")])
    boss = agent("boss", [asks()], [text("done")], agents=[worker])
    async with app(boss):
        output = await boss.stream("go")
        [result] = await output.tool_results

    assert {"text": "done", "subAgentToolResults": []} == result["payload"]["result"]


async def test_a_standalone_supervisor_has_its_sub_agents() -> None:
    worker = agent("worker", [text("done")])
    boss = agent("boss", [asks()], [text("fine")], agents=[worker])
    output = await ended(boss)

    assert "fine" == await output.text
    await boss.aclose()
    await worker.aclose()


# -- waiting --------------------------------------------------------------------------------------


async def test_a_refusal_at_the_outer_run_reaches_the_inner_model() -> None:
    worker = agent(
        "worker", [tool_call("deploy", {"env": "p"}, id="i")], [text("not done")], tools=[deploy]
    )
    boss = agent("boss", [asks()], [text("pity")], agents=[worker])
    async with app(boss):
        output = await ended(boss)
        assert "suspended" == await output.finish_reason

        output = await boss.decline_tool_call(output.run_id, "outer", reason="too late")

        assert "pity" == await output.text
        assert 0 == (await worker.list_suspended_runs()).total
    assert "too late" in str(requests_of(worker)[1].prompt)


async def test_data_for_the_inner_tool_is_given_to_the_outer_run() -> None:
    worker = agent("worker", [tool_call("count", {}, id="i")], [text("counted")], tools=[count])
    boss = agent("boss", [asks()], [text("fine")], agents=[worker])
    async with app(boss):
        output = await ended(boss)
        asked = await output.suspend_payload
        assert ({"question": "how many?"}, "agent-worker") == (
            asked["suspendPayload"],
            asked["toolName"],
        )
        assert "integer" == json.loads(asked["resumeSchema"])["type"]
        output = await boss.resume_stream(3, run_id=output.run_id)

        assert "fine" == await output.text
        [result] = await output.tool_results
        [inner] = result["payload"]["result"]["subAgentToolResults"]
        assert "3 of how many?" == inner["result"]


async def test_data_that_does_not_fit_the_inner_tool_changes_nothing() -> None:
    worker = agent("worker", [tool_call("count", {}, id="i")], tools=[count])
    boss = agent("boss", [asks()], agents=[worker])
    storage = InMemoryStorage()
    async with app(boss, storage=storage):
        output = await ended(boss)
        key = {"workflow_name": "agentic-loop", "run_id": output.run_id}
        before = await storage.workflows.load_workflow_snapshot(**key)

        with pytest.raises(SchemaError):
            await boss.resume_stream("three", run_id=output.run_id)

        assert before == await storage.workflows.load_workflow_snapshot(**key)
        assert 1 == (await worker.list_suspended_runs()).total


async def test_inner_calls_are_answered_one_after_the_other() -> None:
    worker = agent(
        "worker",
        [tool_call("deploy", {"env": "a"}, id="i1"), tool_call("deploy", {"env": "b"}, id="i2")],
        [text("both")],
        tools=[deploy],
    )
    boss = agent("boss", [asks()], [text("fine")], agents=[worker])
    async with app(boss):
        output = await ended(boss)
        asked = []
        while output.status == "suspended":
            asked.append((await output.suspend_payload)["args"]["env"])
            output = await boss.approve_tool_call(output.run_id)
            await output.wait()

        assert ["a", "b"] == asked
        assert "fine" == await output.text


async def test_a_grandchild_asks_through_both() -> None:
    leaf = agent("leaf", [tool_call("deploy", {"env": "p"})], [text("did")], tools=[deploy])
    middle = agent("middle", [asks("leaf", id="mid")], [text("passed on")], agents=[leaf])
    boss = agent("boss", [asks("middle")], [text("fine")], agents=[middle])
    async with app(boss):
        output = await ended(boss)
        asked = await output.suspend_payload
        assert ("outer", "deploy", {"env": "p"}) == (
            asked["toolCallId"],
            asked["toolName"],
            asked["args"],
        )

        output = await boss.approve_tool_call(output.run_id)

        assert "fine" == await output.text
        for each in (leaf, middle, boss):
            assert 0 == (await each.list_suspended_runs()).total


async def test_two_sub_agents_wait_side_by_side() -> None:
    def worker(name: str) -> Agent:
        return agent(name, [tool_call("deploy", {"env": name})], [text(name)], tools=[deploy])

    boss = agent(
        "boss",
        [asks("a", id="o1"), asks("b", id="o2")],
        [text("fine")],
        agents=[worker("a"), worker("b")],
    )
    async with app(boss):
        output = await ended(boss)
        [run] = (await boss.list_suspended_runs()).runs
        assert [("o1", {"env": "a"}), ("o2", {"env": "b"})] == [
            (call.tool_call_id, call.args) for call in run.tool_calls
        ]
        output = await boss.approve_tool_call(output.run_id, "o2")
        await output.wait()
        assert "suspended" == output.status
        output = await boss.approve_tool_call(output.run_id, "o1")

        assert "fine" == await output.text


async def test_another_process_answers() -> None:
    storage = InMemoryStorage()

    def team(*said: Any) -> tuple[Agent, Agent]:
        worker = agent(
            "worker",
            *([[text("did")]] if said else [[tool_call("deploy", {"env": "p"})]]),
            tools=[deploy],
        )
        return worker, agent("boss", *(said or [[asks()]]), agents=[worker])

    _, boss = team()
    async with app(boss, storage=storage):
        output = await ended(boss)
    worker, boss = team([text("fine")])
    async with app(boss, storage=storage):
        output = await boss.approve_tool_call(output.run_id)
        assert "fine" == await output.text
        assert 0 == (await worker.list_suspended_runs()).total


async def test_a_run_that_was_over_already_is_remembered() -> None:
    """As after a crash between the end of the inner run and that of the outer call."""
    worker = agent("worker", [tool_call("deploy", {"env": "p"})], [text("did")], tools=[deploy])
    boss = agent("boss", [asks()], [text("fine")], agents=[worker])
    async with app(boss):
        output = await ended(boss)
        [inner] = (await worker.list_suspended_runs()).runs
        await (await worker.approve_tool_call(inner.run_id)).text

        output = await boss.approve_tool_call(output.run_id)

        assert "fine" == await output.text
        [result] = await output.tool_results
        found = result["payload"]["result"]
        assert ("did", inner.thread_id) == (found["text"], found["subAgentThreadId"])
        assert ["deployed to p"] == [one["result"] for one in found["subAgentToolResults"]]


async def test_a_run_that_is_gone_fails_the_call() -> None:
    worker = agent("worker", [tool_call("deploy", {"env": "p"})], tools=[deploy])
    boss = agent("boss", [asks()], [text("sorry")], agents=[worker])
    async with app(boss):
        output = await ended(boss)
        [inner] = (await worker.list_suspended_runs()).runs
        await worker.cancel_run(inner.run_id)

        output = await boss.approve_tool_call(output.run_id)
        errors = [c async for c in output.full_stream if c["type"] == "tool-error"]

        assert "left no answer" in errors[0]["payload"]["error"]["message"]
        assert "sorry" == await output.text


async def test_a_process_that_dies_while_it_answers_may_be_asked_again() -> None:
    """The inner receipts say what was done; whoever knows better says so at the outer run."""
    storage = InMemoryStorage()
    worker = agent("worker", [tool_call("deploy", {"env": "p"})], tools=[deploy])
    boss = agent("boss", [asks()], agents=[worker])
    async with app(boss, storage=storage):
        output = await ended(boss)
        [inner] = (await worker.list_suspended_runs()).runs
        for run_id, call_id in ((output.run_id, "outer"), (inner.run_id, "call_1")):
            # What a process leaves behind that died in the body.
            await storage.workflows.record_receipt(
                workflow_name="agentic-loop",
                run_id=run_id,
                tool_call_id=call_id,
                receipt={"decision": {"approved": True}, "startedAt": 1},
                claim_id=None,
            )
    worker = agent("worker", [text("did")], tools=[deploy])
    boss = agent("boss", [text("fine")], agents=[worker])
    async with app(boss, storage=storage):
        [outer] = (await boss.list_suspended_runs()).runs
        [inner] = (await worker.list_suspended_runs()).runs
        assert ("interrupted", "unknown") == (outer.resume_state, inner.resume_state)

        output = await boss.approve_tool_call(outer.run_id)
        assert "suspended" == await output.finish_reason
        output = await boss.approve_tool_call(outer.run_id, rerun_unknown=True)

        assert "fine" == await output.text
        assert 0 == (await worker.list_suspended_runs()).total


async def test_the_stored_message_says_what_waits_and_for_whom() -> None:
    worker = agent("worker", [tool_call("deploy", {"env": "p"})], tools=[deploy])
    boss = agent("boss", [asks()], agents=[worker])
    async with app(boss) as mastra:
        output = await ended(boss)
        [inner] = (await worker.list_suspended_runs()).runs
        rows = await mastra.storage.memory.list_messages("t")

    entry = rows.messages[-1].content["metadata"]["pendingToolApprovals"]["outer"]
    assert "type" in entry
    assert {
        "runId": output.run_id,
        "delegatedRunId": inner.run_id,
        "toolName": "deploy",
        "args": {"env": "p"},
        "parentToolName": "agent-worker",
        "parentArgs": {"prompt": "do it"},
    }.items() <= entry.items()


async def test_a_cancelled_run_takes_that_of_its_sub_agent_along() -> None:
    worker = agent("worker", [tool_call("deploy", {"env": "p"})], tools=[deploy])
    boss = agent("boss", [asks()], agents=[worker])
    async with app(boss):
        output = await ended(boss)

        assert await boss.cancel_run(output.run_id)

        assert (0, 0) == (
            (await boss.list_suspended_runs()).total,
            (await worker.list_suspended_runs()).total,
        )


async def test_a_policy_for_the_whole_run_holds_for_sub_agents() -> None:
    @tool
    async def harmless() -> str:
        """Do nothing."""
        return "ok"

    worker = agent("worker", [tool_call("harmless", {})], [text("did")], tools=[harmless])
    boss = agent("boss", [asks()], [text("fine")], agents=[worker])
    async with app(boss):
        output = await ended(boss, require_tool_approval=True)
        assert "agent-worker" == (await output.suspend_payload)["toolName"]
        output = await boss.approve_tool_call(output.run_id)
        await output.wait()

        assert "harmless" == (await output.suspend_payload)["toolName"]
        output = await boss.approve_tool_call(output.run_id)
        assert "fine" == await output.text


async def test_a_sub_agent_in_the_background_waits_too() -> None:
    """Whoever answers the task answers its run."""
    worker = agent("worker", [tool_call("deploy", {"env": "p"})], [text("did")], tools=[deploy])
    boss = agent(
        "boss",
        [asks()],
        [text("started")],
        agents=[worker],
        background_tasks={"tools": {"worker": True}},
    )
    async with app(boss, background_tasks={"shutdown_grace_ms": 0}) as mastra:
        manager = mastra.background_tasks
        assert manager is not None
        output = await ended(boss)
        assert "started" == await output.text

        waiting = await _settled(manager)
        assert "suspended" == waiting.status
        assert {"toolName": "deploy", "args": {"env": "p"}, "toolCallId": "outer"} == (
            waiting.suspend_payload["requireToolApproval"]
        )
        await manager.resume(waiting.id, {"approved": True})
        task = await _settled(manager)

        assert ("completed", "did") == (task.status, task.result["text"])
        assert 0 == (await worker.list_suspended_runs()).total


async def _settled(manager: Any) -> Any:
    async with asyncio.timeout(30):
        while True:
            [task] = (await manager.list_tasks()).tasks
            if task.status not in ("pending", "running"):
                return task
            await asyncio.sleep(0.005)


# -- ends -----------------------------------------------------------------------------------------


async def test_a_failed_sub_agent_is_a_failed_call() -> None:
    worker = agent("worker", [{"type": "throw", "message": "out of order"}])
    boss = agent("boss", [asks()], [text("sorry")], agents=[worker])
    async with app(boss):
        output = await ended(boss)
        kinds = [chunk["type"] async for chunk in output.full_stream]

        assert ("sorry", 1) == (await output.text, kinds.count("tool-error"))
    assert "out of order" in str(requests_of(boss)[1].prompt)


async def test_an_abort_ends_the_sub_agent_too() -> None:
    gates = Gates()
    model = ScriptedModel([[text("one"), {"type": "gate", "name": "g"}, text("two")]], gates=gates)
    worker = Agent(id="worker", model=model)
    boss = agent("boss", [asks()], agents=[worker])
    async with app(boss) as mastra:
        output = await boss.stream("go", **SCOPE)
        async with asyncio.timeout(60):
            await gates.reached("g")
        output.abort()
        assert "aborted" == await output.finish_reason
        async with asyncio.timeout(60):
            await mastra.runs.join()


# -- hooks ----------------------------------------------------------------------------------------


async def test_a_hook_refuses() -> None:
    worker = agent("worker")
    boss = agent("boss", [asks()], [text("I see")], agents=[worker])
    async with app(boss):
        output = await ended(
            boss,
            delegation=Delegation(
                on_start=lambda start: DelegationChange(proceed=False, reason="not today")
            ),
        )
        assert "I see" == await output.text
    assert [] == requests_of(worker)
    assert "not today" in str(requests_of(boss)[1].prompt)


async def test_hooks_change_what_is_asked_and_seen() -> None:
    worker = agent("worker", [text("done")])
    boss = agent("boss", [asks()], [text("fine")], agents=[worker])
    hooks = Delegation(
        on_start=lambda start: DelegationChange(
            prompt=f"{start.prompt}, please", instructions="Be brief."
        ),
        message_filter=lambda start: [],
        on_complete=lambda end: f"{end.agent_name} was quick",
    )
    async with app(boss):
        assert "fine" == await (await ended(boss, delegation=hooks)).text

    systems, said = [], []
    for turn in requests_of(worker)[0].prompt:
        (systems if turn["role"] == "system" else said).append(turn["content"])
    assert (["Be brief."], "do it, please") == (systems, said[0][0]["text"])
    assert 1 == len(said)
    assert "worker was quick" in str(requests_of(boss)[1].prompt)


async def test_a_hook_ends_the_supervisors_run() -> None:
    worker = agent("worker", [text("that is all")])
    boss = agent("boss", [asks()], agents=[worker])
    async with app(boss):
        output = await ended(boss, delegation=Delegation(on_complete=lambda end: end.bail()))
        kinds = [chunk["type"] async for chunk in output.full_stream]

        assert ("finish", 1) == (kinds[-1], kinds.count("step-start"))
        assert "tool-calls" == await output.finish_reason


async def test_a_hook_that_fails_fails_the_call_or_nothing() -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("hook broke")

    for hooks, kind in (
        (Delegation(on_start=fail), "tool-error"),
        (Delegation(on_complete=fail), "tool-result"),
    ):
        worker = agent("worker", [text("done")])
        boss = agent("boss", [asks()], [text("fine")], agents=[worker])
        async with app(boss):
            output = await ended(boss, delegation=hooks)
            kinds = [chunk["type"] async for chunk in output.full_stream]
            assert ("fine", 1) == (await output.text, kinds.count(kind))


# -- making them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["worker", 7, [object()], {"a": "b"}])
async def test_what_is_no_agent_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        Agent(id="boss", agents=wrong)


async def test_names_are_given_once() -> None:
    twins = [Agent(id="worker"), Agent(id="worker")]
    with pytest.raises(ConfigError):
        Agent(id="boss", agents=twins)

    @tool(id="agent-worker")
    async def clash() -> None:
        """Has the name of a sub-agent."""

    with pytest.raises(MastraError):
        Agent(id="boss", agents=[Agent(id="worker")], tools=[clash])
