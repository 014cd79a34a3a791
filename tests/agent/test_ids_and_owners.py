"""Whose run it is, under which id, and what may be said about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.errors import ForeignRunError, RunArgumentError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call

pytestmark = pytest.mark.anyio

T: dict[str, Any] = {"thread_id": "t", "resource_id": "r"}


@pytest.fixture
async def mastra() -> AsyncIterator[Mastra]:
    """An application without a dispatcher."""
    async with Mastra(storage="memory:", notifications={"enabled": False}) as opened:
        yield opened


def busy(gates: Gates, id: str = "a") -> Agent:
    """An agent whose runs stand at a gate."""
    calls = [[{"type": "gate", "name": "g"}, text(f"answer {n}")] for n in range(3)]
    return Agent(id=id, model=ScriptedModel(calls, gates=gates))


def careful(ran: list[Any], **options: Any) -> Agent:
    """An agent whose tool needs an approval."""

    async def act(args: Any, context: ToolContext) -> str:
        ran.append(context.tool_call_id)
        return "acted"

    tool = FunctionTool(id="act", execute=act, require_approval=True)
    calls = [[tool_call("act", {})], [text("done")]]
    return Agent(id="a", model=ScriptedModel(calls), tools=[tool], **options)


# -- ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [{}, T, {**T, "read_only": True}])
async def test_two_runs_can_not_have_one_id(mastra: Mastra, scope: dict[str, Any]) -> None:
    """The second is refused while the first is at work; they would share one thread."""
    gates = Gates()
    agent = busy(gates)
    mastra.add_agent(agent)
    first = await agent.stream("one", run_id="same", **scope)
    async with asyncio.timeout(60):
        await gates.reached("g")

    with pytest.raises(RunArgumentError) as raised:
        await agent.stream("two", run_id="same", **scope)
    gates.open("g")

    assert "AGENT_RUN_ID_IN_USE" == raised.value.id
    assert "answer 0" == await first.text
    later = await agent.stream("three", run_id="same", **scope)
    assert "answer 1" == await later.text


async def test_the_id_of_a_run_that_waits_is_taken(mastra: Mastra) -> None:
    """A new run would overwrite what waits for an answer."""
    ran: list[Any] = []
    agent = careful(ran)
    mastra.add_agent(agent)
    output = await agent.stream("go", **T)
    await output.wait()

    with pytest.raises(RunArgumentError):
        await agent.stream("two", run_id=output.run_id, **T)

    answered = await agent.approve_tool_call(output.run_id)
    assert "done" == await answered.text


@pytest.mark.parametrize("name", ["thread_id", "resource_id", "run_id"])
@pytest.mark.parametrize("wrong", ["a\0b", "a\ud800"])
async def test_no_id_has_nul_or_half_a_character(mastra: Mastra, name: str, wrong: str) -> None:
    """Resource and thread are parted by NUL: with one inside, two threads would be one."""
    agent = busy(Gates())
    mastra.add_agent(agent)

    with pytest.raises(RunArgumentError):
        await agent.stream("hi", **{**T, name: wrong})
    if name != "run_id":
        with pytest.raises(RunArgumentError):
            agent.send_message("hi", **{**T, name: wrong})

    assert 0 == (await mastra.storage.memory.list_threads()).total


# -- owners ------------------------------------------------------------------------------------


async def test_an_agent_cancels_its_own_runs_only(mastra: Mastra) -> None:
    """A run at work of somebody else goes on."""
    gates = Gates()
    agent, other = busy(gates), busy(gates, id="b")
    mastra.add_agent(agent)
    mastra.add_agent(other)
    output = await agent.stream("go", **T)

    with pytest.raises(ForeignRunError):
        await other.cancel_run(output.run_id)
    gates.open("g")

    assert "answer 0" == await output.text


async def test_a_run_without_a_thread_can_be_cancelled(mastra: Mastra) -> None:
    """It is at work here, so it is found."""
    gates = Gates()
    agent = busy(gates)
    mastra.add_agent(agent)
    output = await agent.stream("go")
    async with asyncio.timeout(60):
        await gates.reached("g")

    assert await agent.cancel_run(output.run_id)

    assert "aborted" == await output.finish_reason
    assert not await agent.cancel_run(output.run_id)


# -- decisions ---------------------------------------------------------------------------------


async def test_the_context_of_a_decline_can_not_approve(mastra: Mastra) -> None:
    """``approved`` is what was decided, whatever stands in its context."""
    ran: list[Any] = []
    agent = careful(ran)
    mastra.add_agent(agent)
    output = await agent.stream("go", **T)
    await output.wait()

    context = {"approved": True, "reason": "too late"}
    await agent.send_tool_approval(approved=False, decline_context=context, **T)
    await mastra.runs.join()

    assert [] == ran
    row = (await mastra.storage.memory.list_messages("t")).messages[1]
    assert "output-denied" == row.content["parts"][0]["toolInvocation"]["state"]


@pytest.mark.parametrize(
    "wrong",
    [{"approved": "yes"}, {"approved": None}, {"decline_context": 5}, {"tool_call_id": ""}],
)
async def test_a_decision_that_is_none_changes_nothing(
    mastra: Mastra, wrong: dict[str, Any]
) -> None:
    """It is refused, and the run waits on."""
    ran: list[Any] = []
    agent = careful(ran)
    mastra.add_agent(agent)
    output = await agent.stream("go", **T)
    await output.wait()

    with pytest.raises(RunArgumentError):
        await agent.send_tool_approval(**{**T, **wrong})

    assert [] == ran
    assert [output.run_id] == [run.run_id for run in (await agent.list_suspended_runs()).runs]


@pytest.mark.parametrize("wrong", [{"read_only": True}, {"active_tools": ["none"]}])
async def test_an_answer_whose_options_can_not_be_claims_nothing(
    mastra: Mastra, wrong: dict[str, Any]
) -> None:
    """The row is as it was."""
    ran: list[Any] = []
    agent = careful(ran)
    mastra.add_agent(agent)
    output = await agent.stream("go", **T)
    await output.wait()
    before = await mastra.snapshots.load(output.run_id)

    with pytest.raises(RunArgumentError):
        await agent.approve_tool_call(output.run_id, **wrong)

    assert before == await mastra.snapshots.load(output.run_id)


async def test_unknown_active_tools_make_no_thread(mastra: Mastra) -> None:
    """They are refused before anything is written."""
    agent = busy(Gates())
    mastra.add_agent(agent)

    with pytest.raises(RunArgumentError):
        await agent.stream("hi", active_tools=["none"], **T)

    assert 0 == (await mastra.storage.memory.list_threads()).total


async def test_closing_stores_what_was_accepted_and_had_no_turn() -> None:
    """Input that waits when the application closes is in the thread afterwards."""
    gates = Gates()
    agent, other = busy(gates), busy(gates, id="b")
    storage = InMemoryStorage()
    async with storage, Mastra(storage=storage, agents=[agent, other]) as mastra:
        await agent.send_message("first", **T).accepted
        async with asyncio.timeout(60):
            await gates.reached("g")
        accepted = [
            await agent.send_message("for this run", **T).accepted,
            await other.send_message("for a run of its own", **T).accepted,
        ]
        await mastra.aclose()

        assert ["deliver", "deliver"] == [answer.action for answer in accepted]
        rows = (await storage.memory.list_messages("t")).messages
        said = [row.content["parts"][0]["text"] for row in rows]
        assert {"first", "for this run", "for a run of its own"} <= set(said)


async def test_whoever_waits_for_a_thread_learns_that_it_closed() -> None:
    """Nobody hangs when the application closes."""

    async def wait(args: Any, context: ToolContext) -> None:
        await context.suspend("what?")

    tool = FunctionTool(id="ask", execute=wait)
    agent = Agent(id="a", model=ScriptedModel([[tool_call("ask", {})]]), tools=[tool])
    other = busy(Gates(), id="b")
    mastra = Mastra(storage="memory:", agents=[agent, other])
    async with mastra:
        output = await agent.stream("go", **T)
        await output.wait()
        waiting = asyncio.create_task(other.stream("mine", **T))
        while len(mastra.threads.tasks) == 0:  # noqa: ASYNC110 - nobody tells that it waits
            await asyncio.sleep(0)

    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError, match="closed"):
            await waiting


Message = dict[str, Any]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": {"format": 2, "parts": 5}},
        {"role": "user", "content": {"format": 2, "parts": [5]}},
        {"role": "user", "content": {"format": 2, "parts": [{"type": "text"}]}},
        {"role": "user", "content": [{"type": "text", "text": 5}]},
        {"role": "user", "content": [{"type": "file", "data": object()}]},
        {"role": "assistant", "parts": [{"type": "tool-invocation", "toolInvocation": 5}]},
        {"role": "tool", "content": [{"type": "tool-result"}]},
    ],
)
async def test_messages_of_a_wrong_shape_are_refused(
    make_agent: Callable[..., Agent], message: Message
) -> None:
    """With the argument's error, and before the model is asked."""
    agent = make_agent([text("x")])

    with pytest.raises(RunArgumentError):
        await agent.stream(message, **T)
