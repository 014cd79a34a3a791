"""Turns of their own: order, counts, cancelling, limits (signals.md 7.4, 8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra
from mastra_core.errors import (
    ConfigError,
    ForeignRunError,
    InvalidSignalError,
    RunArgumentError,
    SignalError,
    SignalQueueFullError,
)
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_core.testing.thread_scene import ThreadScene, waiting
from mastra_core.threads.queues import QueueLimits
from mastra_core.wire.signals import Signal

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}


async def busy(scene: ThreadScene, *more: Any, **options: Any) -> Agent:
    """An agent whose first run stands at gate ``g``, and what its model says afterwards."""
    agent = scene.agent(waiting("g"), *more, **options)
    await agent.send_message("go", **T).accepted
    await scene.reached("g")
    return agent


@case("signals", 50)
async def test_a_queued_message_gets_the_run_that_was_announced(scene: ThreadScene) -> None:
    """It is not in the active run; its own has the id that the sender was told."""
    agent = await busy(scene, [text("later answer")])
    active = agent.get_active_thread_run_id(**T)
    subscription = agent.subscribe_to_thread(**T)
    accepted = await agent.queue_message("later", **T).accepted

    scene.gates.open("g")
    await scene.idle()

    assert ("deliver", ["Busy still", "later answer"]) == (accepted.action, await scene.answers())
    assert "later" not in scene.prompt(0)
    said: dict[str, str] = {}
    async for chunk in subscription.stream:
        run_id = chunk["runId"]
        if chunk["type"] == "text-delta":
            said[run_id] = said.get(run_id, "") + chunk["payload"]["text"]
        if chunk["type"] == "finish" and run_id == accepted.run_id:
            break
    assert {active: "Busy still", accepted.run_id: "later answer"} == said


@case("signals", 51)
async def test_a_sent_message_overtakes_a_queued_one(scene: ThreadScene) -> None:
    """What was sent is answered inside the run, what was queued after it."""
    agent = await busy(scene, [text("to sent")], [text("to queued")])
    await agent.queue_message("queued", **T).accepted
    await agent.send_message("sent", **T).accepted

    scene.gates.open("g")
    await scene.idle()

    assert ["Busy still", "to sent", "to queued"] == await scene.answers()
    assert ("sent" in scene.prompt(1), "queued" in scene.prompt(1)) == (True, False)


@case("signals", 52)
async def test_a_queued_message_wakes_an_idle_thread(scene: ThreadScene) -> None:
    """Then the attributes of the idle branch are its own."""
    agent = scene.agent([text("awake")])

    sent = agent.queue_message("hi", **T, if_idle={"attributes": {"from": "me"}})
    action = (await sent.accepted).action
    await scene.idle()

    assert ("wake", {"from": "me"}) == (action, sent.signal.attributes)


@case("signals", 53)
async def test_a_queued_signal_keeps_its_type_and_tag(scene: ThreadScene) -> None:
    """The model sees the element of its own name; the idle branch doesn't count."""
    agent = await busy(scene, [text("ok")])
    signal = {
        "type": "reactive",
        "tagName": "skill",
        "attributes": {"name": "sql"},
        "contents": "x",
    }
    await agent.queue_signal(signal, **T, if_idle={"attributes": {"no": 1}}).accepted

    scene.gates.open("g")
    await scene.idle()

    assert '<skill name="sql">x</skill>' in scene.prompt(1)


@case("signals", 54)
async def test_queued_turns_run_in_order_one_at_a_time(scene: ThreadScene) -> None:
    """The second starts when the first has ended."""
    agent = await busy(scene, waiting("first", "one"), [text("two")])
    for words in ("q1", "q2"):
        await agent.queue_message(words, **T).accepted

    scene.gates.open("g")
    await scene.reached("first")
    before = len(scene.models["a"].requests)
    scene.gates.open("first")
    await scene.idle()

    assert (2, ["Busy still", "one still", "two"]) == (before, await scene.answers())


