"""What was accepted outlives its owner, and keeps its order (signals.md 8.1, G1, G3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mastra_core import Agent, Mastra
from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.errors import PubSubConnectionError, StorageConnectionError
from mastra_core.inmemory.lease import InMemoryLease
from mastra_core.inmemory.pubsub import InMemoryPubSub
from mastra_core.inmemory.storage import InMemoryStorage
from mastra_core.messages.signals import create_signal, message_from_signal
from mastra_core.plugins import AdapterContext
from mastra_core.testing.scripted_model import Gates, ScriptedModel, text
from mastra_core.testing.thread_scene import waiting
from mastra_core.threads import events
from mastra_core.threads.inbox import InboxEntry
from mastra_core.threads.thread_key import thread_key, thread_topic
from mastra_core.wire.messages import Message
from mastra_core.wire.signals import Signal
from mastra_core.wire.threads import Thread

__all__ = ()

pytestmark = pytest.mark.anyio

T: dict[str, Any] = {"thread_id": "t", "resource_id": "r"}
KEY = thread_key("r", "t")
#: Short, so that what is left behind is found within a test.
TTL_MS = 300
#: Long enough for a dead run's input to be found, and not much longer.
KEPT_MS = 1_500


class SharedLease(InMemoryLease):
    """Leases as if other processes had them, too."""

    def __init__(self) -> None:
        super().__init__(None, AdapterContext())
        self.lease_capabilities = replace(self.lease_capabilities, cross_process=True)


class SharedBus(InMemoryPubSub):
    """A bus as if other processes heard it."""

    async def _open(self) -> None:
        await super()._open()
        self.capabilities = replace(self.capabilities, cross_process=True)


class KeptStorage(InMemoryStorage):
    """A store as if it outlived the process."""

    volatile = False


class Scene:
    """An application whose threads others can take."""

    def __init__(self, store: KeptStorage, lease: SharedLease) -> None:
        self.store = store
        self.lease = lease
        self.gates = Gates()
        #: Those of the applications, in their order.
        self.models: list[ScriptedModel] = []

    def application(
        self, *calls: Any, pubsub: SharedBus | None = None, **threads: Any
    ) -> tuple[Agent, Mastra]:
        self.models.append(ScriptedModel(calls, gates=self.gates))
        agent = Agent(id="a", model=self.models[-1], memory=True)
        settings = {"lease_ttl_ms": TTL_MS, **threads}
        return agent, Mastra(
            storage=self.store, lease=self.lease, pubsub=pubsub, agents=[agent], threads=settings
        )

    async def rows(self) -> list[tuple[str, Any]]:
        """Roles and last words of the thread."""
        page = await self.store.memory.list_messages("t")
        return [(row.role, row.content["parts"][-1].get("text")) for row in page.messages]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with KeptStorage() as store, SharedLease() as lease:
        yield Scene(store, lease)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that takes no time on a machine that isn't busy."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


def inbox_of(mastra: Mastra) -> Callable[[], Awaitable[list[InboxEntry]]]:
    outside = mastra.threads.outside
    assert outside is not None
    return lambda: outside.reach.waiting(KEY)


async def test_a_turn_waits_behind_those_that_were_accepted_before_it(scene: Scene) -> None:
    """Also when they are found only as it is about to start."""
    agent, application = scene.application(waiting("go"), [text("one")], [text("two")])
    async with application as mastra:
        first = await agent.stream("x", **T)
        await scene.gates.reached("go")
        late = agent.queue_message("late", **T)
        await late.accepted
        assert late.signal.accepted_at is not None
        outside = mastra.threads.outside
        assert outside is not None
        assert outside.reach.inbox is not None
        early = create_signal(
            {"type": "user", "contents": "early", "id": "early"},
            clock=mastra.clock,
            ids=mastra.ids,
            accepted_at=late.signal.accepted_at - timedelta(seconds=1),
        )
        # As another process leaves it that had the thread before, and died.
        entry = InboxEntry(signal=early, agent_id="a", turn=True, run_id="promised")
        await outside.reach.inbox.put(KEY, entry)

        scene.gates.open("go")
        await first.wait()
        left = inbox_of(mastra)

        async def is_done() -> bool:
            return not await left()

        await until(is_done)
        rows = await scene.rows()

    assert ["early", "late"] == [words for role, words in rows if role == "signal"]


async def test_what_a_run_took_that_lost_its_thread_is_answered_later(scene: Scene) -> None:
    """Such a run is stopped, but nobody wished its end: its input stays in the inbox."""
    # A machine that stands still for as long as a lease lasts loses the thread once more.
    agent, application = scene.application(waiting("go"), *[[text("after all")]] * 4)
    async with application as mastra:
        accepted = await agent.send_message("hello", **T).accepted
        await scene.gates.reached("go")
        # Another process gets the thread, and does nothing with it.
        await scene.lease.release_lease(KEY, str(accepted.run_id))
        await scene.lease.acquire_lease(KEY, "other", 60_000)
        assert accepted.output is not None
        await accepted.output.wait()
        left = inbox_of(mastra)
        await until(lambda: _is_at_rest(mastra))
        kept = [entry.signal.contents for entry in await left()]

        await scene.lease.release_lease(KEY, "other")

        async def is_answered() -> bool:
            return not await left()

        await until(is_answered)
        rows = await scene.rows()

    assert ["hello"] == kept
    assert [("signal", "hello"), ("assistant", "after all")] == rows


async def test_a_run_that_lost_its_thread_deletes_nothing_of_who_took_it_over(scene: Scene) -> None:
    """The turn was promised this run: whoever has the thread now answers under the same id."""
    async with SharedBus() as bus:
        again = [waiting("again")] * 4
        agent, application = scene.application(
            waiting("go"), *again, pubsub=bus, keep_parts_ms=KEPT_MS
        )
        async with application as mastra:
            accepted = await agent.queue_message("hello", **T).accepted
            await scene.gates.reached("go")
            assert mastra.threads.outside is not None
            holder = mastra.threads.outside.reach.source_id
            await scene.lease.release_lease(KEY, str(accepted.run_id), holder=holder)
            assert await scene.lease.acquire_lease(KEY, "other", 60_000)
            assert accepted.output is not None
            await accepted.output.wait()
            await scene.lease.release_lease(KEY, "other")
            await scene.gates.reached("again")
            again_id = agent.get_active_thread_run_id(**T)
            await asyncio.sleep(1.1 * KEPT_MS / 1000)
            told = await bus.get_history(thread_topic("r", "t"))
            scene.gates.open("again")

    parts = [event.data["part"]["type"] for event in told if event.type == events.PART]
    assert (accepted.run_id, "start") == (again_id, parts[0])


async def _is_at_rest(mastra: Mastra) -> bool:
    return mastra.threads.counts()["threads"] == 0


async def test_a_turn_that_starts_before_it_is_kept_was_accepted_all_the_same(
    scene: Scene,
) -> None:
    """The run before it ends in the very moment in which it is queued, as one does that is lost."""
    agent, mastra = scene.application(waiting("g"), [text("two")])
    async with mastra:
        first = await agent.send_message("one", **T).accepted
        await scene.gates.reached("g")
        record = mastra.threads.known_record(KEY)
        assert record is not None
        queued = agent.queue_message("again", **T)
        turn = record.queues.idle.popleft()
        accepted = await queued.accepted
        entries = await inbox_of(mastra)()
        record.queues.idle.append(turn)
        scene.gates.open("g")
        assert first.output is not None
        await first.output.wait()
        await until(lambda: _has_answer(scene, "two"))

    assert "deliver" == accepted.action
    assert accepted.run_id in {entry.run_id for entry in entries if entry.turn}


async def _has_answer(scene: Scene, words: str) -> bool:
    return ("assistant", words) in await scene.rows()


async def test_what_a_dead_run_had_begun_is_answered_before_all_others(scene: Scene) -> None:
    """It stands in the transcript; whatever was asked before it would answer it, too."""
    clock, ids = SystemClock(), UuidIds()
    entries = []
    for name, seconds in (("early", 2), ("begun", 1)):
        signal = create_signal(
            {"type": "user", "contents": name, "id": name},
            clock=clock,
            ids=ids,
            accepted_at=clock.now() - timedelta(seconds=seconds),
        )
        entries.append(InboxEntry(signal=signal, agent_id="a", turn=True, run_id=f"run of {name}"))
    _, application = scene.application([text("one")], [text("two")], [text("three")])
    async with application as mastra:
        now = clock.now()
        thread = Thread(id="t", resource_id="r", title="", created_at=now, updated_at=now)
        await scene.store.memory.create_thread(thread)
        begun = message_from_signal(entries[1].signal, thread_id="t", resource_id="r")
        await scene.store.memory.save_messages([begun])
        assert mastra.threads.outside is not None
        assert mastra.threads.outside.reach.inbox is not None
        for entry in entries:
            await mastra.threads.outside.reach.inbox.put(KEY, entry)
        mastra.threads.outside.start_orphans(KEY, entries)
        left = inbox_of(mastra)

        async def is_done() -> bool:
            return not await left()

        await until(is_done)
        rows = await scene.rows()

    assert [
        ("signal", "begun"),
        ("assistant", "one"),
        ("signal", "early"),
        ("assistant", "two"),
    ] == rows


async def test_what_is_sent_in_one_moment_keeps_its_order(scene: Scene) -> None:
    """Also what wakes the thread, which is kept a moment later than what waits behind it."""
    agent, application = scene.application(waiting("go"))
    async with application as mastra:
        first, second = agent.queue_message("first", **T), agent.queue_message("second", **T)
        await first.accepted
        await second.accepted
        await scene.gates.reached("go")
        entries = await inbox_of(mastra)()
        numbers = {entry.signal.id: entry.number for entry in entries}
        assert numbers[first.signal.id] < numbers[second.signal.id]
        scene.gates.open("go")


@pytest.mark.parametrize("method", ["send_signal", "queue_signal"])
async def test_a_signal_that_two_processes_get_is_answered_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The second one asked for its row before there was any, and comes to the thread only now."""
    signal = {"type": "user", "contents": "x", "id": "x"}
    first, application = scene.application([text("one")])
    second, another = scene.application([text("two")])
    async with application as mastra, another:
        woken = await getattr(first, method)(signal, **T).accepted
        await woken.output.wait()
        left = inbox_of(mastra)

        async def is_done() -> bool:
            return not await left() and await scene.lease.get_lease_owner(KEY) is None

        await until(is_done)

        async def too_early(**_: object) -> bool:
            return False

        monkeypatch.setattr(second.turns, "has_message", too_early)
        late = await getattr(second, method)(signal, **T).accepted
        await until(is_done)
        rows = await scene.rows()

    assert [1, 0] == [len(model.requests) for model in scene.models]
    assert ("deliver", [("signal", "x"), ("assistant", "one")]) == (late.action, rows)


