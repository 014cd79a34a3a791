"""Following a thread: from which chunk on, with what before it, and until when (signals.md 12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.errors import RunArgumentError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.streaming.broadcast import ChunkBuffer
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call
from mastra_core.testing.thread_scene import ThreadScene, waiting
from mastra_core.threads.subscription import MAX_WAITING_RUNS, ThreadSubscription

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}


async def until(stream: AsyncIterator[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """The chunks up to the first of one of these kinds."""
    seen = []
    async with asyncio.timeout(60):
        async for chunk in stream:
            seen.append(chunk)
            if chunk["type"] in kinds:
                return seen
    raise AssertionError(f"none of {kinds} came")


def kinds(chunks: list[dict[str, Any]]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def said(chunks: list[dict[str, Any]]) -> str:
    """All text of live chunks."""
    return "".join(c["payload"]["text"] for c in chunks if c["type"] == "text-delta")


def stored(chunk: dict[str, Any]) -> list[str]:
    """The texts of the messages of a history."""
    assert ("thread-history", "", "AGENT") == (chunk["type"], chunk["runId"], chunk["from"])
    return [
        "".join(part.get("text", "") for part in message["content"]["parts"])
        for message in chunk["payload"]["messages"]
    ]


async def act(args: Any, context: Any) -> str:
    return "acted"


ACT = FunctionTool(id="act", execute=act)
ASK = FunctionTool(id="act", execute=act, require_approval=True)


@case("signals", 95)
async def test_a_finish_for_tool_calls_ends_no_run(scene: ThreadScene) -> None:
    """The chunks of the run go on behind it."""
    buffer = ChunkBuffer()
    subscription = ThreadSubscription(
        hide_signals=None,
        active_run_id=lambda: None,
        abort=lambda **_: False,
        unsubscribe=lambda _: None,
    )
    for reason in ("tool-calls", "stop"):
        buffer.append({"type": "text-delta", "payload": {"id": "1", "text": reason}})
        buffer.append({"type": "finish", "payload": {"stepResult": {"reason": reason}}})
    buffer.append({"type": "data-late", "data": 1})
    subscription.add_run("one", buffer)
    subscription.add_run("two", _closed({"type": "abort"}))

    seen = await until(subscription.stream, "abort")

    assert ["text-delta", "finish", "text-delta", "finish", "abort"] == kinds(seen)


def _closed(*chunks: dict[str, Any]) -> ChunkBuffer:
    buffer = ChunkBuffer()
    for chunk in chunks:
        buffer.append(chunk)
    buffer.close()
    return buffer


@case("signals", 98)
async def test_unsubscribing_ends_the_iteration_and_frees_the_thread(scene: ThreadScene) -> None:
    """Nothing more is read, also of runs that wait; nothing is left to know of the thread."""
    agent = scene.agent([text("one")])
    subscription = agent.subscribe_to_thread(**T)
    await agent.send_message("go", **T).accepted
    await scene.idle()
    stream = subscription.stream
    await anext(stream)

    subscription.unsubscribe()
    subscription.unsubscribe()
    rest = [chunk async for chunk in stream]

    assert ([], []) == (rest, scene.mastra.threads.known_threads())


async def test_stopping_to_read_unsubscribes(scene: ThreadScene) -> None:
    """An iterator that is closed leaves nothing behind."""
    agent = scene.agent([text("one")])
    subscription = await agent.subscribe_to_thread(**T)
    await agent.send_message("go", **T).accepted
    stream: Any = subscription.stream
    await anext(stream)

    await stream.aclose()
    await scene.idle()

    assert [] == scene.mastra.threads.known_threads()


@case("signals", 100)
async def test_a_finished_run_is_history(scene: ThreadScene) -> None:
    """Its messages come first, in time order; none of its chunks follow."""
    agent = scene.agent([text("one")], [text("two")])
    await agent.send_message("first", **T).accepted
    await scene.idle()

    subscription = await agent.subscribe_to_thread(**T, with_initial_history=True)
    await agent.send_message("second", **T).accepted
    seen = await until(subscription.stream, "finish")

    assert ["first", "one"] == stored(seen[0])[:2]
    assert "two" == said(seen)
    assert "one" not in said(seen)


async def test_a_page_of_history_says_whether_there_is_more(scene: ThreadScene) -> None:
    """The newest are read; an unknown thread has none, nor has an agent without memory."""
    agent = scene.agent([text("one")])
    await agent.send_message("first", **T).accepted
    await scene.idle()
    bare = scene.agent(agent_id="bare", memory=False)

    async def history(who: Agent, **target: Any) -> Any:
        return (await anext(who.subscribe_to_thread(**target).stream))["payload"]

    page = await history(agent, **T, with_initial_history={"per_page": 1})
    whole = await history(agent, **T, with_initial_history=True)
    unknown = await history(agent, thread_id="x", with_initial_history=True)
    nothing = await history(bare, **T, with_initial_history=True)

    assert (1, True, 2, False) == (
        len(page["messages"]),
        page["hasMore"],
        len(whole["messages"]),
        whole["hasMore"],
    )
    assert {"messages": [], "hasMore": False} == unknown == nothing


async def test_of_a_running_run_only_what_isnt_stored_follows(scene: ThreadScene) -> None:
    """Its first step is stored, with the message that came then; its second is live."""
    agent = scene.agent([tool_call("act", {})], waiting("g", "second"), tools=[ACT])
    await agent.send_message(
        "go", **T, if_idle={"stream_options": {"save_per_step": True}}
    ).accepted
    await scene.reached("g")

    subscription = agent.subscribe_to_thread(**T, with_initial_history=True)
    stream = subscription.stream
    first = [await anext(stream), await anext(stream)]
    scene.gates.open("g")
    rest = await until(stream, "finish")

    assert "go" == stored(first[0])[0]
    assert "start" == first[1]["type"]
    seen = [*first, *rest]
    assert not {"data-user-message", "tool-call", "tool-result"} & set(kinds(seen))
    assert "second still" == said(seen)
    assert 1 == kinds(seen).count("start")


@case("signals", 101)
async def test_a_question_is_shown_until_it_is_answered(scene: ThreadScene) -> None:
    """Once to whoever comes while the run waits; not to whoever comes later."""
    agent = scene.agent([tool_call("act", {})], waiting("g", "done"), tools=[ASK])
    accepted = await agent.send_message("go", **T).accepted
    await scene.idle()
    early = agent.subscribe_to_thread(**T, with_initial_history=True)
    early_stream = early.stream
    before = await until(early_stream, "tool-call-approval")

    await agent.approve_tool_call(accepted.run_id or "")
    await scene.reached("g")
    late = agent.subscribe_to_thread(**T, with_initial_history=True)
    scene.gates.open("g")
    after = await until(late.stream, "finish")
    rest = await until(early_stream, "finish")

    assert ["thread-history", "start", "tool-call-approval"] == kinds(before)
    assert "tool-call-approval" not in kinds(after) + kinds(rest)


@case("signals", 102)
async def test_what_is_stored_while_the_history_loads_comes_once() -> None:
    """The messages are read again, and the chunks behind them follow."""
    reading, go_on = asyncio.Event(), asyncio.Event()
    is_held = False

    async def hook(point: str) -> None:
        if point == "memory.list_messages:after" and is_held and not reading.is_set():
            reading.set()
            await go_on.wait()

    gates = Gates()
    model = ScriptedModel(
        [[text("first"), {"type": "gate", "name": "g"}], waiting("h", "second")], gates=gates
    )
    agent = Agent(id="a", model=model)
    store = faulty_storage(InMemoryStorage(), hook)
    async with Mastra(storage=store, agents=[agent], own=True):
        await agent.send_message("go", **T).accepted
        await gates.reached("g")
        subscription = agent.subscribe_to_thread(**T, with_initial_history=True)
        stream = subscription.stream
        is_held = True
        first = asyncio.ensure_future(anext(stream))  # type: ignore[arg-type]  # it is a coroutine
        async with asyncio.timeout(60):
            await reading.wait()
        # While the old messages are on their way, the step is stored and the next one begins.
        await agent.send_message("more", **T).accepted
        gates.open("g")
        async with asyncio.timeout(60):
            await gates.reached("h")
        go_on.set()
        history = await first
        gates.open("h")
        live = await until(stream, "finish")

    assert ["go", "first", "more"] == stored(history)
    assert ("second still", 0) == (said(live), kinds(live).count("data-user-message"))


async def test_hidden_signals_are_hidden_in_the_history_too(scene: ThreadScene) -> None:
    """A list names types, also by their old names."""
    agent = scene.agent([text("ok")])
    await agent.send_signal({"type": "reactive", "contents": "mind"}, **T).accepted
    await scene.idle()

    async def shown(hide: Any) -> list[str]:
        reader = agent.subscribe_to_thread(**T, with_initial_history=True, hide_signals=hide)
        return stored(await anext(reader.stream))

    assert [["ok"], ["ok"], ["mind", "ok"], ["mind", "ok"]] == [
        await shown(hide) for hide in (True, ["system-reminder"], ["state"], None)
    ]


async def test_a_context_says_whose_thread_is_read(scene: ThreadScene) -> None:
    """Who serves many users names thread and resource there; the arguments don't count then."""
    agent = scene.agent([text("mine")], [text("yours")])
    mine = {"mastra__resourceId": "r", "mastra__threadId": "t", "more": 1}
    for target in (T, {"thread_id": "t2", "resource_id": "r2"}):
        await (await agent.send_message("hi", **target).accepted).output.wait()
    await scene.idle()

    reader = await agent.subscribe_to_thread(
        thread_id="t2", resource_id="r2", with_initial_history=True, request_context=mine
    )
    plain = await agent.subscribe_to_thread(**T, with_initial_history=True, request_context={})
    seen = [stored(await anext(one.stream)) for one in (reader, plain)]
    reader.unsubscribe()
    plain.unsubscribe()

    assert [["hi", "mine"]] * 2 == seen


