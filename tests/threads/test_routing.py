"""What happens to a signal: wake, deliver, persist, discard, block (signals.md 7)."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, FunctionTool, Mastra
from mastra_core.errors import ModelNotFoundError, SignalError, SignalPersistUnavailableError
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.faults import faulty_storage
from mastra_core.testing.scripted_model import ScriptedModel, text, tool_call
from mastra_core.testing.thread_scene import ThreadScene, waiting

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}
ECHOES = {"data-user-message"}


@case("signals", 31)
async def test_a_message_wakes_an_idle_thread(scene: ThreadScene) -> None:
    """The run is the one that was announced; its echo precedes the request."""
    agent = scene.agent([text("hello")])

    accepted = await agent.send_message("hi", **T).accepted
    types = [chunk["type"] async for chunk in accepted.output.full_stream]

    assert ("wake", accepted.output.run_id) == (accepted.action, accepted.run_id)
    assert ["start", "data-user-message", "step-start"] == types[:3]


@case("signals", 32)
async def test_two_messages_at_once_are_one_run(scene: ThreadScene) -> None:
    """The second joins the first request."""
    agent = scene.agent([text("hello")])

    one, two = agent.send_message("first", **T), agent.send_message("second", **T)
    first, second = await one.accepted, await two.accepted
    await scene.idle()

    assert ("wake", "deliver") == (first.action, second.action)
    assert first.run_id == second.run_id
    assert len(scene.models["a"].requests) == 1
    assert "first" in scene.prompt(0)
    assert "second" in scene.prompt(0)


@case("signals", 33, 76)
async def test_a_signal_to_a_running_run_is_answered_by_it(scene: ThreadScene) -> None:
    """The text so far is a message of its own; one more request follows."""
    agent = scene.agent(waiting("g"), [text("Seen")])
    woken = await agent.send_message("start", **T).accepted
    await scene.gates.reached("g")

    accepted = await agent.send_signal({"type": "reactive", "contents": "hurry"}, **T).accepted
    scene.gates.open("g")
    await scene.idle()

    assert ("deliver", woken.run_id) == (accepted.action, accepted.run_id)
    assert "<system-reminder>hurry</system-reminder>" in scene.prompt(1)
    rows = await scene.rows()
    assert ["signal", "assistant", "signal", "assistant"] == [row.role for row in rows]
    assert "Busy still" == rows[1].content["content"]


@case("signals", 34)
async def test_persist_while_active_stores_without_telling_the_run(scene: ThreadScene) -> None:
    """No echo; the prompts of the run are unaffected."""
    agent = scene.agent(waiting("g"))
    woken = await agent.send_message("start", **T).accepted
    await scene.gates.reached("g")

    result = agent.send_message("note", **T, if_active={"behavior": "persist"})
    accepted = await result.accepted
    assert result.persisted is not None
    await result.persisted
    stored = [row.id for row in await scene.rows()]
    scene.gates.open("g")
    echoes = [chunk async for chunk in woken.output.full_stream if chunk["type"] in ECHOES]
    await scene.idle()

    assert "persist" == accepted.action
    assert result.signal.id in stored
    assert len(scene.models["a"].requests) == 1
    assert "note" not in scene.prompt(0)
    assert "note" not in str(echoes)
    assert 1 == len(echoes)


@case("signals", 35, 37)
async def test_discard_stores_nothing(scene: ThreadScene) -> None:
    """Active or idle."""
    agent = scene.agent(waiting("g"))
    idle = await agent.send_message("no", **T, if_idle={"behavior": "discard"}).accepted
    woken = await agent.send_message("start", **T).accepted
    await scene.gates.reached("g")

    active = await agent.send_message("no", **T, if_active={"behavior": "discard"}).accepted
    scene.gates.open("g")
    echoes = [chunk async for chunk in woken.output.full_stream if chunk["type"] in ECHOES]
    await scene.idle()

    assert ("discard", "discard") == (idle.action, active.action)
    assert 1 == len(echoes)
    assert "no" not in [str(row.content["parts"][0].get("text")) for row in await scene.rows()]


@case("signals", 36)
async def test_persist_on_an_idle_thread_shows_readers_a_synthetic_run(scene: ThreadScene) -> None:
    """start, echo, finish; the model isn't asked."""
    agent = scene.agent([text("never")])
    subscription = agent.subscribe_to_thread(**T)

    result = agent.send_message("stored", **T, if_idle={"behavior": "persist"})
    assert result.persisted is not None
    await result.persisted
    seen = []
    async for chunk in subscription.stream:
        seen.append(chunk)
        if chunk["type"] == "finish":
            break

    assert ["start", "data-user-message", "finish"] == [chunk["type"] for chunk in seen]
    assert f"persisted-signal:{result.signal.id}" == seen[0]["payload"]["messageId"]
    assert [] == scene.models["a"].requests
    assert [result.signal.id] == [row.id for row in await scene.rows()]