@case("signals", 56)
async def test_a_listener_that_raises_hurts_nobody(scene: ThreadScene) -> None:
    """The others still hear of every count; one that left hears nothing more."""
    agent = await busy(scene, [text("ok")])
    counts: list[int] = []
    left: list[int] = []

    def fail(event: Mapping[str, Any]) -> None:
        raise RuntimeError(event["type"])

    agent.subscribe_thread_events(fail, **T)
    agent.subscribe_thread_events(lambda event: counts.append(event["count"]), **T)
    leave = agent.subscribe_thread_events(lambda event: left.append(event["count"]), **T)
    leave()
    leave()

    await agent.queue_message("q", **T).accepted
    scene.gates.open("g")
    await scene.idle()

    assert ([0, 1, 0], [0]) == (counts, left)


async def test_what_waits_behind_another_agent_is_counted(scene: ThreadScene) -> None:
    """A wake that has to wait is a turn like others, but nobody's own."""
    await busy(scene)
    other = scene.agent([text("ok")], agent_id="b")
    all_turns: list[int] = []
    own: list[int] = []
    other.subscribe_thread_events(lambda event: all_turns.append(event["count"]), **T)
    other.subscribe_thread_events(lambda event: own.append(event["count"]), **T, queue_owner_id="o")

    await other.send_message("hello", **T).accepted
    scene.gates.open("g")
    await scene.idle()

    assert ([0, 1, 0], [0]) == (all_turns, own)


@case("signals", 58)
async def test_a_cancelled_turn_never_runs(scene: ThreadScene) -> None:
    """Its id is given once; what it was promised stays as it was."""
    agent = await busy(scene, [text("other")])
    counts: list[int] = []
    agent.subscribe_thread_events(lambda event: counts.append(event["count"]), **T)
    sent = agent.queue_message("gone", **T)
    await agent.queue_message("stays", **T).accepted

    first = agent.cancel_queued_messages(**T, signal_ids=[sent.signal.id, sent.signal.id])
    second = agent.cancel_queued_messages(**T, signal_ids=[sent.signal.id])
    scene.gates.open("g")
    await scene.idle()

    assert ([sent.signal.id], []) == (first, second)
    assert [0, 1, 2, 1, 0] == counts
    assert ["Busy still", "other"] == await scene.answers()
    assert "gone" not in str([row.content for row in await scene.rows()])
    assert "deliver" == (await sent.accepted).action