@pytest.mark.parametrize(
    "context", ["text", 3, {"mastra__resourceId": 3}, {"mastra__threadId": ["t"]}]
)
async def test_a_context_that_is_none_is_refused(scene: ThreadScene, context: Any) -> None:
    """Nobody subscribes."""
    agent = scene.agent()

    with pytest.raises(RunArgumentError):
        agent.subscribe_to_thread(**T, request_context=context)

    assert [] == scene.mastra.threads.known_threads()


@pytest.mark.parametrize("wanted", [3, {"per_page": 0}, {"page": 1}, {"per_page": True}, "all"])
async def test_a_malformed_wish_for_history_is_refused(scene: ThreadScene, wanted: Any) -> None:
    """Nobody subscribes."""
    agent = scene.agent()

    with pytest.raises(RunArgumentError):
        agent.subscribe_to_thread(**T, with_initial_history=wanted)

    assert [] == scene.mastra.threads.known_threads()


async def test_a_reader_that_sleeps_too_long_is_told_what_it_missed(scene: ThreadScene) -> None:
    """Instead of the oldest runs it gets one error that says so; the newest follow."""
    subscription = ThreadSubscription(
        hide_signals=None,
        active_run_id=lambda: None,
        abort=lambda **_: False,
        unsubscribe=lambda _: None,
    )
    for number in range(MAX_WAITING_RUNS + 2):
        subscription.add_run(str(number), _closed({"type": "data-n", "data": number}))

    stream = subscription.stream
    gap, following = await anext(stream), await anext(stream)

    assert ("error", "MASTRA_PUBSUB_STREAM_GAP") == (gap["type"], gap["payload"]["error"]["code"])
    assert 2 == following["data"]