@case("signals", 38)
async def test_a_transient_signal_is_not_persisted(scene: ThreadScene) -> None:
    """Persist and transient contradict each other: discarded on both branches."""
    agent = scene.agent(waiting("g"))
    signal = {"type": "reactive", "contents": "x", "transient": True}
    idle = await agent.send_signal(signal, **T, if_idle={"behavior": "persist"}).accepted
    await agent.send_message("start", **T).accepted
    await scene.gates.reached("g")

    active = await agent.send_signal(signal, **T, if_active={"behavior": "persist"}).accepted
    scene.gates.open("g")
    await scene.idle()

    assert ("discard", "discard") == (idle.action, active.action)


@case("signals", 27)
async def test_a_transient_signal_is_shown_once_and_never_stored(scene: ThreadScene) -> None:
    """No row, and the next run's prompt lacks it."""
    agent = scene.agent([text("ok")], [text("ok")])
    await agent.send_signal({"type": "reactive", "contents": "x1", "transient": True}, **T).accepted
    await scene.idle()

    await agent.send_message("next", **T).accepted
    await scene.idle()

    assert "x1" in scene.prompt(0)
    assert "x1" not in scene.prompt(1)
    assert "x1" not in str([row.content for row in await scene.rows()])


@case("signals", 39)
async def test_attributes_of_the_branch_are_merged(scene: ThreadScene) -> None:
    """Idle attributes when idle, active ones when active; own ones keep their place."""
    agent = scene.agent(waiting("g"), [text("ok")])
    branches = {"if_active": {"attributes": {"b": 2}}, "if_idle": {"attributes": {"b": 3}}}
    message = {"contents": "hi", "attributes": {"a": 1}}

    idle = agent.send_message(message, **T, **branches)
    await idle.accepted
    await scene.gates.reached("g")
    active = agent.send_message(message, **T, **branches)
    scene.gates.open("g")
    await scene.idle()

    assert '<user a="1" b="3">hi</user>' in scene.prompt(0)
    assert '<user a="1" b="2">hi</user>' in scene.prompt(1)
    assert {"a": 1, "b": 3} == idle.signal.attributes
    assert {"a": 1, "b": 2} == active.signal.attributes


@case("signals", 40, 94)
async def test_input_behind_another_agents_run_gets_a_run_of_its_own(scene: ThreadScene) -> None:
    """The announced run starts after the other one ended."""
    busy = scene.agent(waiting("g"), agent_id="b")
    agent = scene.agent([text("my turn")])
    subscription = agent.subscribe_to_thread(**T)
    other = await busy.send_message("start", **T).accepted
    await scene.gates.reached("g")

    accepted = await agent.send_message("hi", **T).accepted
    before = len(scene.models["a"].requests)
    scene.gates.open("g")
    await scene.idle()

    order: list[str] = []
    async for chunk in subscription.stream:
        if not order or order[-1] != chunk["runId"]:
            order.append(chunk["runId"])
        if chunk == {**chunk, "type": "finish", "runId": accepted.run_id}:
            break
    assert "deliver" == accepted.action
    assert accepted.run_id != other.run_id
    assert (0, 1) == (before, len(scene.models["a"].requests))
    assert [other.run_id, accepted.run_id] == order


