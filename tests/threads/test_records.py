"""What is kept of a thread between its runs: nothing that grows with the number of threads."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.contracts.signal_sink import Accepted
from mastra_core.errors import ConfigError, StorageConnectionError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call
from mastra_core.threads.accepted import AcceptedSignals
from mastra_core.threads.parked import LOOK_SECONDS
from mastra_core.threads.turns import TURN_ATTEMPTS
from mastra_core.wire.messages import Message

QUIET = {"enabled": False}
T = {"thread_id": "t", "resource_id": "r"}

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


async def settle(mastra: Mastra) -> None:
    """Let everything end that was started."""
    for _ in range(5):
        await mastra.threads.tasks.join()
        await asyncio.sleep(0)


def text_of(row: Message) -> str:
    return "".join(part.get("text", "") for part in row.content["parts"])


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
    await settle(mastra)
    gc.collect()
    again = agent.send_signal(_message("m3"), thread_id="t3", resource_id="r")
    answer = await again.accepted

    assert [None] * 20 == [output() for output in outputs]
    assert [] == mastra.threads.known_threads()
    assert ("deliver", None) == (answer.action, answer.output)


async def test_streams_of_one_thread_all_get_their_turn(mastra: Mastra) -> None:
    """Each that waits finds the thread's present record, not the one it saw first."""
    agent = Agent(id="a", model=ScriptedModel([[text(f"{n}")] for n in range(6)]))
    mastra.add_agent(agent)

    async def one() -> str:
        output = await agent.stream("x", thread_id="t", resource_id="r")
        return await output.text

    async with asyncio.timeout(60):
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

        assert ["r\0two"] == mastra.threads.known_threads()


async def test_a_stream_waits_for_another_agents_parked_run_no_longer_than_it_is_kept() -> None:
    """Nobody else has to touch the thread when the time is over."""
    clock = FakeClock()
    first = Agent(id="a", model=ScriptedModel([_parks()]), tools=[_asks()])
    second = Agent(id="b", model=ScriptedModel([[text("at last")]]))
    async with Mastra(storage="memory:", clock=clock, agents=[first, second]):
        parked = await first.stream("x", thread_id="t", resource_id="r")
        await parked.wait()
        waiting = asyncio.create_task(second.stream("y", thread_id="t", resource_id="r"))
        await clock.advance(30 * 60 - 1)
        still_waits = not waiting.done()
        await clock.advance(1)

        async with asyncio.timeout(60):
            words = await (await waiting).text

    assert (True, "at last") == (still_waits, words)


async def test_a_run_answered_elsewhere_does_not_keep_its_thread() -> None:
    """Messages for it get a run, and other agents their turn."""
    store = InMemoryStorage()
    here = Agent(id="a", model=ScriptedModel([_parks(), [text("hello")]]), tools=[_asks()])
    other = Agent(id="b", model=ScriptedModel([[text("me too")]]))
    there = Agent(id="a", model=ScriptedModel([[text("done elsewhere")]]), tools=[_asks()])
    async with (
        Mastra(storage=store, agents=[here, other]) as first,
        Mastra(storage=store, agents=[there]),
    ):
        parked = await here.stream("x", **T)
        await parked.wait()
        await (await there.approve_tool_call(parked.run_id)).wait()
        await here.send_message("hello?", **T).accepted
        await settle(first)
        async with asyncio.timeout(60):
            await (await other.stream("y", **T)).wait()
        rows = (await first.storage.memory.list_messages("t")).messages

    assert ["done elsewhere", "hello", "me too"] == [
        words for row in rows if row.role == "assistant" and (words := text_of(row))
    ]