@pytest.mark.parametrize("others", [(), ("third",)])
async def test_what_is_taken_back_while_its_run_is_prepared_is_not_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    """The thread is ours already, and what waits for it is read; what came with it is answered."""
    agent, application = scene.application(waiting("go"), [text("two")], [text("three")])
    cancelled: list[str] = []
    async with application as mastra:
        outside = mastra.threads.outside
        assert outside is not None
        first = await agent.stream("first", **T)
        await scene.gates.reached("go")
        queued = agent.queue_message("second", **T)
        await queued.accepted
        opening, take_back = outside.opening, asyncio.Event()

        async def slow(*args: Any) -> list[Signal] | None:
            found = await opening(*args)
            if not take_back.is_set():
                take_back.set()
                cancelled.extend(agent.cancel_queued_messages(**T, signal_ids=[queued.signal.id]))
                for one in others:
                    await agent.queue_message(one, **T).accepted
            return found

        monkeypatch.setattr(outside, "opening", slow)
        scene.gates.open("go")
        await first.wait()
        await take_back.wait()
        left = inbox_of(mastra)

        async def is_done() -> bool:
            return await _is_at_rest(mastra) and not await left()

        await until(is_done)
        rows = await scene.rows()

    assert [queued.signal.id] == cancelled
    assert [1 + len(others)] == [len(model.requests) for model in scene.models]
    assert list(others) == [words for role, words in rows if role == "signal"]