@case("signals", 41)
async def test_a_thread_that_waits_for_another_agents_approval_is_blocked(
    scene: ThreadScene,
) -> None:
    """Nothing is stored."""
    parked = scene.agent([tool_call("go", {})], agent_id="b", tools=[approval_tool()])
    agent = scene.agent([text("never")])
    output = await parked.stream("go", **T)
    await output.wait()

    accepted = await agent.send_message("hi", **T).accepted
    await scene.idle()

    assert ("blocked", output.run_id, "thread-blocked") == (
        accepted.action,
        accepted.run_id,
        accepted.reason,
    )
    assert [] == scene.models["a"].requests


def approval_tool() -> FunctionTool:
    async def go(args: Any, context: Any) -> str:
        return "went"

    return FunctionTool(id="go", execute=go, require_approval=True)


@case("signals", 42)
async def test_input_for_ones_own_parked_run_is_seen_after_the_answer(scene: ThreadScene) -> None:
    """Accepted now, read when the run goes on."""
    agent = scene.agent([tool_call("go", {})], [text("ok")], tools=[approval_tool()])
    output = await agent.stream("go", **T)
    await output.wait()

    accepted = await agent.send_message("while you wait", **T).accepted
    await (await agent.approve_tool_call(output.run_id)).wait()

    assert ("deliver", output.run_id) == (accepted.action, accepted.run_id)
    assert "while you wait" in scene.prompt(1)


@case("signals", 44)
async def test_a_target_is_needed(scene: ThreadScene) -> None:
    """The call itself raises."""
    agent = scene.agent()

    with pytest.raises(SignalError, match="No active agent run found for signal target"):
        agent.send_message("hi")


@case("signals", 46)
async def test_a_wake_that_can_not_start_rejects_and_frees_the_thread(scene: ThreadScene) -> None:
    """And nobody who doesn't look is warned about it."""
    problems: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, facts: problems.append(facts))
    agent = Agent(id="modelless")
    scene.mastra.add_agent(agent)

    with pytest.raises(ModelNotFoundError):
        await agent.send_message("hi", **T).accepted
    agent.send_message("unwatched", **T)
    await scene.idle()
    gc.collect()
    await asyncio.sleep(0)

    assert agent.get_active_thread_run_id(**T) is None
    assert [] == problems


@case("signals", 47)
async def test_a_model_failure_after_the_start_is_on_the_output(scene: ThreadScene) -> None:
    """Acceptance was true; the run failed later."""
    agent = scene.agent([{"type": "throw", "message": "down"}])

    accepted = await agent.send_message("hi", **T).accepted

    assert "wake" == accepted.action
    assert "error" == await accepted.output.finish_reason


@case("signals", 48)
async def test_options_of_the_wake_are_used(scene: ThreadScene) -> None:
    """``max_steps`` bounds the woken run."""
    agent = scene.agent([tool_call("say", {})], [text("never")], tools=[saying_tool()])

    accepted = await agent.send_message(
        "hi", **T, if_idle={"stream_options": {"max_steps": 1}}
    ).accepted
    await accepted.output.wait()

    assert len(scene.models["a"].requests) == 1


def saying_tool() -> FunctionTool:
    async def say(args: Any, context: Any) -> str:
        return "said"

    return FunctionTool(id="say", execute=say)


@case("signals", 49)
async def test_persist_without_memory_rejects(scene: ThreadScene) -> None:
    """Nothing is reported as stored that isn't."""
    agent = scene.agent(memory=False)

    with pytest.raises(SignalPersistUnavailableError):
        await agent.send_message("x", **T, if_idle={"behavior": "persist"}).accepted