async def test_turns_that_cannot_start_wait_for_the_next_run_in_their_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No circle of attempts; their rows are stored meanwhile, and each has one effect."""
    is_down = False

    def fault(operation: str) -> None:
        if is_down and operation == "memory.list_messages:before":
            raise StorageConnectionError("Can't be read now.")

    gates = Gates()
    waiting = [{"type": "gate", "name": "go"}, *[text("done")]]
    holder = Agent(id="a", model=ScriptedModel([waiting, [text("again")]], gates=gates))
    late = Agent(id="b", model=ScriptedModel([[text("one")], [text("two")]]))
    store = faulty_storage(InMemoryStorage(), fault)
    async with Mastra(storage=store, agents=[holder, late]) as mastra:
        first = await holder.stream("x", **T)
        for name in ("m1", "m2"):
            await late.send_signal(_message(name), **T).accepted
        is_down = True
        gates.open("go")
        await first.wait()
        await settle(mastra)
        is_down = False
        stored = (await mastra.storage.memory.list_messages("t")).messages
        failures = [r for r in caplog.records if r.getMessage() == "queued turn could not start"]
        second = await holder.stream("y", **T)
        await second.wait()
        await settle(mastra)
        rows = (await mastra.storage.memory.list_messages("t")).messages

    assert 2 == len(failures)
    assert ["m1", "m2"] == [row.id for row in stored if row.id in {"m1", "m2"}]
    assert ["m1", "m2"] == [row.id for row in rows if row.id in {"m1", "m2"}]
    assert ["done", "again", "one", "two"] == [
        text_of(row) for row in rows if row.role == "assistant"
    ]


async def test_a_signal_whose_run_stored_nothing_is_taken_again() -> None:
    """What was accepted isn't delivered before its row is there (S21)."""
    refusals = [StorageConnectionError("gone"), StorageConnectionError("still gone")]

    def fault(operation: str) -> None:
        if operation == "memory.save_messages:before" and refusals:
            raise refusals.pop()

    agent = Agent(id="a", model=ScriptedModel([[text("kept")]]))
    async with Mastra(storage=faulty_storage(InMemoryStorage(), fault), agents=[agent]) as mastra:
        for _ in range(2):
            sent = agent.send_signal(_message("m"), **T)
            output = (await sent.accepted).output
            assert output is not None
            await output.wait()
            await settle(mastra)
        third = await agent.send_signal(_message("m"), **T).accepted
        rows = (await mastra.storage.memory.list_messages("t")).messages

    assert ("deliver", None) == (third.action, third.output)
    assert ["x", "kept"] == [text_of(row) for row in rows]


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


async def test_input_behind_a_run_that_is_answered_elsewhere_gets_its_turn() -> None:
    """Though nobody touches the thread here again: what waits is looked after by itself."""
    clock = FakeClock()
    store = InMemoryStorage()
    here = Agent(id="a", model=ScriptedModel([_parks(), [text("hello")]]), tools=[_asks()])
    there = Agent(id="a", model=ScriptedModel([[text("done elsewhere")]]), tools=[_asks()])
    async with (
        Mastra(storage=store, agents=[here], clock=clock) as first,
        Mastra(storage=store, agents=[there]),
    ):
        parked = await here.stream("x", **T)
        await parked.wait()
        await here.send_message("hello?", **T).accepted
        await clock.advance(1)
        await (await there.approve_tool_call(parked.run_id)).wait()
        await clock.advance(2 * LOOK_SECONDS)
        await first.runs.join()
        rows = (await first.storage.memory.list_messages("t")).messages

    assert ["done elsewhere", "hello"] == [
        words for row in rows if row.role == "assistant" and (words := text_of(row))
    ]


async def test_input_behind_a_run_that_is_never_answered_gets_its_turn_in_the_end() -> None:
    """When the run was parked for too long to be kept, its thread is free for what waits."""
    clock = FakeClock()
    agent = Agent(id="a", model=ScriptedModel([_parks(), [text("hello")]]), tools=[_asks()])
    async with Mastra(storage="memory:", clock=clock, agents=[agent]) as mastra:
        parked = await agent.stream("x", **T)
        await parked.wait()
        await agent.send_message("hello?", **T).accepted
        await clock.advance(30 * 60 + 1)
        await mastra.runs.join()
        rows = (await mastra.storage.memory.list_messages("t")).messages

        assert ["hello"] == [
            words for row in rows if row.role == "assistant" and (words := text_of(row))
        ]
        assert 1 == len((await agent.list_suspended_runs()).runs)


async def test_asking_whether_a_thread_is_busy_finds_out_that_it_is_not() -> None:
    """A notification that waits for an idle thread must not wait for one that is."""
    store = InMemoryStorage()
    here = Agent(id="a", model=ScriptedModel([_parks()]), tools=[_asks()])
    there = Agent(id="a", model=ScriptedModel([[text("done elsewhere")]]), tools=[_asks()])
    async with (
        Mastra(storage=store, agents=[here]) as first,
        Mastra(storage=store, agents=[there]),
    ):
        parked = await here.stream("x", **T)
        await parked.wait()
        await (await there.approve_tool_call(parked.run_id)).wait()

        was_active = first.threads.is_active("r", "t")
        await first.threads.tasks.join()

        assert (True, False) == (was_active, first.threads.is_active("r", "t"))


