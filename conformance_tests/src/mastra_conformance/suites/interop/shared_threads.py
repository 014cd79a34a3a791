"""One thread, reached and run by both languages at once (signals.md 17, 19)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from mastra_conformance.cases import case
from mastra_conformance.node import NodePeer, NodePlace, node_peer, node_store
from mastra_conformance.opening import Opener
from mastra_conformance.processes import Processes
from mastra_conformance.suites.interop.shared import AGENT, InteropSuite
from mastra_conformance.suites.runtime.neighbours import (
    PATIENCE_S,
    TARGET,
    TTL_MS,
    Neighbour,
    neighbour,
    reads,
    until,
)
from mastra_conformance.suites.runtime.thread_workers import own
from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.contracts.storage import Storage
from mastra_core.messages.signals import create_signal
from mastra_core.testing.scripted_model import text
from mastra_core.threads import events
from mastra_core.threads.thread_key import thread_key, thread_topic
from mastra_core.wire.events import Event

__all__ = ("SharedThreadInteropSuite",)

_KEY: Final = thread_key(TARGET["resource_id"], TARGET["thread_id"])
_TOPIC: Final = thread_topic(TARGET["resource_id"], TARGET["thread_id"])
_NODE_TARGET: Final = {"threadId": TARGET["thread_id"], "resourceId": TARGET["resource_id"]}
_NODE_MEMORY: Final = {"memory": {"thread": TARGET["thread_id"], "resource": TARGET["resource_id"]}}
_GATE: Final = {"type": "gate", "name": "go"}
_SECOND_GATE: Final = {"type": "gate", "name": "on"}
_NODE_GATE: Final = {"gate": "go"}
#: What either side sends in a row.
_MANY: Final = 20
#: Ours, and Node's.
_ECHO: Final = "data-user-message"


class SharedThreadInteropSuite(InteropSuite):
    """A process of Node and one of ours, with one agent, store, bus and leases."""

    capabilities = (
        "memory",
        "thread_state",
        "pubsub.cross_process",
        "lease.cross_process",
    )
    node_domains = ("memory", "bus")

    @pytest.fixture
    async def place(self, shared_store: Storage, shared_opener: Opener) -> AsyncIterator[Opener]:
        """The place that both know; the thread's topic is empty at the start and at the end."""
        async with shared_opener.pubsub() as bus:
            await bus.clear_topic(_TOPIC)
            yield shared_opener
            await bus.clear_topic(_TOPIC)

    @pytest.fixture
    async def node(self, node_place: NodePlace, place: Opener) -> AsyncIterator[NodePeer]:
        """A Node process that has opened the store and the bus."""
        async with node_peer(node_place, MASTRA_AGENT_THREAD_LEASE_TTL_MS=str(TTL_MS)) as peer:
            await peer.do("open", store=node_store(place.place.url))
            await peer.do("bus", bus="bus", url=place.place.url.partition("?")[0], blockMs=50)
            yield peer

    # -- who has the thread is reached ----------------------------------------------------

    @case("signals", 134)
    async def test_node_answers_what_we_send(self, place: Opener, node: NodePeer) -> None:
        """In its run, which its readers and ours see; we are told so and start none (122)."""
        await _start(node, [[{"text": "one"}, _NODE_GATE], [{"text": "two"}]])
        async with neighbour(place) as p, reads(p) as seen, _reads_of(node) as theirs:
            woken = await _send(node, "first")
            await node.do("gate-reached", name="go")
            await until(lambda: "text-delta" in _types(seen))

            delivered = await p.send("second")

            await node.do("gate-open", name="go")
            await p.answered("first", "second")
            await until(lambda: _types(seen).count(_ECHO) == 2 and "finish" in _types(seen))
            shown = await theirs(_ECHO, 2)
            await p.is_free()
            texts = await p.texts()
            await until(_nothing_waits(p))

        assert ("wake", "deliver") == (woken["action"], delivered.action)
        assert woken["runId"] == delivered.run_id
        assert ["first", "one", "second", "two"] == texts
        assert [] == p.model.requests
        assert "second" in str(shown)
        assert {woken["runId"]} == {chunk["runId"] for chunk in seen}

    @case("signals", 134)
    async def test_we_answer_what_node_sends(self, place: Opener, node: NodePeer) -> None:
        """In our run, which our readers and Node's see; it is told so and starts none (122)."""
        await _start(node, [])
        async with (
            neighbour(place, [[text("one"), _GATE], [text("two")]]) as q,
            reads(q) as seen,
            _reads_of(node) as theirs,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            await theirs("text-delta", 1)

            delivered = await _send(node, "second")
            await until(lambda: _is_pending(q, delivered["signal"]["id"]))

            q.gates.open("go")
            await q.answered("first", "second")
            await until(lambda: _types(seen).count(_ECHO) == 2 and "finish" in _types(seen))
            shown = await theirs("finish", 1)
            await q.is_free()
            texts = await q.texts()
            await until(_nothing_waits(q))
            requests = await node.do("requests")

        assert ("deliver", woken.run_id) == (delivered["action"], delivered["runId"])
        assert ["first", "one", "second", "two"] == texts
        assert [] == requests
        assert ["one", "two"] == [c["text"] for c in shown if c["type"] == "text-delta"]
        assert 2 == _types(shown).count(_ECHO)
        assert {woken.run_id} == {chunk["runId"] for chunk in shown}

    @case("signals", 134)
    async def test_node_never_shows_what_we_took_back(self, place: Opener, node: NodePeer) -> None:
        """A signal that waits in Node's queue, cancelled here; also when it comes again (127)."""
        await _start(node, [[{"text": "one"}, _NODE_GATE], [{"text": "two"}]])
        async with neighbour(place) as p:
            woken = await _send(node, "first")
            await node.do("gate-reached", name="go")
            sent = p.agent.send_message("not this", **TARGET)
            await sent.accepted

            p.agent.cancel_queued_messages(**TARGET, signal_ids=[sent.signal.id])
            await until(_is_told(p, events.SIGNALS_CANCELLED))
            again = events.signal_enqueued(woken["runId"], sent.signal, source_id="somebody")
            await p.mastra.pubsub.publish(_TOPIC, again)
            await p.send("but this")

            await node.do("gate-open", name="go")
            await p.answered("first", "but this")
            await p.is_free()
            texts = await p.texts()
            await until(_nothing_waits(p))
            requests = await node.do("requests")

        assert ["first", "one", "but this", "two"] == texts
        assert "not this" not in str(requests)
        assert [] == p.model.requests

    @case("signals", 134)
    async def test_we_never_show_what_node_took_back(self, place: Opener, node: NodePeer) -> None:
        """A signal that waits in our queue, cancelled there; also when it comes again (127)."""
        await _start(node, [])
        async with neighbour(place, [[text("one"), _GATE], [text("two")]]) as q:
            woken = await q.send("first")
            await q.gates.reached("go")
            sent = await _send(node, "not this")
            signal = sent["signal"]
            await until(lambda: _is_pending(q, signal["id"]))

            cancel = {**_NODE_TARGET, "signalIds": [signal["id"]]}
            await node.agent(AGENT, "cancelQueuedMessages", cancel)
            await until(lambda: not _is_pending(q, signal["id"]))
            again = _enqueued_by_node(woken.run_id, signal)
            await node.bus("bus", "publish", _TOPIC, again)
            kept = await _send(node, "but this")
            await until(lambda: _is_pending(q, kept["signal"]["id"]))

            q.gates.open("go")
            await q.answered("first", "but this")
            await q.is_free()
            texts = await q.texts()
            await until(_nothing_waits(q))

        assert ["first", "one", "but this", "two"] == texts
        assert "not this" not in str([request.prompt for request in q.model.requests])

    @case("signals", 126)
    async def test_a_signal_of_node_that_comes_again_enters_once(
        self, place: Opener, node: NodePeer
    ) -> None:
        """While its run goes on, after it, and in the next run."""
        await _start(node, [])
        scripts = [[text("one"), _GATE], [text("two")], [text("three")]]
        async with neighbour(place, scripts) as q:
            woken = await q.send("first")
            await q.gates.reached("go")
            sent = await _send(node, "second")
            again = _enqueued_by_node(woken.run_id, sent["signal"])
            await node.bus("bus", "publish", _TOPIC, again)
            await until(lambda: _is_pending(q, sent["signal"]["id"]))

            q.gates.open("go")
            await q.answered("first", "second")
            await q.is_free()
            await node.bus("bus", "publish", _TOPIC, again)
            await q.send("third")
            await q.answered("third")
            texts = await q.texts()

        assert ["first", "one", "second", "two", "third", "three"] == texts

    @case("signals", 134)
    async def test_we_answer_what_node_sends_too_late(self, place: Opener, node: NodePeer) -> None:
        """To a run of ours that ended while the signal was on its way: nobody else has it (G1)."""
        await _start(node, [])
        async with neighbour(place, [[text("one")], [text("two")]]) as q, reads(q) as seen:
            woken = await q.send("first")
            await q.answered("first")
            await q.is_free()
            data = create_signal(
                {"type": "user", "contents": "second"}, clock=SystemClock(), ids=UuidIds()
            )

            late = _enqueued_by_node(woken.run_id, data.to_wire())
            await node.bus("bus", "publish", _TOPIC, late)
            await node.bus("bus", "publish", _TOPIC, late)

            await q.answered("first", "second")
            await until(lambda: _types(seen).count("finish") == 2)
            await q.is_free()
            texts = await q.texts()
            await until(_nothing_waits(q))

        assert ["first", "one", "second", "two"] == texts

    async def test_both_send_without_a_pause(self, place: Opener, node: NodePeer) -> None:
        """Whoever has the thread when: each signal stands there once, and an answer follows."""
        await _start(node, [])
        async with neighbour(place) as p, reads(p), _reads_of(node):
            ours = [f"ours {number}" for number in range(_MANY)]
            theirs = [f"theirs {number}" for number in range(_MANY)]

            async def send_ours() -> None:
                for one in ours:
                    await p.send(one)

            async def send_theirs() -> None:
                for one in theirs:
                    await _send(node, one)

            await asyncio.gather(send_ours(), send_theirs())
            await p.answered(*ours, *theirs)
            await p.is_free()
            await until(_nothing_waits(p))
            texts = await p.texts()

        sent = [one for one in texts if one.startswith(("ours", "theirs"))]
        assert sorted([*ours, *theirs]) == sorted(sent)
        assert ours == [one for one in sent if one in ours]

    # -- abort ----------------------------------------------------------------------------

    @case("signals", 134)
    async def test_we_abort_a_run_of_node(self, place: Opener, node: NodePeer) -> None:
        """With what waits for it; a request that means another segment does nothing (128)."""
        await _start(node, [[{"text": "one"}, _NODE_GATE], [{"text": "never"}]])
        async with neighbour(place) as p, reads(p) as seen, _reads_of(node) as theirs:
            woken = await _send(node, "first")
            await node.do("gate-reached", name="go")
            await until(lambda: p.agent.get_active_thread_run_id(**TARGET) == woken["runId"])
            await p.send("second")
            wrong = events.abort_requested(
                woken["runId"], stream_id="another", source_id="x", clear_pending_signals=True
            )
            await p.mastra.pubsub.publish(_TOPIC, wrong)
            await asyncio.sleep(0.3)
            before = await theirs("text-delta", 1)

            asked = p.agent.abort_thread_stream(**TARGET, clear_pending_signals=True)

            await theirs("abort", 1)
            await until(lambda: bool({"abort", "finish"} & set(_types(seen))))
            await p.is_free()
            await until(_nothing_waits(p))
            requests = await node.do("requests")

        assert asked
        assert "abort" not in _types(before)
        assert 1 == len(requests)
        assert [] == p.model.requests

    @case("signals", 134)
    async def test_node_aborts_a_run_of_ours(self, place: Opener, node: NodePeer) -> None:
        """With what waits for it; it ends, and Node's readers are told (128)."""
        await _start(node, [])
        async with (
            neighbour(
                place, [[text("one"), _GATE, text("more"), _SECOND_GATE], [text("never")]]
            ) as q,
            _reads_of(node) as theirs,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            await theirs("text-delta", 1)
            sent = await _send(node, "second")
            await until(lambda: _is_pending(q, sent["signal"]["id"]))
            # A sender of version 1.71 forgets whose the thread is until the run says more.
            q.gates.open("go")
            await q.gates.reached("on")
            await theirs("text-delta", 2)

            order = {**_NODE_TARGET, "clearPendingSignals": True}
            asked = await node.agent(AGENT, "abortThreadStream", order)

            await until(lambda: woken.output.status != "running")
            await theirs("abort", 1)
            await q.is_free()
            await until(_nothing_waits(q))
            requests = await node.do("requests")

        assert asked is True
        assert 1 == len(q.model.requests)
        assert [] == requests

    @case("signals", 131)
    async def test_half_an_answer_of_node_is_not_replayed(
        self, place: Opener, node: NodePeer
    ) -> None:
        """Who subscribes here after an aborted run of Node sees the next one alone."""
        await _start(node, [[{"text": "half"}, _NODE_GATE], [{"text": "whole"}]])
        async with neighbour(place) as p:
            woken = await _send(node, "first")
            await node.do("gate-reached", name="go")
            await node.agent(AGENT, "abortThreadStream", _NODE_TARGET)
            await p.is_free()

            async with reads(p) as seen:
                await _send(node, "second")
                await until(lambda: "finish" in _types(seen))

        assert "whole" == _words(seen)
        assert woken["runId"] not in {chunk.get("runId") for chunk in seen}

    @case("signals", 131)
    async def test_half_an_answer_of_ours_is_not_replayed_there(
        self, place: Opener, node: NodePeer
    ) -> None:
        """Who subscribes in Node after an aborted run of ours sees the next one alone."""
        await _start(node, [])
        async with neighbour(place, [[text("half"), _GATE], [text("whole")]]) as q:
            woken = await q.send("first")
            await q.gates.reached("go")
            assert q.agent.abort_thread_stream(**TARGET)
            await woken.output.wait()
            await q.is_free()

            async with _reads_of(node) as theirs:
                await q.send("second")
                shown = await theirs("finish", 1)

        assert "whole" == "".join(c["text"] for c in shown if c["type"] == "text-delta")
        assert woken.run_id not in {chunk["runId"] for chunk in shown}

    # -- one after the other --------------------------------------------------------------

    async def test_our_turn_comes_after_the_run_of_node(
        self, place: Opener, node: NodePeer
    ) -> None:
        """What is queued here while Node runs gets a run of its own, and isn't injected (G11)."""
        await _start(node, [[{"text": "one"}, _NODE_GATE], [{"text": "wrong"}]])
        async with neighbour(place, [[text("two")]]) as p:
            await _send(node, "first")
            await node.do("gate-reached", name="go")

            queued = p.agent.queue_message("second", **TARGET)
            accepted = await queued.accepted
            await node.do("gate-open", name="go")

            await p.answered("first", "second")
            await p.is_free()
            texts = await p.texts()
            await until(_nothing_waits(p))
            requests = await node.do("requests")

        assert "deliver" == accepted.action
        assert ["first", "one", "second", "two"] == texts
        assert 1 == len(requests)

    async def test_streams_wait_for_each_other(self, place: Opener, node: NodePeer) -> None:
        """Ours for the run of Node, and Node's for ours; all stand in the thread in order."""
        await _start(node, [[{"text": "one"}, _NODE_GATE], [{"text": "three"}]])
        script = [[text("two"), _GATE]]
        async with neighbour(place, script) as p, _reads_of(node) as theirs:
            await _send(node, "first")
            await node.do("gate-reached", name="go")
            starting = asyncio.ensure_future(p.agent.stream("second", **TARGET))
            await asyncio.sleep(0.3)
            early = starting.done()
            await node.do("gate-open", name="go")
            async with asyncio.timeout(PATIENCE_S):
                output = await starting
            await p.gates.reached("go")
            await theirs("text-delta", 2)
            await node.do("begin", agent=AGENT, contents="third", options=_NODE_MEMORY)
            await asyncio.sleep(0.3)
            waiting = len(await node.do("requests"))
            p.gates.open("go")
            await output.text
            await p.answered("first", "second", "third")
            texts = await p.texts()

        assert not early
        assert 1 == waiting
        assert ["first", "one", "second", "two", "third", "three"] == texts

    @case("pubsub_and_lease", 126)
    async def test_a_lease_goes_to_a_run_of_ours_and_back(
        self, place: Opener, node: NodePeer
    ) -> None:
        """Handed on by either, taken up by the other; at no moment is the thread nobody's."""
        await _start(node, [[{"text": "three"}, _NODE_GATE], [{"text": "four"}]])
        async with (
            neighbour(place, [[text("one"), _GATE], [text("two")]]) as p,
            place.lease() as leases,
            _watches(p) as owners,
        ):
            await node.bus("bus", "acquireLease", _KEY, "run-node", 60_000)
            assert await node.bus("bus", "transferLease", _KEY, "run-node", "run-ours", 60_000)
            output = await p.agent.stream("first", **TARGET, run_id="run-ours")
            await p.gates.reached("go")
            to_ours = await _send(node, "second")
            await until(lambda: _is_pending(p, to_ours["signal"]["id"]))
            p.gates.open("go")
            await output.text
            await p.answered("first", "second")
            await p.is_free()
            until_ours = _without_end(owners)
            owners.clear()

            granted = await leases.acquire_lease(_KEY, "run-other", 60_000)
            handed = await leases.transfer_lease(_KEY, "run-other", "run-theirs", 60_000)
            options = {**_NODE_MEMORY, "runId": "run-theirs"}
            await node.do("begin", agent=AGENT, contents="third", options=options)
            await node.do("gate-reached", name="go")
            to_theirs = await p.send("fourth")
            await node.do("gate-open", name="go")
            await p.answered("third", "fourth")
            await p.is_free()
            until_theirs = _without_end(owners)
            texts = await p.texts()

        assert granted.acquired
        assert handed.acquired
        assert "run-ours" in until_ours
        assert None not in until_ours
        assert "run-theirs" in until_theirs
        assert None not in until_theirs
        assert ("deliver", "run-ours") == (to_ours["action"], to_ours["runId"])
        assert ("deliver", "run-theirs") == (to_theirs.action, to_theirs.run_id)
        assert ["first", "one", "second", "two"] == texts[:4]
        assert ["third", "three", "fourth", "four"] == texts[4:]

    # -- crashes --------------------------------------------------------------------------

    @case("signals", 134)
    async def test_we_take_over_from_a_dead_node(self, place: Opener, node: NodePeer) -> None:
        """What we had sent to its run is answered here, and our readers learn of its end (124)."""
        await _start(node, [[{"text": "half"}, _NODE_GATE]])
        async with neighbour(place, [[text("I took over")]]) as p, reads(p) as seen:
            woken = await _send(node, "first")
            await node.do("gate-reached", name="go")
            await until(lambda: "text-delta" in _types(seen))
            taken = [await p.send("second"), await p.send("third")]

            await node.kill()

            await until(lambda: "error" in _types(seen))
            await p.answered("second", "third")
            await p.is_free()
            texts = await p.texts()
            await until(_nothing_waits(p))
            error = next(chunk for chunk in seen if chunk["type"] == "error")

        assert [("deliver", woken["runId"])] * 2 == [(one.action, one.run_id) for one in taken]
        assert ["second", "third"] == [one for one in texts if one in {"second", "third"}]
        assert "I took over" == texts[-1]
        assert 1 == len(p.model.requests)
        assert woken["runId"] == error["runId"]

    @case("signals", 134)
    async def test_what_node_sent_to_a_dead_process_of_ours_is_answered(
        self, place: Opener, node: NodePeer
    ) -> None:
        """By another of ours; Node's readers learn that the run has ended (124, G1)."""
        await _start(node, [])
        async with neighbour(place, [[text("I took over")]]) as p, _reads_of(node) as theirs:
            async with Processes(place).start(own) as owner:
                run_id = await owner.reached("running")
                await theirs("text-delta", 1)
                taken = await _send(node, "second")
                await until(_is_told(p, events.SIGNAL_ADMITTED))
                await owner.kill()
            late = await _send(node, "third")

            shown = await theirs("error", 1)
            await p.answered("first", "second", "third")
            await p.is_free()
            texts = await p.texts()
            await until(_nothing_waits(p))
            requests = await node.do("requests")

        assert ("deliver", run_id) == (taken["action"], taken["runId"])
        assert run_id in {late["runId"], *(c["runId"] for c in shown if c["type"] == "error")}
        sent = [one for one in texts if one in {"first", "second", "third"}]
        assert ["first", "second", "third"] == sorted(sent)
        assert 1 == len(p.model.requests) + len(requests)
        assert "I took over" == texts[-1]


# -- the other process ------------------------------------------------------------------------


async def _start(node: NodePeer, script: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Node's application on the bus, with an agent whose model says this."""
    agents = [{"id": AGENT, "script": [list(call) for call in script]}]
    await node.do("mastra", agents=agents, lease="bus")


async def _send(node: NodePeer, contents: str) -> dict[str, Any]:
    """Let Node send what a user wrote, and wait until it is accepted there."""
    order = {"agent": AGENT, "contents": contents, "target": _NODE_TARGET}
    answer: dict[str, Any] = await node.do("send", **order)
    return answer


class _NodeReader:
    """A subscription of Node to the thread."""

    def __init__(self, node: NodePeer) -> None:
        self._node = node

    async def __call__(self, kind: str, count: int) -> list[dict[str, Any]]:
        """What it has seen, once there are so many chunks of this kind."""
        chunks: list[dict[str, Any]] = []

        async def is_there() -> bool:
            answer = await self._node.do("followed", **{"as": "reader"})
            chunks[:] = answer["chunks"]
            return _types(chunks).count(kind) >= count

        await until(is_there)
        return chunks


@asynccontextmanager
async def _reads_of(node: NodePeer) -> AsyncIterator[_NodeReader]:
    await node.do("follow", agent=AGENT, target=_NODE_TARGET, **{"as": "reader"})
    yield _NodeReader(node)


def _enqueued_by_node(run_id: str, signal: dict[str, Any]) -> dict[str, Any]:
    data = {"type": "signal-enqueued", "runId": run_id, "signal": signal, "sourceId": "somebody"}
    return {"type": "signal-enqueued", "runId": run_id, "data": data}


# -- this process -----------------------------------------------------------------------------


def _types(seen: Sequence[dict[str, Any]]) -> list[str]:
    return [str(chunk.get("type")) for chunk in seen]


def _words(seen: Sequence[dict[str, Any]]) -> str:
    return "".join(c["payload"]["text"] for c in seen if c.get("type") == "text-delta")


def _is_pending(where: Neighbour, signal_id: str) -> bool:
    """Does this signal wait for a run of ours?"""
    record = where.mastra.threads.known_record(_KEY)
    return record is not None and signal_id in record.known_signals()


def _nothing_waits(where: Neighbour) -> Any:
    async def look() -> bool:
        return not await where.waiting()

    return look


def _is_told(where: Neighbour, kind: str) -> Any:
    """Was this said on the thread's topic?"""

    async def look() -> bool:
        told: list[Event] = await where.mastra.pubsub.get_history(_TOPIC)
        return any(isinstance(e.data, dict) and e.data.get("type") == kind for e in told)

    return look


def _without_end(owners: Sequence[str | None]) -> list[str | None]:
    """The owners from the first to the last time that there was one."""
    places = [place for place, owner in enumerate(owners) if owner is not None]
    return list(owners[places[0] : places[-1] + 1])


@asynccontextmanager
async def _watches(where: Neighbour) -> AsyncIterator[list[str | None]]:
    """Ask again and again who has the thread: the answers so far."""
    owners: list[str | None] = []

    async def watch() -> None:
        while True:
            owners.append(await where.mastra.lease.get_lease_owner(_KEY))
            await asyncio.sleep(0.005)

    task = asyncio.create_task(watch())
    try:
        yield owners
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