@case("signals", 22)
async def test_a_delivered_signal_is_a_row(scene: ThreadScene) -> None:
    """Role, type and identity as peers write them; the id is the signal's."""
    agent = scene.agent([text("ok")])

    result = agent.send_message("hi", **T)
    await result.accepted
    await scene.idle()
    row = (await scene.rows())[0].to_wire()

    identity = row["content"]["metadata"]["signal"]
    assert (result.signal.id, "signal", "user") == (row["id"], row["role"], row["type"])
    assert {"id", "type", "tagName", "createdAt", "acceptedAt"} == set(identity)
    assert row["createdAt"] == identity["createdAt"]
    part = row["content"]["parts"][0]
    assert ("text", "hi", int) == (part["type"], part["text"], type(part["createdAt"]))


@case("signals", 66)
async def test_input_that_an_abort_left_over_is_answered_by_a_new_run(scene: ThreadScene) -> None:
    """The run ends, the queued message starts the next one."""
    agent = scene.agent(waiting("g"), [text("answer")])
    await agent.send_message("start", **T).accepted
    await scene.gates.reached("g")
    await agent.send_message("and this", **T).accepted

    assert agent.abort_thread_stream(**T)
    await scene.idle()

    assert len(scene.models["a"].requests) == 2
    assert "and this" in scene.prompt(1)


@case("signals", 69)
async def test_an_abort_that_clears_leaves_nothing_to_run(scene: ThreadScene) -> None:
    """A later message wakes the thread normally."""
    agent = scene.agent(waiting("g"), [text("fresh")])
    await agent.send_message("start", **T).accepted
    await scene.gates.reached("g")
    await agent.send_message("dropped", **T).accepted

    aborted = agent.abort_thread_stream(**T, clear_pending_signals=True)
    await scene.idle()
    again = agent.abort_thread_stream(**T, clear_pending_signals=True)
    woken = await agent.send_message("later", **T).accepted
    await scene.idle()

    assert (True, False) == (aborted, again)
    assert "wake" == woken.action
    assert "dropped" not in scene.prompt(1)


@case("signals", 68)
async def test_an_abort_of_an_older_run_does_nothing(scene: ThreadScene) -> None:
    """The expected run isn't the active one."""
    agent = scene.agent(waiting("g"), [text("answer")])
    await agent.send_message("start", **T).accepted
    await scene.gates.reached("g")
    await agent.send_message("still there", **T).accepted

    aborted = agent.abort_thread_stream(**T, expected_run_id="older", clear_pending_signals=True)
    scene.gates.open("g")
    await scene.idle()

    assert not aborted
    assert "Busy still" == (await scene.rows())[1].content["content"]
    assert "still there" in scene.prompt(1)


@case("signals", 75)
async def test_a_signal_during_a_tool_waits_for_its_result(scene: ThreadScene) -> None:
    """The tool finishes once; the next request has both."""
    runs: list[int] = []

    async def slow(args: Any, context: Any) -> str:
        runs.append(1)
        await scene.gates.wait("tool")
        return "slow result"

    agent = scene.agent(
        [tool_call("slow", {})], [text("ok")], tools=[FunctionTool(id="slow", execute=slow)]
    )
    await agent.send_message("start", **T).accepted
    await scene.gates.reached("tool")
    agent.send_signal({"type": "reactive", "contents": "hurry up"}, **T)
    scene.gates.open("tool")
    await scene.idle()

    assert [1] == runs
    assert "slow result" in scene.prompt(1)
    assert "hurry up" in scene.prompt(1)


@case("signals", 77)
async def test_a_signal_at_the_last_step_is_stored_without_an_answer(scene: ThreadScene) -> None:
    """Stop conditions come after the last drain."""
    agent = scene.agent(waiting("g"))
    await agent.send_message("start", **T, if_idle={"stream_options": {"max_steps": 1}}).accepted
    await scene.gates.reached("g")
    sent = agent.send_message("late", **T)
    scene.gates.open("g")
    await scene.idle()

    assert len(scene.models["a"].requests) == 1
    assert sent.signal.id in [row.id for row in await scene.rows()]