async def _answer_elsewhere(scene: Scene, signal: Signal) -> None:
    """As a process does that has found it in the inbox and dies before it takes it out of there."""
    now = SystemClock().now()
    thread = Thread(id="t", resource_id="r", title="", created_at=now, updated_at=now)
    await scene.store.memory.create_thread(thread)
    asked = message_from_signal(signal, thread_id="t", resource_id="r")
    told = Message(
        id="told",
        role="assistant",
        thread_id="t",
        resource_id="r",
        created_at=signal.created_at + timedelta(milliseconds=1),
        content={"format": 2, "parts": [{"type": "text", "text": "told"}]},
    )
    await scene.store.memory.save_messages([asked, told])


async def test_what_was_answered_while_we_asked_for_the_thread_is_not_answered_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever found it in the inbox is dead by now, and the thread free."""
    acquire = scene.lease.acquire_lease

    async def late(*args: Any, **options: Any) -> Any:
        await scene.gates.wait("acquire")
        return await acquire(*args, **options)

    monkeypatch.setattr(scene.lease, "acquire_lease", late)
    agent, application = scene.application([text("again")])
    async with application as mastra:
        sent = agent.send_message("x", **T)
        await scene.gates.reached("acquire")
        await _answer_elsewhere(scene, sent.signal)
        await asyncio.sleep(TTL_MS / 1000)
        scene.gates.open("acquire")
        accepted = await sent.accepted
        left = await inbox_of(mastra)()
        rows = await scene.rows()

    assert ("deliver", []) == (accepted.action, left)
    assert [("signal", "x"), ("assistant", "told")] == rows


async def test_what_others_left_takes_its_place_among_what_waits_here(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run answers all of it, in the order in which it was accepted."""
    acquire, clock, ids = scene.lease.acquire_lease, SystemClock(), UuidIds()

    async def late(*args: Any, **options: Any) -> Any:
        await scene.gates.wait("acquire")
        return await acquire(*args, **options)

    monkeypatch.setattr(scene.lease, "acquire_lease", late)
    agent, application = scene.application([text("all")])
    async with application as mastra:
        inbox = mastra.threads.outside.reach.inbox if mastra.threads.outside else None
        assert inbox is not None
        first, second = agent.send_message("first", **T), agent.send_message("second", **T)
        await scene.gates.reached("acquire")
        for name, seconds in (("late", 1), ("early", -1)):
            signal = create_signal(
                {"type": "user", "contents": name, "id": name},
                clock=clock,
                ids=ids,
                accepted_at=clock.now() + timedelta(seconds=seconds),
            )
            await inbox.put(KEY, InboxEntry(signal=signal, agent_id="a"))
        scene.gates.open("acquire")
        await first.accepted
        await second.accepted
        left = inbox_of(mastra)

        async def is_done() -> bool:
            return not await left()

        await until(is_done)
        rows = await scene.rows()

    assert ["early", "first", "second", "late", "all"] == [words for _, words in rows]


