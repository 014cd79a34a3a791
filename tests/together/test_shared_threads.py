"""Two applications on one store share threads (signals.md 17, on one SQLite file)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra, ToolContext
from mastra_core.contracts.model import ModelRequest
from mastra_core.errors import ModelNotFoundError
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text, tool_call
from mastra_core.testing.thread_scene import waiting
from mastra_core.threads.thread_key import thread_key, thread_topic

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}
_DEADLINE = 30.0

OpenSite = Callable[..., Any]


class Site:
    """One application and its agent ``a``."""

    def __init__(self, mastra: Mastra, agent: Agent, model: ScriptedModel) -> None:
        self.mastra = mastra
        self.agent = agent
        self.model = model

    async def idle(self) -> None:
        """Wait until no run of this application goes on."""
        async with asyncio.timeout(_DEADLINE):
            while self.agent.list_active_thread_runs():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)

    async def texts(self) -> list[str]:
        """Everything that is stored, in order."""
        rows = (await self.mastra.storage.memory.list_messages("t")).messages
        return ["".join(p.get("text", "") for p in row.content["parts"]) for row in rows]


@pytest.fixture
async def open_site(tmp_path: Path) -> AsyncIterator[OpenSite]:
    """Open applications on one file; all are closed after the test."""
    async with AsyncExitStack() as stack:

        async def open_one(
            *calls: Any, gates: Gates | None = None, is_heard: bool = True, **options: Any
        ) -> Site:
            model = ScriptedModel(calls, gates=gates)
            agent = Agent(id="a", **{"model": model, **options})
            url = f"file:{tmp_path / 'shared.db'}"
            mastra = Mastra(storage=url, pubsub=url if is_heard else None, agents=[agent])
            await stack.enter_async_context(mastra)
            return Site(mastra, agent, model)

        yield open_one


async def wait_for(condition: Callable[[], Any]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(_DEADLINE):
        while True:
            found = condition()
            if found if not asyncio.iscoroutine(found) else await found:
                return
            await asyncio.sleep(0.02)


@case("signals", 45)
async def test_a_wake_that_cant_be_set_up_leaves_the_thread_free(open_site: OpenSite) -> None:
    """The sender learns it, readers see it, and nobody has the thread's lease."""
    site = await open_site(model="nobody/knows")
    other = await open_site()
    subscription = await site.agent.subscribe_to_thread(**T)
    elsewhere = await other.agent.subscribe_to_thread(**T)
    told: list[Any] = []

    async def note(event: Any) -> None:
        told.append(event.data)

    await other.mastra.pubsub.subscribe(thread_topic("r", "t"), note)

    with pytest.raises(ModelNotFoundError):
        await site.agent.send_message("hi", **T).accepted

    async with asyncio.timeout(_DEADLINE):
        seen = await anext(subscription.stream)
        seen_there = await anext(elsewhere.stream)
    await wait_for(lambda: told)
    assert ("error", "error") == (seen["type"], seen_there["type"])
    assert seen["payload"] == seen_there["payload"]
    assert [("run-failed", seen["runId"])] == [(data["type"], data["runId"]) for data in told]
    assert site.agent.get_active_thread_run_id(**T) is None
    outside = site.mastra.threads.outside
    assert outside is not None

    async def is_free() -> bool:
        return await outside.reach.owner(thread_key("r", "t")) is None

    await wait_for(is_free)


