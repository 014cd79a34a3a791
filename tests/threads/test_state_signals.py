"""States that are sent from outside: told once, tracked, never counted when dropped (13.4, G9)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mastra_conformance import case
from mastra_core import Agent, Mastra
from mastra_core.agent.messaging import target_from
from mastra_core.base.isotime import parse_iso
from mastra_core.contracts.signal_sink import StateSignalResult
from mastra_core.errors import (
    InvalidSignalError,
    ModelNotFoundError,
    SignalPersistUnavailableError,
    StorageConnectionError,
    ThreadNotFoundError,
)
from mastra_core.messages.signals import create_signal
from mastra_core.processors.lane_tracking import LaneTracker, OpenChange
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.testing.scripted_model import ScriptedModel, text
from mastra_core.threads.state_signals import StateRoutes, StateSender
from mastra_core.wire.threads import Thread

pytestmark = pytest.mark.anyio

T = {"thread_id": "t", "resource_id": "r"}
PERSIST = {"if_idle": {"behavior": "persist"}}


def state(key: str = "k", lane: str = "browser", **more: Any) -> dict[str, Any]:
    return {"id": lane, "cache_key": key, "contents": f"{lane} {key}", **more}


@pytest.fixture
async def agent(mastra: Mastra) -> Agent:
    agent = Agent(id="a", model=ScriptedModel([[text("ok")]] * 8))
    mastra.add_agent(agent)
    now = parse_iso("2026-01-02T03:04:05.000Z")
    await mastra.storage.memory.create_thread(
        Thread(id="t", resource_id="r", created_at=now, updated_at=now)
    )
    return agent


async def lanes(mastra: Mastra) -> dict[str, Any]:
    """What the thread's row says."""
    thread = await mastra.storage.memory.get_thread_by_id("t")
    assert thread is not None
    found = ((thread.metadata or {}).get("mastra") or {}).get("stateSignals", {})
    assert isinstance(found, dict)
    return found


async def rows(mastra: Mastra) -> list[Any]:
    return [
        row
        for row in (await mastra.storage.memory.list_messages("t")).messages
        if row.role == "signal"
    ]


@case("signals", 111)
async def test_lanes_that_change_at_once_keep_each_others_tracking(
    mastra: Mastra, agent: Agent
) -> None:
    """Of many concurrent senders none undoes the other; a lane counts each of its changes."""
    sends = [
        agent.send_state_signal(state(f"k{key}", f"lane{lane}"), **T, **PERSIST)
        for lane in range(5)
        for key in range(4)
    ]

    await asyncio.gather(*sends)

    assert {f"lane{n}": 4 for n in range(5)} == {
        name: lane["version"] for name, lane in (await lanes(mastra)).items()
    }


@case("signals", 111)
async def test_senders_of_two_applications_keep_each_others_tracking(mastra: Mastra) -> None:
    """Two trackers that know nothing of each other write two lanes; the row has both."""
    store = mastra.storage
    now = mastra.clock.now()
    await store.memory.create_thread(
        Thread(id="t", resource_id="r", created_at=now, updated_at=now)
    )
    first, second = LaneTracker.of(store), LaneTracker.of(store)
    known_to_first, known_to_second = await first.load("t"), await second.load("t")
    assert known_to_first is not None
    assert known_to_second is not None

    written = [
        await first.commit(known_to_first, "one", {"version": 1, "lastSignalId": "a"}),
        await second.commit(known_to_second, "two", {"version": 1, "lastSignalId": "b"}),
        await second.commit(known_to_second, "one", {"version": 1, "lastSignalId": "c"}),
    ]

    assert [True, True, False] == written
    assert {"one": "a", "two": "b"} == {
        name: lane["lastSignalId"] for name, lane in (await lanes(mastra)).items()
    }


@case("signals", 112)
async def test_a_state_that_routing_drops_was_not_told(mastra: Mastra, agent: Agent) -> None:
    """The lane stays as it was, and the same state is told the next time."""
    dropped = await agent.send_state_signal(state(), **T, if_idle={"behavior": "discard"})
    assert dropped.accepted is not None
    first = (await dropped.accepted).action
    tracked = await lanes(mastra)

    told = await agent.send_state_signal(state(), **T, **PERSIST)

    assert ("discard", {}, False) == (first, tracked, told.skipped)
    assert 1 == (await lanes(mastra))["browser"]["version"]