@case("signals", 91, 92, 93)
async def test_every_reader_of_a_thread_gets_everything(scene: ThreadScene) -> None:
    """One from before, one in mid-run that reads when all is over; each chunk has a run id."""
    agent = scene.agent(waiting("g"))
    early = agent.subscribe_to_thread(**T)
    await agent.send_message("start", **T).accepted
    await scene.gates.reached("g")
    late = agent.subscribe_to_thread(**T)
    scene.gates.open("g")

    async def read(subscription: Any) -> list[dict[str, Any]]:
        seen = []
        async for chunk in subscription.stream:
            seen.append(chunk)
            if chunk["type"] == "finish":
                return seen
        return seen

    first = await read(early)
    await scene.idle()
    second = await read(late)

    assert first == second
    assert ["start", "data-user-message", "step-start"] == [c["type"] for c in first[:3]]
    assert all("runId" in chunk for chunk in first)


@case("streaming", 54)
async def test_an_echo_follows_the_step_that_it_arrived_in(scene: ThreadScene) -> None:
    """The next response message has a new id."""
    agent = scene.agent(waiting("g"), [text("Seen")])
    accepted = await agent.send_message("start", **T).accepted
    await scene.gates.reached("g")
    agent.send_message("more", **T)
    scene.gates.open("g")
    chunks = [chunk async for chunk in accepted.output.full_stream]

    types = [chunk["type"] for chunk in chunks]
    echo = types.index("data-user-message", types.index("step-start"))
    starts = [c["payload"]["messageId"] for c in chunks if c["type"] == "step-start"]
    assert types.index("text-end") < echo < types.index("step-start", echo)
    assert len(set(starts)) == 2


@case("streaming", 55)
async def test_hidden_signals_are_hidden_from_one_caller_only(scene: ThreadScene) -> None:
    """A subscriber sees the echo."""
    agent = scene.agent([text("ok")])
    subscription = agent.subscribe_to_thread(**T)
    accepted = await agent.send_message(
        "hi", **T, if_idle={"stream_options": {"hide_signals": True}}
    ).accepted
    own = [chunk["type"] async for chunk in accepted.output.full_stream]
    seen = []
    async for chunk in subscription.stream:
        seen.append(chunk["type"])
        if chunk["type"] == "finish":
            break

    assert "data-user-message" not in own
    assert "data-user-message" in seen


async def test_a_signal_with_an_id_is_delivered_once(scene: ThreadScene) -> None:
    """Sending it twice, also after it was stored, has one effect (notifications.md S15)."""
    agent = scene.agent([text("ok")])
    signal = {"type": "reactive", "contents": "x", "id": "signal-1"}

    first = agent.send_signal(signal, **T)
    second = agent.send_signal(signal, **T)
    answers = await first.accepted, await second.accepted
    await scene.idle()
    async with Mastra(storage=scene.mastra.storage) as restarted:
        again = Agent(id="a2", model=ScriptedModel([[text("never")]]))
        restarted.add_agent(again)
        third = await again.send_signal(signal, **T).accepted
        await restarted.runs.join()

    assert ["wake", "wake"] == [answer.action for answer in answers]
    assert answers[0].run_id == answers[1].run_id
    assert "deliver" == third.action
    assert ["signal-1"] == [row.id for row in await scene.rows() if row.role == "signal"]
    assert len(scene.models["a"].requests) == 1


