"""What is kept of a thread between its runs: nothing that grows with the number of threads."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.errors import ConfigError
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_core.threads.accepted import AcceptedSignals

pytestmark = pytest.mark.anyio


def accepted(value: Accepted | Exception) -> asyncio.Future[Accepted]:
    future: asyncio.Future[Accepted] = asyncio.get_running_loop().create_future()
    if isinstance(value, Exception):
        future.set_exception(value)
        future.exception()
    else:
        future.set_result(value)
    return future


def _message(name: str) -> dict[str, Any]:
    return {"id": name, "type": "user", "tagName": "user", "contents": "x"}


def _asks() -> FunctionTool:
    async def deploy(args: Any, context: Any) -> None:
        return None

    return FunctionTool(id="deploy", execute=deploy, require_approval=True)


def _parks() -> list[dict[str, Any]]:
    return [tool_call("deploy", {})]


async def test_threads_that_got_messages_are_forgotten(mastra: Mastra) -> None:
    """Their outputs too, although a repeated message is still recognised."""
    agent = Agent(id="a", model=ScriptedModel([[text("hi")] for _ in range(20)]))
    mastra.add_agent(agent)
    outputs: list[weakref.ref[Any]] = []
    for number in range(20):
        where = {"thread_id": f"t{number}", "resource_id": "r"}
        sent = agent.send_signal(_message(f"m{number}"), **where)
        output = (await sent.accepted).output
        await output.wait()
        outputs.append(weakref.ref(output))
        del sent, output
    for _ in range(5):
        await mastra.threads.tasks.join()
    gc.collect()
    again = agent.send_signal(_message("m3"), thread_id="t3", resource_id="r")
    answer = await again.accepted

    assert [None] * 20 == [output() for output in outputs]
    assert {} == mastra.threads._records  # what is kept is what this test is about
    assert (answer.action, answer.output) == ("wake", None)


async def test_streams_of_one_thread_all_get_their_turn(mastra: Mastra) -> None:
    """Each that waits finds the thread's present record, not the one it saw first."""
    agent = Agent(id="a", model=ScriptedModel([[text(f"{n}")] for n in range(6)]))
    mastra.add_agent(agent)

    async def one() -> str:
        output = await agent.stream("x", thread_id="t", resource_id="r")
        return await output.text

    async with asyncio.timeout(10):
        texts = await asyncio.gather(*(one() for _ in range(6)))

    assert [str(n) for n in range(6)] == sorted(texts)


async def test_a_parked_run_is_let_go_though_nobody_asks_for_its_thread() -> None:
    """Parking another one is occasion enough (R56)."""
    clock = FakeClock()
    agent = Agent(id="a", model=ScriptedModel([_parks(), _parks()]), tools=[_asks()])
    async with Mastra(storage="memory:", clock=clock, agents=[agent]) as mastra:
        first = await agent.stream("x", thread_id="one", resource_id="r")
        await first.wait()
        await clock.advance(30 * 60 + 1)
        second = await agent.stream("x", thread_id="two", resource_id="r")
        await second.wait()

        assert ["r\0two"] == list(mastra.threads._records)  # what is kept


async def test_a_closed_application_takes_no_signal_and_no_reader() -> None:
    """Both say so; a reader would wait for ever."""
    agent = Agent(id="a", model=ScriptedModel([]))
    async with Mastra(storage="memory:", agents=[agent]):
        pass

    with pytest.raises(ConfigError, match="closed"):
        agent.send_message("x", thread_id="t", resource_id="r")
    with pytest.raises(ConfigError, match="closed"):
        agent.subscribe_to_thread(thread_id="t", resource_id="r")


async def test_what_was_taken_is_remembered_for_ten_minutes() -> None:
    clock = FakeClock()
    taken = AcceptedSignals(clock)
    taken.remember("t", "s", accepted(Accepted(action="deliver", run_id="run")))
    await clock.advance(600)
    within = taken.get("t", "s")
    await clock.advance(1)

    assert within is not None
    assert "run" == (await within).run_id
    assert taken.get("t", "s") is None
    assert 0 == len(taken)


async def test_the_oldest_are_forgotten_beyond_the_limit() -> None:
    taken = AcceptedSignals(FakeClock(), limit=2)
    for name in "abc":
        taken.remember("t", name, accepted(Accepted(action="deliver")))

    assert [False, True, True] == [taken.get("t", name) is not None for name in "abc"]


@pytest.mark.parametrize("refusal", [Accepted(action="blocked"), ConfigError("no")])
async def test_what_was_refused_may_come_again(refusal: Accepted | Exception) -> None:
    taken = AcceptedSignals(FakeClock())
    taken.remember("t", "s", accepted(refusal))

    assert taken.get("t", "s") is None