@case("signals", 112)
async def test_a_state_whose_run_cant_start_was_not_told(mastra: Mastra, agent: Agent) -> None:
    """The lane is put back as it was before."""
    await agent.send_state_signal(state("k1"), **T, **PERSIST)
    bare = Agent(id="b", model="nobody/knows")
    mastra.add_agent(bare)

    sent = await bare.send_state_signal(state("k2"), **T)
    assert sent.accepted is not None
    with pytest.raises(ModelNotFoundError):
        await sent.accepted

    tracked = (await lanes(mastra))["browser"]
    assert ("k1", 1) == (tracked["currentCacheKey"], tracked["version"])
    assert not (await agent.send_state_signal(state("k2"), **T, **PERSIST)).skipped


async def begin(mastra: Mastra, key: str, *, signal: dict[str, Any] | None = None) -> LaneTracker:
    """Another process writes that it is going to tell a state."""
    tracker = LaneTracker.of(mastra.storage)
    known = await tracker.load("t")
    assert known is not None
    tracking = {"currentCacheKey": key, "currentMode": "snapshot", "version": 1}
    opening = OpenChange(signal=signal, before=known.tracking("browser"))
    begun = {**tracking, "lastSignalId": "theirs"}
    assert await tracker.commit(known, "browser", begun, opening=opening)
    return tracker


def sender(mastra: Mastra, clock: FakeClock) -> StateSender:
    """What sends states in a process that others share the store with."""
    return StateSender(clock=clock, ids=mastra.ids, patience=lambda: 15.0)


async def pass_time(clock: FakeClock, seconds: float) -> None:
    """Once somebody waits for it."""
    async with asyncio.timeout(60):
        while not clock.sleepers:  # noqa: ASYNC110 - the clock tells nobody
            await asyncio.sleep(0)
    await clock.advance(seconds)


async def send(mastra: Mastra, agent: Agent, states: StateSender, key: str) -> StateSignalResult:
    target = target_from({**T, **PERSIST})
    return await states.send(
        state(key),
        target,
        tracker=LaneTracker.of(mastra.storage),
        routes=StateRoutes(
            would_take=lambda: True,
            send=lambda signal: mastra.threads.send_created(agent.turns, signal, target),
            repeat=lambda signal: mastra.threads.send_signal(agent.turns, signal, target),
        ),
    )


async def test_a_state_whose_sender_died_is_told_again(mastra: Mastra, agent: Agent) -> None:
    """A change that was never confirmed doesn't count as told."""
    await begin(mastra, "k")

    sent = await agent.send_state_signal(state("k"), **T, **PERSIST)
    assert sent.persisted is not None
    await sent.persisted
    again = await agent.send_state_signal(state("k"), **T, **PERSIST)

    assert (False, True) == (sent.skipped, again.skipped)
    assert 1 == len(await rows(mastra))


@case("signals", 104)
async def test_what_another_process_is_telling_is_waited_for(
    mastra: Mastra, agent: Agent, clock: FakeClock
) -> None:
    """It is unchanged as soon as that is accepted; nothing is sent."""
    tracker = await begin(mastra, "k")
    waiting = asyncio.ensure_future(send(mastra, agent, sender(mastra, clock), "k"))
    await pass_time(clock, 0.02)
    assert not waiting.done()

    await tracker.confirm("t", "browser", "theirs")
    await pass_time(clock, 1)

    assert (await waiting).skipped
    assert [] == await rows(mastra)


@pytest.mark.parametrize("lives", [True, False])
async def test_another_state_lets_the_one_before_it_go_first(
    mastra: Mastra, agent: Agent, clock: FakeClock, *, lives: bool
) -> None:
    """Else the thread could hear last what the lane calls past; a dead sender keeps nobody."""
    tracker = await begin(mastra, "k1")
    waiting = asyncio.ensure_future(send(mastra, agent, sender(mastra, clock), "k2"))
    await pass_time(clock, 0.02)
    assert [] == await rows(mastra)

    if lives:
        await tracker.confirm("t", "browser", "theirs")
    await pass_time(clock, 1 if lives else 15)

    sent = await waiting
    assert sent.signal is not None
    assert sent.signal.metadata is not None
    assert 2 == sent.signal.metadata["state"]["version"]
    assert 1 == len(await rows(mastra))


async def test_what_another_process_could_not_tell_is_told(
    mastra: Mastra, agent: Agent, clock: FakeClock
) -> None:
    """Its change is undone, and the waiting one makes its own."""
    tracker = await begin(mastra, "k")
    waiting = asyncio.ensure_future(send(mastra, agent, sender(mastra, clock), "k"))
    await pass_time(clock, 0.02)

    await tracker.undo("t", "browser", "theirs", OpenChange())
    await pass_time(clock, 1)

    sent = await waiting
    assert not sent.skipped
    assert 1 == len(await rows(mastra))