async def test_what_was_answered_elsewhere_is_offered_to_nobody(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever found it in the inbox has let the thread go, and another run has it."""
    acquire, is_held = scene.lease.acquire_lease, asyncio.Event()

    async def late(key: str, owner: str, *args: Any, **options: Any) -> Any:
        if is_held.is_set():
            await scene.gates.wait("acquire")
        return await acquire(key, owner, *args, **options)

    monkeypatch.setattr(scene.lease, "acquire_lease", late)
    async with SharedBus() as bus:
        owner, one = scene.application(waiting("go"), [text("again")], pubsub=bus)
        sender, another = scene.application([text("again")], pubsub=bus)
        async with one as mastra, another:
            first = await owner.stream("first", **T)
            await scene.gates.reached("go")
            is_held.set()
            sent = sender.send_message("x", **T)
            await scene.gates.reached("acquire")
            await _answer_elsewhere(scene, sent.signal)
            scene.gates.open("acquire")
            accepted = await sent.accepted
            scene.gates.open("go")
            await first.wait()
            left = await inbox_of(mastra)()

    assert ("deliver", []) == (accepted.action, left)
    assert [1, 0] == [len(model.requests) for model in scene.models]


async def test_a_turn_that_two_processes_find_is_run_by_one(scene: Scene) -> None:
    """Both know the run that it was promised; the second must not take the thread from it."""
    entry = InboxEntry(
        signal=create_signal(
            {"type": "user", "contents": "x", "id": "x"}, clock=SystemClock(), ids=UuidIds()
        ),
        agent_id="a",
        turn=True,
        run_id="promised",
    )
    _, application = scene.application(waiting("go"))
    _, another = scene.application(waiting("go"))
    async with application as mastra, another as second:
        left = inbox_of(mastra)
        assert mastra.threads.outside is not None
        assert mastra.threads.outside.reach.inbox is not None
        await mastra.threads.outside.reach.inbox.put(KEY, entry)
        mastra.threads.outside.start_orphans(KEY, [entry])
        await scene.gates.reached("go")
        # It had seen that nobody has the thread, too, and comes to it only now.
        assert second.threads.outside is not None
        second.threads.outside.start_orphans(KEY, [entry])
        await asyncio.sleep(2 * TTL_MS / 1000)

        scene.gates.open("go")

        async def is_done() -> bool:
            return not await left()

        await until(is_done)
        rows = await scene.rows()

    assert [1, 0] == [len(model.requests) for model in scene.models]
    assert ["signal", "assistant"] == [role for role, _ in rows]


async def test_a_turn_that_can_not_start_here_is_answered_elsewhere(scene: Scene) -> None:
    """Its process tries again later, and doesn't keep the thread from others meanwhile."""
    broken = False

    def instructions() -> str:
        if broken:
            raise RuntimeError("They can't be read.")
        return "Answer."

    model = ScriptedModel([waiting("go")], gates=scene.gates)
    agent = Agent(id="a", model=model, memory=True, instructions=instructions)
    _, another = scene.application([text("answered")])
    settings = {"lease_ttl_ms": TTL_MS}
    async with (
        Mastra(storage=scene.store, lease=scene.lease, agents=[agent], threads=settings) as mastra,
        another,
    ):
        first = await agent.stream("x", **T)
        await scene.gates.reached("go")
        await agent.queue_message("its own", **T).accepted
        broken = True
        scene.gates.open("go")
        await first.wait()
        left = inbox_of(mastra)

        async def is_done() -> bool:
            return not await left()

        await until(is_done)
        rows = await scene.rows()

    assert [("signal", "its own"), ("assistant", "answered")] == rows[-2:]


async def test_what_came_for_a_run_that_never_began_is_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another one of the agent that was about to have the thread, which is free after it."""
    failures = ["They can't be read."]

    def instructions() -> str:
        if failures:
            raise RuntimeError(failures.pop())
        return "Answer."

    model = ScriptedModel([[text("answered")]])
    agent = Agent(id="a", model=model, memory=True, instructions=instructions)
    settings = {"lease_ttl_ms": TTL_MS}
    async with (
        SharedBus() as bus,
        Mastra(
            storage=scene.store, lease=scene.lease, pubsub=bus, agents=[agent], threads=settings
        ) as mastra,
    ):
        assert mastra.threads.outside is not None
        reach = mastra.threads.outside.reach
        real = reach.waiting

        async def slow(key: str) -> list[InboxEntry]:
            await scene.gates.wait("go")
            return await real(key)

        monkeypatch.setattr(reach, "waiting", slow)
        first = agent.send_message("first", **T)
        await scene.gates.reached("go")
        run_id = await scene.lease.get_lease_owner(KEY)
        assert run_id is not None
        second = create_signal(
            {"type": "user", "contents": "second", "id": "second"},
            clock=mastra.clock,
            ids=mastra.ids,
            accepted_at=mastra.clock.now(),
        )
        sent = events.signal_enqueued(run_id, second, source_id="them")
        await bus.publish(thread_topic("r", "t"), sent)

        async def is_here() -> bool:
            record = mastra.threads.known_record(KEY)
            return record is not None and "second" in record.known_signals()

        await until(is_here)
        scene.gates.open("go")
        with pytest.raises(RuntimeError, match="can't be read"):
            await first.accepted

        async def is_free() -> bool:
            return await scene.lease.get_lease_owner(KEY) is None

        await until(is_free)
        rows = await scene.rows()

    assert [("signal", "second"), ("assistant", "answered")] == rows


async def test_a_stream_that_can_not_read_what_waits_keeps_no_thread(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller learns it, and the next one gets the thread."""
    agent, application = scene.application([text("one")])
    async with application as mastra:
        assert mastra.threads.outside is not None
        reach = mastra.threads.outside.reach
        real, failures = reach.waiting, ["The line is cut."]

        async def cut(key: str) -> list[InboxEntry]:
            if failures:
                raise StorageConnectionError(failures.pop())
            return await real(key)

        monkeypatch.setattr(reach, "waiting", cut)
        with pytest.raises(StorageConnectionError):
            await agent.stream("first", **T)
        async with asyncio.timeout(60):
            output = await agent.stream("second", **T)
            answer = await output.text

        async def is_free() -> bool:
            return await scene.lease.get_lease_owner(KEY) is None

        await until(is_free)

    assert "one" == answer


async def test_a_bus_that_does_not_answer_keeps_no_closed_application_from_its_leases(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are let go, whatever became of the topics."""

    async def cut(*_: Any) -> None:
        raise PubSubConnectionError("The line is cut.")

    agent = Agent(id="a", model=ScriptedModel([waiting("go")], gates=scene.gates), memory=True)
    async with SharedBus() as bus:
        mastra = Mastra(storage=scene.store, lease=scene.lease, pubsub=bus, agents=[agent])
        async with mastra:
            await agent.send_message("first", **T).accepted
            await scene.gates.reached("go")
            monkeypatch.setattr(bus, "unsubscribe", cut)

        assert await scene.lease.get_lease_owner(KEY) is None


async def test_what_an_abort_has_cleared_does_not_come_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it still stands in the inbox when the run ends, since the store is slow."""
    agent, application = scene.application(waiting("g"), [text("never")])
    async with application as mastra:
        first = await agent.send_message("one", **T).accepted
        await scene.gates.reached("g")
        second = agent.send_message("two", **T)
        await second.accepted
        outside = mastra.threads.outside
        assert outside is not None
        inbox = outside.reach.inbox
        assert inbox is not None
        remove, has_ended, held = inbox.remove, asyncio.Event(), [second.signal.id]

        async def slow(key: str, signal_ids: Iterable[str]) -> None:
            ids = list(signal_ids)
            if ids == held:
                held.clear()
                await has_ended.wait()
            await remove(key, ids)

        monkeypatch.setattr(inbox, "remove", slow)

        assert agent.abort_thread_stream(**T, clear_pending_signals=True)
        assert first.output is not None
        await first.output.wait()
        await until(lambda: _is_at_rest(mastra))
        has_ended.set()
        left = inbox_of(mastra)

        async def is_empty() -> bool:
            return not await left()

        await until(is_empty)

    assert [] == held
    assert 1 == len(scene.models[0].requests)