async def test_chunks_that_are_gone_end_the_run_with_a_gap(scene: ThreadScene) -> None:
    """A reader that came too late for a long run is told, and reads the next one."""
    long = ChunkBuffer(limit=4)
    for number in range(9):
        long.append({"type": "data-n", "data": number})
    subscription = ThreadSubscription(
        hide_signals=None,
        active_run_id=lambda: None,
        abort=lambda **_: False,
        unsubscribe=lambda _: None,
    )
    subscription.add_run("long", long)
    subscription.add_run("next", _closed({"type": "abort"}))

    seen = await until(subscription.stream, "abort")

    assert ["error", "abort"] == kinds(seen)


@case("signals", 93)
async def test_a_hundred_readers_get_the_same(scene: ThreadScene) -> None:
    """Those that read late get everything, too."""
    agent = scene.agent(waiting("g", "all"))
    readers = [agent.subscribe_to_thread(**T) for _ in range(100)]
    await agent.send_message("go", **T).accepted
    await scene.reached("g")
    eager = [asyncio.ensure_future(until(r.stream, "finish")) for r in readers[:50]]
    await asyncio.sleep(0)
    scene.gates.open("g")
    await scene.idle()

    seen = [await reader for reader in eager]
    seen += [await until(reader.stream, "finish") for reader in readers[50:]]

    assert all(seen[0] == one for one in seen)
    assert "all still" == said(seen[0])


async def test_an_echo_carries_the_id_of_its_message(scene: ThreadScene) -> None:
    """Also at its outside, where readers look for the message of a chunk (5)."""
    agent = scene.agent([text("ok")])
    subscription = agent.subscribe_to_thread(**T)
    sent = agent.send_message("hi", **T)
    await sent.accepted

    async for chunk in subscription.stream:
        if chunk["type"] == "data-user-message":
            break

    assert [sent.signal.id] * 2 == [chunk["messageId"], chunk["data"]["id"]]