async def test_the_very_signal_of_a_dead_sender_is_sent_on(
    mastra: Mastra, agent: Agent, clock: FakeClock
) -> None:
    """So it is stored once, also if that sender only stood still; its undoing has no effect."""
    theirs = create_signal(
        {"id": "theirs", "type": "state", "contents": "browser k"}, clock=clock, ids=mastra.ids
    )
    facts = {"id": "browser", "threadId": "t", "version": 1, "cacheKey": "k", "mode": "snapshot"}
    theirs = theirs.replace(metadata={"state": facts})
    tracker = await begin(mastra, "k", signal=theirs.to_wire())
    waiting = asyncio.ensure_future(send(mastra, agent, sender(mastra, clock), "k"))
    await pass_time(clock, 15)
    sent = await waiting

    late = mastra.threads.send_signal(agent.turns, theirs, target_from({**T, **PERSIST}))
    await late.accepted
    await tracker.undo("t", "browser", "theirs", OpenChange())

    assert sent.signal is not None
    assert (False, "theirs") == (sent.skipped, sent.signal.id)
    assert ["theirs"] == [row.id for row in await rows(mastra)]
    assert "k" == (await lanes(mastra))["browser"]["currentCacheKey"]


async def test_a_state_that_could_not_be_stored_was_not_told(
    mastra: Mastra, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever awaits ``persisted`` learns why, and the same state is told the next time."""

    async def full(*_: Any, **__: Any) -> Any:
        raise StorageConnectionError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(type(mastra.storage.memory), "save_messages", full)
        failed = await agent.send_state_signal(state(), **T, **PERSIST)
        assert failed.persisted is not None
        with pytest.raises(StorageConnectionError):
            await failed.persisted

    told = await agent.send_state_signal(state(), **T, **PERSIST)

    assert not told.skipped
    assert 1 == len(await rows(mastra))


async def test_what_another_writer_tracked_counts(mastra: Mastra, agent: Agent) -> None:
    """A Node process writes the thread's row alone; its newer version is the current one."""
    await agent.send_state_signal(state("k1"), **T, **PERSIST)
    mine = (await lanes(mastra))["browser"]
    theirs = {**mine, "currentCacheKey": "k9", "version": 9, "lastSignalId": "node"}
    await mastra.storage.memory.update_thread(
        "t", metadata={"mastra": {"stateSignals": {"browser": theirs}, "kept": True}}
    )

    known = await agent.send_state_signal(state("k9"), **T, **PERSIST)
    told = await agent.send_state_signal(state("k10"), **T, **PERSIST)

    assert (True, False) == (known.skipped, told.skipped)
    thread = await mastra.storage.memory.get_thread_by_id("t")
    assert thread is not None
    assert thread.metadata is not None
    assert 10 == thread.metadata["mastra"]["stateSignals"]["browser"]["version"]
    assert thread.metadata["mastra"]["kept"]


async def test_a_deleted_thread_takes_its_lanes_with_it(mastra: Mastra, agent: Agent) -> None:
    """A new thread of the same id begins anew."""
    await agent.send_state_signal(state(), **T, **PERSIST)
    await mastra.storage.memory.delete_thread("t")
    now = mastra.clock.now()
    await mastra.storage.memory.create_thread(
        Thread(id="t", resource_id="r", created_at=now, updated_at=now)
    )

    told = await agent.send_state_signal(state(), **T, **PERSIST)

    assert not told.skipped


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"cache_key": "k", "contents": "x"}, "state signal id is required"),
        ({"id": "l", "contents": "x"}, "state signal cacheKey is required"),
        ({"id": "l", "cache_key": "k"}, "needs contents"),
        (state(mode="all"), "snapshot or delta"),
        (state(transient=False), "cannot be transient"),
        (state(unknown=1), "no member 'unknown'"),
        (state(attributes={"a b": 1}), "attribute name"),
        (state(tag_name="1"), "tag name"),
        (state(metadata="text"), "must be a mapping"),
        ("text", "is a mapping"),
    ],
)
async def test_a_malformed_state_does_nothing(
    mastra: Mastra, agent: Agent, value: Any, words: str
) -> None:
    """It is refused before anything is looked up."""
    with pytest.raises(InvalidSignalError, match=words):
        await agent.send_state_signal(value, **T)

    assert ({}, []) == (await lanes(mastra), await rows(mastra))


async def test_a_state_needs_memory_and_a_stored_thread(mastra: Mastra, agent: Agent) -> None:
    """The thread must be there, and be this resource's."""
    bare = Agent(id="bare", model=ScriptedModel([]), memory=False)
    mastra.add_agent(bare)

    with pytest.raises(SignalPersistUnavailableError, match="requires Mastra memory"):
        await bare.send_state_signal(state(), **T)
    for wrong in ({"thread_id": "none"}, {"resource_id": "other"}):
        with pytest.raises(ThreadNotFoundError, match="could not load thread"):
            await agent.send_state_signal(state(), **{**T, **wrong})