@case("signals", 43)
async def test_input_for_another_agents_run_is_blocked(scene: ThreadScene) -> None:
    """Whoever names a run means it, and that one answers to somebody else."""
    holder = scene.agent(waiting("g"), agent_id="a")
    other = scene.agent([text("never")], agent_id="b")
    output = await holder.stream("go", **T)
    async with asyncio.timeout(60):
        await scene.gates.reached("g")

    accepted = await other.send_message("hello", run_id=output.run_id).accepted
    scene.gates.open("g")
    await scene.idle()

    assert ("blocked", output.run_id) == (accepted.action, accepted.run_id)
    assert "thread-blocked" == accepted.reason
    assert [] == scene.models["b"].requests
    assert "hello" not in str([row.content for row in await scene.rows()])


@case("signals", 63)
async def test_what_is_left_over_is_answered_by_one_run_in_order(scene: ThreadScene) -> None:
    """Three signals that the run did not take open one follow-up run together."""
    agent = scene.agent(waiting("g"), [text("all three")])
    await agent.send_message("go", **T).accepted
    async with asyncio.timeout(60):
        await scene.gates.reached("g")
    for words in ("first", "second", "third"):
        await agent.send_message(words, **T).accepted

    agent.abort_thread_stream(**T)
    await scene.idle()

    assert 2 == len(scene.models["a"].requests)
    shown = scene.prompt(1)
    places = [shown.index(words) for words in ("first", "second", "third")]
    assert sorted(places) == places
    answers = [row for row in await scene.rows() if row.role == "assistant"]
    assert ["all three"] == [row.content["parts"][0]["text"] for row in answers[1:]]


@case("signals", 70)
async def test_an_abort_while_a_wake_is_prepared_keeps_the_model_unasked() -> None:
    """The run is reserved and reads its thread; it ends before the request."""
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def hook(point: str) -> None:
        if point == "memory.list_messages:before":
            reading.set()
            await go_on.wait()

    model = ScriptedModel([[text("never")], [text("later")]])
    agent = Agent(id="a", model=model)
    store = faulty_storage(InMemoryStorage(), hook)
    async with Mastra(storage=store, agents=[agent], own=True) as mastra:
        sent = agent.send_message("go", **T)
        async with asyncio.timeout(60):
            await reading.wait()

        was_aborted = agent.abort_thread_stream(**T)
        go_on.set()
        output = (await sent.accepted).output
        reason = await output.finish_reason
        await mastra.runs.join()

        assert (True, "aborted") == (was_aborted, reason)
        assert [] == model.requests
        assert agent.get_active_thread_run_id(**T) is None


@case("signals", 99)
async def test_the_active_run_is_known_from_its_reservation_to_its_end(scene: ThreadScene) -> None:
    """None, its id while it is set up, runs and waits, None."""

    async def act(args: Any, context: Any) -> str:
        return "acted"

    tool = FunctionTool(id="act", execute=act, require_approval=True)
    agent = scene.agent([tool_call("act", {})], [text("done")], tools=[tool])
    seen = [agent.get_active_thread_run_id(**T)]

    sent = agent.send_message("go", **T)
    seen.append(agent.get_active_thread_run_id(**T))
    accepted = await sent.accepted
    seen.append(agent.get_active_thread_run_id(**T))
    await scene.idle()
    seen.append(agent.get_active_thread_run_id(**T))
    assert accepted.run_id is not None
    await (await agent.approve_tool_call(accepted.run_id)).wait()
    await scene.idle()
    seen.append(agent.get_active_thread_run_id(**T))

    assert [None, *[accepted.run_id] * 3, None] == seen


@case("signals", 97)
async def test_readers_of_a_thread_get_no_bodies_and_no_transcripts(scene: ThreadScene) -> None:
    """Request bodies, step lists and messages stay with the caller of the run."""
    agent = scene.agent([tool_call("nothing", {})], [text("done")])
    subscription = agent.subscribe_to_thread(**T)
    output = await agent.stream("go", **T)
    await output.wait()

    seen = []
    async for chunk in subscription.stream:
        seen.append(chunk)
        if chunk["type"] == "finish":
            break

    assert {"step-start", "step-finish", "finish"} <= {chunk["type"] for chunk in seen}
    assert {output.run_id} == {chunk["runId"] for chunk in seen}
    hidden = {"request", "inputMessages", "messages", "steps", "uiMessages", "dbMessages"}
    assert not hidden & set(names_in([chunk.get("payload") for chunk in seen]))