async def test_two_processes_that_answer_each_others_runs_do_not_wait_for_each_other() -> None:
    """
    Each holds the thread for a run of its own that the other one is answering; neither
    answer waits for the other.
    """
    store = InMemoryStorage()

    def pair() -> tuple[Agent, Agent]:
        made = []
        for name in ("a", "b"):
            model = ScriptedModel([_parks()])
            made.append(Agent(id=name, model=model, tools=[_asks()]))
        return made[0], made[1]

    (a1, b1), (a2, b2) = pair(), pair()
    clock = FakeClock()
    async with (
        Mastra(storage=store, agents=[a1, b1], clock=clock),
        Mastra(storage=store, agents=[a2, b2], clock=clock),
    ):
        of_a = await a1.stream("x", **T)
        await of_a.wait()
        of_b = await b2.stream("y", **T)
        await of_b.wait()

        answering = asyncio.gather(
            b1.decline_tool_call(of_b.run_id), a2.decline_tool_call(of_a.run_id)
        )
        async with asyncio.timeout(60):
            while not answering.done():
                await clock.advance(1)
            answers = await answering
            reasons = [await answer.finish_reason for answer in answers]

        assert {"stop", "suspended"} >= set(reasons)


@case("signals", 64)
async def test_a_turn_that_could_not_start_is_tried_again_by_itself() -> None:
    """Later and later, in the old order, and each signal has one effect."""
    clock = FakeClock()
    is_down = True
    tries: list[float] = []

    def fault(operation: str) -> None:
        if operation == "memory.list_messages:before" and is_down and armed:
            tries.append(clock.monotonic())
            raise StorageConnectionError("Can't be read now.")

    armed = False
    gates = Gates()
    waiting = [{"type": "gate", "name": "go"}, text("done")]
    holder = Agent(id="a", model=ScriptedModel([waiting], gates=gates))
    model = ScriptedModel([[text("one")], [text("two")]])
    late = Agent(id="b", model=model)
    store = faulty_storage(InMemoryStorage(), fault)
    async with Mastra(
        storage=store, agents=[holder, late], clock=clock, own=True, notifications=QUIET
    ) as mastra:
        first = await holder.stream("x", **T)
        for name in ("m1", "m2"):
            await late.send_signal({**_message(name), "contents": name}, **T).accepted
        armed = True
        gates.open("go")
        await first.wait()
        await clock.advance(6)
        is_down = False
        await clock.advance(60)
        await settle(mastra)
        rows = (await mastra.storage.memory.list_messages("t")).messages

    # Both are tried after 0, 1 and 3 seconds, and then after 7.
    assert [0, 1, 3] == sorted({round(at) for at in tries})
    order = [row.id if row.role == "signal" else text_of(row) for row in rows[1:]]
    assert ["done", "one", "two"] == [words for words in order if words not in {"m1", "m2"}]
    assert ["m1", "m2"] == [name for name in order if name in {"m1", "m2"}]
    asked = [str(request.prompt[-1]) for request in model.requests]
    assert ["m1" in asked[0], "m2" in asked[1]] == [True, True]


async def test_a_turn_that_can_never_start_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """After ten attempts, and readers of the thread are told."""
    clock = FakeClock()
    armed = False

    def fault(operation: str) -> None:
        if operation == "memory.list_messages:before" and armed:
            raise StorageConnectionError("Can't be read now.")

    gates = Gates()
    waiting = [{"type": "gate", "name": "go"}, text("done")]
    holder = Agent(id="a", model=ScriptedModel([waiting], gates=gates))
    late = Agent(id="b", model=ScriptedModel([]))
    store = faulty_storage(InMemoryStorage(), fault)
    async with Mastra(
        storage=store, agents=[holder, late], clock=clock, own=True, notifications=QUIET
    ) as mastra:
        subscription = holder.subscribe_to_thread(**T)
        first = await holder.stream("x", **T)
        await late.send_signal(_message("m1"), **T).accepted
        armed = True
        gates.open("go")
        await first.wait()
        await clock.advance(3600)
        await settle(mastra)
        armed = False
        told = []
        async for chunk in subscription.stream:
            if chunk["type"] == "error":
                told.append(chunk["payload"]["error"])
            if len(told) == TURN_ATTEMPTS:
                break
        subscription.unsubscribe()
        kept = mastra.threads.known_threads()
        rows = (await mastra.storage.memory.list_messages("t")).messages
        inbox = await mastra.storage.notifications.list_notifications("t")

    failures = [r for r in caplog.records if r.getMessage() == "queued turn could not start"]
    assert TURN_ATTEMPTS == len(failures)
    assert told[0].endswith("the message was requeued and will deliver on the next turn")
    assert told[-1].endswith("the message was cancelled")
    assert [] == kept
    assert "m1" in {row.id for row in rows}
    [record] = inbox
    assert ("mastra", "signal-not-answered", "b") == (record.source, record.kind, record.agent_id)
    assert {"signalId": "m1", "error": "Can't be read now."} == record.payload