@case("signals", 98)
async def test_who_unsubscribes_is_told_nothing_more_by_the_bus(
    open_site: OpenSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application hears a thread as long as somebody reads it, and not longer."""
    site = await open_site([text("one")])
    heard: list[Any] = []
    pubsub = site.mastra.pubsub
    subscribe, unsubscribe = pubsub.subscribe, pubsub.unsubscribe

    async def noted_subscribe(topic: str, handler: Any, **options: Any) -> Any:
        heard.append((topic, handler))
        return await subscribe(topic, handler, **options)

    async def noted_unsubscribe(topic: str, handler: Any, **options: Any) -> Any:
        heard.remove((topic, handler))
        return await unsubscribe(topic, handler, **options)

    monkeypatch.setattr(pubsub, "subscribe", noted_subscribe)
    monkeypatch.setattr(pubsub, "unsubscribe", noted_unsubscribe)
    subscription = await site.agent.subscribe_to_thread(**T)
    while_read = [topic for topic, _ in heard]

    subscription.unsubscribe()
    rest = [chunk async for chunk in subscription.stream]
    await wait_for(lambda: not heard)

    assert thread_topic("r", "t") in while_read
    assert [] == rest


async def test_a_message_joins_the_run_of_another_application(open_site: OpenSite) -> None:
    """The run that goes on there answers it."""
    gates = Gates()
    owner = await open_site(waiting("g", "first"), [text("both")], gates=gates)
    other = await open_site([text("wrong")])
    run_id = (await owner.agent.send_message("go", **T).accepted).run_id
    await gates.reached("g")

    accepted = await other.agent.send_message("more", **T).accepted
    gates.open("g")
    await owner.idle()

    assert ("deliver", run_id, []) == (accepted.action, accepted.run_id, other.model.requests)
    assert "more" in str(owner.model.requests[1].prompt)


async def test_a_queued_message_gets_its_own_run_there(open_site: OpenSite) -> None:
    """It doesn't join the loop that goes on (G11)."""
    gates = Gates()
    owner = await open_site(waiting("g", "first"), [text("to queued")], gates=gates)
    other = await open_site([text("wrong")])
    await owner.agent.send_message("go", **T).accepted
    await gates.reached("g")

    accepted = await other.agent.queue_message("later", **T).accepted
    gates.open("g")
    await wait_for(lambda: len(owner.model.requests) == 2)
    await owner.idle()

    assert "deliver" == accepted.action
    assert ["go", "first still", "later", "to queued"] == await owner.texts()
    assert [] == other.model.requests


async def test_what_waits_in_the_inbox_is_answered_once(open_site: OpenSite) -> None:
    """Without a bus the owner finds it when its run has ended; nobody reads the thread."""
    gates = Gates()
    owner = await open_site(waiting("g"), [text("found")], gates=gates, is_heard=False)
    other = await open_site(is_heard=False)
    await owner.agent.send_message("go", **T).accepted
    await gates.reached("g")
    await other.agent.send_message("more", **T).accepted

    gates.open("g")
    await wait_for(lambda: len(owner.model.requests) == 2)
    outside = owner.mastra.threads.outside
    assert outside is not None

    async def is_free() -> bool:
        return await outside.reach.owner(thread_key("r", "t")) is None

    await wait_for(is_free)

    assert ["go", "Busy still", "more", "found"] == await owner.texts()
    assert (2, 0) == (len(owner.model.requests), len(other.model.requests))


@case("signals", 60)
async def test_a_cancellation_is_told_to_everybody(open_site: OpenSite) -> None:
    """Also one of an id that nobody here knows; whoever has the signal drops it."""
    gates = Gates()
    owner = await open_site(waiting("g", "first"), [text("wrong")], gates=gates)
    other = await open_site()
    told: list[list[str]] = []

    async def note(event: Any) -> None:
        if event.data["type"] == "signals-cancelled":
            told.append(event.data["signalIds"])

    pubsub = other.mastra.pubsub
    await pubsub.subscribe(thread_topic("r", "t"), note)
    await owner.agent.send_message("go", **T).accepted
    await gates.reached("g")
    sent = other.agent.send_message("never mind", **T)
    await sent.accepted

    cancelled = other.agent.cancel_queued_messages(**T, signal_ids=["unknown", sent.signal.id])
    await wait_for(lambda: ["unknown", sent.signal.id] in told)
    await wait_for(lambda: not owner.mastra.threads.record("r", "t").queues.pending)
    gates.open("g")
    await owner.idle()

    assert ([], 1) == (cancelled, len(owner.model.requests))
    assert "never mind" not in await owner.texts()


async def test_follow_ups_and_continuations_go_on_in_the_owner(open_site: OpenSite) -> None:
    """What came too late for an aborted run is answered together, then the conversation goes on."""
    gates = Gates()
    owner = await open_site(waiting("g", "first"), [text("both")], [text("continued")], gates=gates)
    other = await open_site()
    await owner.agent.send_message("go", **T).accepted
    await gates.reached("g")
    for words in ("one", "two"):
        await other.agent.send_message(words, **T).accepted
    owner.agent.continue_with_messages("on", **T)

    owner.agent.abort_thread_stream(**T)
    await wait_for(lambda: len(owner.model.requests) == 3)
    await owner.idle()

    assert all(words in str(owner.model.requests[1].prompt) for words in ("one", "two"))
    assert "continued" == (await owner.texts())[-1]


@case("signals", 21)
async def test_bytes_are_the_same_text_wherever_they_go(open_site: OpenSite) -> None:
    """In the row, in the echo, and in what the other application is told."""
    gates = Gates()
    owner = await open_site(waiting("g"), [text("seen")], gates=gates)
    other = await open_site()
    told: list[Any] = []

    async def note(event: Any) -> None:
        if event.data["type"] == "signal-enqueued":
            told.append(event.data["signal"]["contents"])

    await other.mastra.pubsub.subscribe(thread_topic("r", "t"), note)
    subscription = await owner.agent.subscribe_to_thread(**T)
    await owner.agent.send_message("go", **T).accepted
    await gates.reached("g")
    part = {"type": "file", "data": b"\x00\xff", "mediaType": "x/y"}
    sent = other.agent.send_message([part], **T)
    await sent.accepted
    gates.open("g")
    await wait_for(lambda: told)
    await owner.idle()

    echoes = []
    async with asyncio.timeout(_DEADLINE):
        async for chunk in subscription.stream:
            if chunk["type"] == "data-user-message":
                echoes.append(chunk["data"]["contents"])
            if len(echoes) == 2:
                break
    rows = (await owner.mastra.storage.memory.list_messages("t")).messages
    (stored,) = [row.content["parts"] for row in rows if row.id == sent.signal.id]
    assert ["AP8="] * 3 == [found[0]["data"] for found in (stored, echoes[1], told[0])]


async def test_a_turn_can_be_taken_back_until_its_run_is_set_up(
    open_site: OpenSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits for the lease it counts, and its cancellation names it (8.3, 8.4)."""
    gates = Gates()
    site = await open_site(waiting("g"), [text("never")], gates=gates)
    outside = site.mastra.threads.outside
    assert outside is not None
    asked, go_on = asyncio.Event(), asyncio.Event()
    take = outside.reach.take

    async def slow_take(key: str, run_id: str, *, is_known: bool) -> str | None:
        if run_id == queued.run_id:
            asked.set()
            await go_on.wait()
        return await take(key, run_id, is_known=is_known)

    first = await site.agent.send_message("go", **T).accepted
    sent = site.agent.queue_message("its own", **T)
    queued = await sent.accepted
    monkeypatch.setattr(outside.reach, "take", slow_take)
    counts: list[int] = []
    site.agent.subscribe_thread_events(lambda event: counts.append(event["count"]), **T)
    gates.open("g")
    async with asyncio.timeout(_DEADLINE):
        await first.output.wait()
        await asked.wait()

    gone = site.agent.cancel_queued_messages(**T, signal_ids=[sent.signal.id])
    again = site.agent.cancel_queued_messages(**T, signal_ids=[sent.signal.id])
    go_on.set()
    await site.idle()

    async def is_over() -> bool:
        return not await outside.reach.waiting(thread_key("r", "t")) and (
            await outside.reach.owner(thread_key("r", "t")) is None
        )

    await wait_for(is_over)
    assert ([sent.signal.id], []) == (gone, again)
    assert [1, 0] == counts
    assert 1 == len(site.model.requests)


async def test_a_wake_that_is_taken_back_starts_nothing(
    open_site: OpenSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sender learns that it was dropped; the thread is free, and nothing waits."""
    site = await open_site([text("never")])
    outside = site.mastra.threads.outside
    assert outside is not None
    asked, go_on = asyncio.Event(), asyncio.Event()
    take = outside.reach.take

    async def slow_take(key: str, run_id: str, *, is_known: bool) -> str | None:
        asked.set()
        await go_on.wait()
        return await take(key, run_id, is_known=is_known)

    monkeypatch.setattr(outside.reach, "take", slow_take)
    sent = site.agent.send_message("go", **T)
    async with asyncio.timeout(_DEADLINE):
        await asked.wait()
    site.agent.cancel_queued_messages(**T, signal_ids=[sent.signal.id])
    go_on.set()
    async with asyncio.timeout(_DEADLINE):
        accepted = await sent.accepted
    await site.idle()

    async def is_over() -> bool:
        return not await outside.reach.waiting(thread_key("r", "t")) and (
            await outside.reach.owner(thread_key("r", "t")) is None
        )

    await wait_for(is_over)
    assert ("discard", []) == (accepted.action, site.model.requests)


async def test_two_applications_answer_a_run_in_turn(open_site: OpenSite) -> None:
    """Each approval goes to the other one, at once after the last: nobody writes as of before."""
    paid: list[int] = []

    async def pay(args: Any, context: ToolContext) -> str:
        paid.append(args["number"])
        return "paid"

    def more(request: ModelRequest) -> list[Any]:
        number = sum(turn["role"] == "tool" for turn in request.prompt)
        done = number == 4
        return [text("end") if done else tool_call("pay", {"number": number}, id=f"c{number}")]

    tool = FunctionTool(id="pay", execute=pay, require_approval=True)
    first, second = [await open_site(*[more] * 5, tools=[tool]) for _ in range(2)]
    output = await first.agent.stream("go", **T)
    await output.wait()
    run_id, statuses = output.run_id, []
    for number, site in enumerate((second, first, second, first)):
        output = await site.agent.approve_tool_call(run_id, tool_call_id=f"c{number}")
        await output.wait()
        statuses.append(output.status)

    rows = (await first.mastra.storage.memory.list_messages("t")).messages
    states = [
        part["toolInvocation"]["state"]
        for row in rows
        for part in row.content["parts"]
        if part["type"] == "tool-invocation"
    ]
    assert ["suspended"] * 3 + ["success"] == statuses
    assert [0, 1, 2, 3] == paid
    assert ["result"] * 4 == states