async def test_a_turn_can_be_cancelled_until_it_is_handed_off(
    scene: ThreadScene, mastra: Mastra, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told that it is gone never sees an answer to it."""
    agent = await busy(scene)
    sent = agent.queue_message("two", **T)
    await sent.accepted
    cancelled: list[str] = []
    turns = mastra.threads._turns
    start = turns._start_queued

    async def late(*args: Any) -> None:
        cancelled.extend(agent.cancel_queued_messages(**T, signal_ids=[sent.signal.id]))
        await start(*args)

    monkeypatch.setattr(turns, "_start_queued", late)
    scene.gates.open("g")
    await scene.idle()

    assert [sent.signal.id] == cancelled
    assert 1 == len(scene.models["a"].requests)


@case("signals", 59)
async def test_a_signal_that_is_cancelled_before_the_drain_is_never_seen(
    scene: ThreadScene,
) -> None:
    """The run ends as if nothing had been sent."""
    agent = await busy(scene)
    sent = agent.send_message("never mind", **T)

    cancelled = agent.cancel_queued_messages(**T, signal_ids=[sent.signal.id])
    scene.gates.open("g")
    await scene.idle()

    assert ([sent.signal.id], 1) == (cancelled, len(scene.models["a"].requests))


async def test_a_signal_can_be_cancelled_while_it_is_looked_up(scene: ThreadScene) -> None:
    """One that brings its id is not in a queue yet; it is dropped when it would enter one."""
    agent = await busy(scene)
    sent = agent.send_signal({"id": "mine", "type": "user", "contents": "no"}, **T)

    cancelled = agent.cancel_queued_messages(**T, signal_ids=["mine"])
    action = (await sent.accepted).action
    scene.gates.open("g")
    await scene.idle()

    assert ([], "discard", 1) == (cancelled, action, len(scene.models["a"].requests))


@case("signals", 61)
async def test_an_owner_cancels_only_its_own(scene: ThreadScene) -> None:
    """Other owners' turns and those of other agents stay."""
    agent = await busy(scene, [text("ok")], [text("ok")])
    other = scene.agent([text("ok")], agent_id="b")
    mine = agent.queue_message("mine", **T, queue_owner_id="o")
    await agent.queue_message("theirs", **T, queue_owner_id="p").accepted
    await agent.queue_message("nobody's", **T).accepted
    await other.queue_message("another agent's", **T, queue_owner_id="o").accepted

    cancelled = agent.cancel_queued_messages(**T, queue_owner_id="o")
    scene.gates.open("g")
    await scene.idle()

    assert [mine.signal.id] == cancelled
    stored = str([row.content for row in await scene.rows()])
    assert [False, True, True, True] == [
        words in stored for words in ("'mine'", "theirs", "nobody's", "another agent's")
    ]


@case("signals", 57)
@pytest.mark.parametrize("selectors", [{}, {"signal_ids": ["a"], "queue_owner_id": "o"}])
async def test_cancelling_needs_one_selector(scene: ThreadScene, selectors: dict[str, Any]) -> None:
    """Both and neither are refused with the same words."""
    agent = scene.agent()

    with pytest.raises(
        RunArgumentError,
        match="cancelQueuedMessages requires exactly one of signalIds or queueOwnerId",
    ):
        agent.cancel_queued_messages(**T, **selectors)


@case("signals", 65)
async def test_a_continuation_comes_after_pending_input_and_before_queued_turns(
    scene: ThreadScene,
) -> None:
    """Whatever was asked for first."""
    agent = await busy(scene, [text("to pending")], [text("continued")], [text("to queued")])
    await agent.queue_message("queued", **T).accepted
    started = agent.continue_with_messages("go on", **T)
    await agent.send_message("pending", **T).accepted

    scene.gates.open("g")
    await scene.idle()

    assert ["Busy still", "to pending", "continued", "to queued"] == await scene.answers()
    assert started["accepted"]
    assert isinstance(started["runId"], str)


@case("signals", 74)
async def test_continuations_survive_an_abort_with_clear(scene: ThreadScene) -> None:
    """The rest is gone."""
    agent = await busy(scene, [text("continued")])
    await agent.queue_message("queued", **T).accepted
    agent.continue_with_messages("go on", **T)

    agent.abort_thread_stream(**T, clear_pending_signals=True)
    await scene.idle()

    assert 2 == len(scene.models["a"].requests)
    assert "go on" in scene.prompt(1)


async def test_a_continuation_of_an_idle_thread_starts_at_once(scene: ThreadScene) -> None:
    """Under the id that the caller chose."""
    agent = scene.agent([text("continued")])

    started = agent.continue_with_messages("go on", **T, run_id="mine")
    active = agent.list_active_thread_runs()
    await scene.idle()

    assert ({"accepted": True, "runId": "mine"}, ["continued"]) == (started, await scene.answers())
    assert [{"run_id": "mine", **T}] == active
    assert [] == agent.list_active_thread_runs()


@case("signals", 67)
async def test_an_abort_with_clear_leaves_nothing_to_do(scene: ThreadScene) -> None:
    """Listeners see 0; a later message wakes the thread as usual."""
    agent = await busy(scene, [text("later")])
    counts: list[int] = []
    agent.subscribe_thread_events(lambda event: counts.append(event["count"]), **T)
    await agent.send_message("pending", **T).accepted
    await agent.queue_message("queued", **T).accepted

    aborted = agent.abort_thread_stream(**T, clear_pending_signals=True)
    await scene.idle()
    requests = len(scene.models["a"].requests)
    accepted = await agent.send_message("again", **T).accepted
    await scene.idle()

    assert (True, 1, "wake", [0, 1, 0]) == (aborted, requests, accepted.action, counts)
    assert "pending" not in scene.prompt(1)


async def test_a_run_can_be_aborted_by_its_id(scene: ThreadScene) -> None:
    """Also before it begins; not by another agent."""
    agent = await busy(scene, [text("never")])
    run_id = agent.get_active_thread_run_id(**T)
    assert run_id is not None
    other = scene.agent(agent_id="b")

    with pytest.raises(ForeignRunError):
        other.abort_run_stream(run_id)
    aborted = agent.abort_run_stream(run_id)
    await scene.idle()
    unknown = agent.abort_run_stream("to come")
    late = await agent.stream("hi", run_id="to come", **T)
    await late.wait()

    assert (True, False, "aborted") == (aborted, unknown, await late.finish_reason)
    assert 1 == len(scene.models["a"].requests)


# -- limits -------------------------------------------------------------------------------------


@pytest.fixture
async def limited(request: pytest.FixtureRequest) -> AsyncIterator[ThreadScene]:
    """A scene whose application lets only so much wait."""
    async with Mastra(storage="memory:", threads=request.param) as mastra:
        yield ThreadScene(mastra)


@case("signals", 139)
@pytest.mark.parametrize("limited", [{"max_waiting_signals": 2}], indirect=True)
@pytest.mark.parametrize("way", ["send_message", "queue_message"])
async def test_a_full_queue_refuses_the_next_signal(limited: ThreadScene, way: str) -> None:
    """The earlier ones aren't affected; when there is room again, input is taken again."""
    scene = limited
    agent = await busy(scene, *[[text("ok")]] * 4)
    send = getattr(agent, way)
    for words in ("one", "two"):
        await send(words, **T).accepted

    refused = send("three", **T)
    with pytest.raises(SignalQueueFullError) as caught:
        await refused.accepted
    scene.gates.open("g")
    await scene.idle()
    accepted = await send("four", **T).accepted
    await scene.idle()

    assert (429, "wake") == (caught.value.http_status, accepted.action)
    stored = str([row.content for row in await scene.rows()])
    assert [True, True, False, True] == [
        words in stored for words in ("one", "two", "three", "four")
    ]


@pytest.mark.parametrize(
    "limited",
    [
        {"max_waiting_bytes": 2000},
        {"max_waiting_signals_in_all": 1},
        {"max_waiting_bytes_in_all": 2000},
    ],
    indirect=True,
)
async def test_size_and_sum_are_limited_too(limited: ThreadScene) -> None:
    """Nothing of the refused signal is queued."""
    scene = limited
    agent = await busy(scene)
    await agent.send_message("small", **T).accepted

    with pytest.raises(SignalQueueFullError):
        await agent.send_message("x" * 2000, **T).accepted

    assert agent.cancel_queued_messages(**T, signal_ids=["none"]) == []
    agent.abort_thread_stream(**T, clear_pending_signals=True)
    await scene.idle()


@pytest.mark.parametrize("limited", [{"max_waiting_signals": 1}], indirect=True)
async def test_a_cancelled_signal_makes_room(limited: ThreadScene) -> None:
    """Each way out of the queue is counted."""
    scene = limited
    agent = await busy(scene, [text("ok")])

    for way in (agent.send_message, agent.queue_message):
        sent = way("x", **T)
        await sent.accepted
        agent.cancel_queued_messages(**T, signal_ids=[sent.signal.id])
    agent.abort_thread_stream(**T, clear_pending_signals=True)
    await scene.idle()
    accepted = await agent.send_message("fits", **T).accepted
    await scene.idle()

    assert "wake" == accepted.action


@pytest.mark.parametrize("limit", [0, -1, True, "many"])
def test_a_limit_is_a_positive_number(limit: Any) -> None:
    """Others are refused at construction."""
    with pytest.raises(ConfigError, match="positive number"):
        QueueLimits(signals=limit)
    with pytest.raises(ConfigError, match="positive number"):
        Mastra(storage="memory:", threads={"max_waiting_bytes": limit})


# -- bad input ----------------------------------------------------------------------------------


async def test_malformed_calls_are_refused(scene: ThreadScene) -> None:
    """Nothing is queued."""
    agent = Agent(id="x", model=ScriptedModel([]))
    scene.mastra.add_agent(agent)

    with pytest.raises(SignalError, match="resourceId and threadId are required to queue"):
        agent.queue_message("x", thread_id="t")
    with pytest.raises(InvalidSignalError):
        agent.queue_signal("text", **T)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(InvalidSignalError, match="Invalid signal type"):
        agent.queue_signal({"type": "foo", "contents": "x"}, **T)
    with pytest.raises(RunArgumentError):
        agent.queue_message("x", **T, queue_owner_id=3)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(RunArgumentError):
        agent.cancel_queued_messages(**T, signal_ids="abc")
    with pytest.raises(RunArgumentError):
        agent.subscribe_thread_events("no function", **T)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(RunArgumentError):
        agent.continue_with_messages("x", **T, unknown=1)

    assert [] == scene.mastra.threads.known_threads()


async def test_runs_behind_a_run_inherit_what_was_said_about_it(scene: ThreadScene) -> None:
    """Its options, but not its abort signal; a turn with options of its own has those alone."""
    stop = asyncio.Event()
    seen: list[str] = []
    agent = scene.agent(waiting("g"), [text("follow-up")], [text("turn")], [text("own")])
    output = await agent.stream(
        "go",
        **T,
        instructions="Be brief.",
        model_settings={"temperature": 0.5},
        request_context={"tenant": "x"},
        abort_signal=stop,
        max_steps=1,
        on_finish=lambda facts: seen.append(facts["text"]),
    )
    await scene.reached("g")
    agent.send_message("more", **T)
    agent.queue_message("turn", **T)
    agent.queue_message("own", **T, if_idle={"stream_options": {"instructions": "Be long."}})
    # What it didn't take is answered by a run of its own.
    agent.abort_thread_stream(**T)
    await output.wait()
    stop.set()
    await scene.idle()

    requests = scene.models["a"].requests
    systems = [str(request.prompt[0]["content"]) for request in requests]
    assert ["Be brief."] * 3 + ["Be long."] == systems
    assert [0.5] * 3 == [request.settings.get("temperature") for request in requests[:3]]
    assert ["Busy", "follow-up", "turn"] == seen


async def test_what_was_accepted_in_one_millisecond_keeps_its_order(scene: ThreadScene) -> None:
    """Whoever adopts it may find the later one first: its number tells the order of its sender."""
    agent = scene.agent(waiting("go"), *([text(word)] for word in ("one", "two", "three")))
    first = await agent.stream("x", thread_id="t", resource_id="r")
    await scene.reached("go")
    record = scene.mastra.threads.record("r", "t")
    at = datetime(2026, 1, 1, tzinfo=UTC)

    for number in (3, 1, 2):
        signal = Signal(
            id=f"m{number}", type="user", tag_name="user", contents="x", created_at=at,
            accepted_at=at,
        )  # fmt: skip
        scene.mastra.threads.queue_turn(
            record, agent.turns, signal, run_id=None, stream_options={}, number=number
        )
    waiting_turns = [turn.signals[0].id for turn in record.queues.idle]
    scene.gates.open("go")
    await first.wait()
    await scene.idle()

    assert ["m1", "m2", "m3"] == waiting_turns
    rows = [row.id for row in await scene.rows() if row.id.startswith("m")]
    assert ["m1", "m2", "m3"] == rows