def names_in(value: Any) -> list[str]:
    """The names of all members, however deep."""
    if isinstance(value, dict):
        return [*value, *(name for member in value.values() for name in names_in(member))]
    if isinstance(value, list):
        return [name for item in value for name in names_in(item)]
    return []


async def test_every_decision_is_one_line_of_the_log(
    scene: ThreadScene, caplog: pytest.LogCaptureFixture
) -> None:
    """With signal, thread, action and run; without the words (G18)."""
    caplog.set_level(logging.INFO, logger="mastra_core.threads.sending")
    agent = scene.agent(waiting("g"), [text("next")], memory=False)
    woken = agent.send_message("secret", **T)
    run_id = (await woken.accepted).run_id
    await scene.reached("g")
    sent = [
        woken,
        agent.send_message("secret", **T),
        agent.queue_message("secret", **T),
        agent.send_message("secret", **T, if_active={"behavior": "discard"}),
        agent.send_message("secret", **T, if_active={"behavior": "persist"}),
    ]
    await asyncio.gather(*(one.accepted for one in sent), return_exceptions=True)
    queued = (await sent[2].accepted).run_id
    scene.gates.open("g")
    await scene.idle()

    lines = [vars(line) for line in caplog.records if line.getMessage() == "signal routed"]
    by_id = {line["signal_id"]: line for line in lines}
    noted = [by_id[one.signal.id] for one in sent]
    assert len(sent) == len(lines)
    assert [
        ("wake", run_id, None),
        ("deliver", run_id, None),
        ("deliver", queued, None),
        ("discard", None, None),
        ("refused", None, "AGENT_SIGNAL_PERSIST_UNAVAILABLE"),
    ] == [(line["action"], line["run_id"], line["error"]) for line in noted]
    assert {("r", "t")} == {(line["resource_id"], line["thread_id"]) for line in noted}
    assert "secret" not in str(noted)


async def test_awaiting_a_send_is_harmless(scene: ThreadScene) -> None:
    """It is the same result, at once; nothing is waited for (6.2)."""
    agent = scene.agent(waiting("g"))

    sent = agent.send_message("hi", **T)
    again = await sent

    assert again is sent
    assert not sent.accepted.done()  # type: ignore[attr-defined]  # a future
    await sent.accepted
    scene.gates.open("g")
    await scene.idle()


async def test_a_woken_run_that_stores_nothing_gives_its_thread_back(scene: ThreadScene) -> None:
    """Whoever sends next wakes the thread again, instead of waiting for ever."""
    agent = scene.agent([text("one")], [text("two")], memory=True)
    reads = {"stream_options": {"read_only": True}}

    first = await agent.send_message("first", **T, if_idle=reads).accepted
    await first.output.wait()
    await scene.idle()
    second = await agent.send_message("second", **T).accepted
    await second.output.wait()

    assert ("wake", "wake") == (first.action, second.action)
    assert ["two"] == await scene.answers()


async def test_acceptance_keeps_its_order_when_the_clock_was_put_back() -> None:
    """Owners elsewhere order turns by it, and whoever finds them in the inbox."""
    clock = FakeClock()
    model = ScriptedModel([waiting("go")])
    agent = Agent(id="a", model=model)
    async with Mastra(agents=[agent], clock=clock, notifications={"enabled": False}):
        sent = []
        for contents in ("one", "two", "three"):
            sent.append(agent.queue_message(contents, thread_id="t", resource_id="r"))
            clock.jump_wall(-3600)
        other = agent.send_message("x", thread_id="another", resource_id="r")
        now = clock.now()
        times = [one.signal.accepted_at for one in sent]
        model.gates.open("go")

    assert times == sorted(set(times))
    assert now == other.signal.accepted_at
