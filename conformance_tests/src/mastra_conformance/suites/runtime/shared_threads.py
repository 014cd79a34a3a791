"""One thread, several processes: who runs it, who reaches it (signals.md 17, 22)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, ClassVar

import pytest

from mastra_conformance.cases import case
from mastra_conformance.opening import Opener
from mastra_conformance.processes import Processes, WorkerDiedError
from mastra_conformance.suite import Suite, requires, several_processes
from mastra_conformance.suites.runtime.neighbours import (
    KEY,
    PATIENCE_S,
    TARGET,
    TTL_MS,
    Neighbour,
    SkewedClock,
    neighbour,
    reads,
    until,
)
from mastra_conformance.suites.runtime.thread_workers import (
    own,
    own_and_come_back,
    send_and_die,
    tell_states,
)
from mastra_core.contracts.lease import LeaseGrant, LeaseProvider
from mastra_core.errors import LeaseUnavailableError, SignalQueueFullError
from mastra_core.testing.scripted_model import text
from mastra_core.threads import events
from mastra_core.threads.thread_key import thread_topic
from mastra_core.wire.events import Event
from mastra_core.wire.threads import Thread

__all__ = ("SharedStateSuite", "SharedThreadCrashSuite", "SharedThreadSuite")

_TOPIC = thread_topic(TARGET["resource_id"], TARGET["thread_id"])
_GATE = {"type": "gate", "name": "go"}
_LONG_AGO = "2026-01-02T03:04:05.678Z"
#: Where nobody is to lose a thread, however busy the machine is.
_PATIENT_MS = 30_000
#: Processes that tell the same, and how many states.
_TELLERS = 3
_START_S = 0.3
_LANES = 3
_NEXT = {"type": "gate", "name": "next"}


def _types(seen: list[dict[str, Any]]) -> list[str]:
    return [str(chunk.get("type")) for chunk in seen]


@pytest.mark.usefixtures("store")
class _Shared(Suite):
    """Applications of their own on one place, which ``store`` has emptied."""

    role: ClassVar[str] = "runtime"
    capabilities: ClassVar[tuple[str, ...]] = (
        "memory",
        "thread_state",
        "pubsub.cross_process",
        "lease.cross_process",
    )
    tier: ClassVar[int] = 2


@several_processes()
class SharedThreadSuite(_Shared):
    """Applications that share everything but memory."""

    @case("signals", 120)
    async def test_three_that_send_at_once_wake_one_run(self, opener: Opener) -> None:
        """It answers all three; nobody else's model is asked for them."""
        # Held until all have sent: whoever comes after the end of a run wakes the next one.
        calls = [[_GATE, text("one")], [text("all")]]
        async with (
            neighbour(opener, calls) as p,
            neighbour(opener, calls) as q,
            neighbour(opener, calls) as s,
        ):
            accepted = await asyncio.gather(p.send("from p"), q.send("from q"), s.send("from s"))
            for one in (p, q, s):
                one.gates.open("go")
            await p.answered("from p", "from q", "from s")
            await p.is_free()
            texts = await p.texts()
            asked = [len(one.model.requests) for one in (p, q, s)]

        actions = sorted(one.action for one in accepted)
        assert ["deliver", "deliver", "wake"] == actions
        assert 1 == len({one.run_id for one in accepted})
        assert 1 == sum(1 for count in asked if count)
        assert {"from p", "from q", "from s"} <= set(texts)
        assert 3 == len([one for one in texts if one.startswith("from ")])

    @case("signals", 122)
    async def test_a_run_elsewhere_takes_what_is_sent(self, opener: Opener) -> None:
        """The sender is told so, and the owner's readers see it."""
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("two")]]) as q,
            neighbour(opener) as p,
            reads(q) as seen,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")

            delivered = await p.send("second")

            q.gates.open("go")
            await q.answered("first", "second")
            await until(lambda: _types(seen).count("data-user-message") == 2)
            await until(lambda: "finish" in _types(seen))
            texts = await q.texts()
            await until(_nothing_waits(p))

        assert ("deliver", woken.run_id) == (delivered.action, delivered.run_id)
        assert ["first", "one", "second", "two"] == texts
        assert [] == p.model.requests

    async def test_readers_elsewhere_see_the_run(self, opener: Opener) -> None:
        """From before it began, and from the middle on, each from its start (12.2, 12.9)."""
        async with (
            neighbour(opener, [[text("one two three"), _GATE]]) as q,
            neighbour(opener) as p,
            reads(p) as early,
        ):
            await q.send("first")
            await q.gates.reached("go")
            await until(lambda: "text-delta" in _types(early))
            async with reads(p) as late:
                await until(lambda: "text-delta" in _types(late))
                assert "start" == _types(late)[0]
                active = p.agent.get_active_thread_run_id(**TARGET)
                q.gates.open("go")
                await until(lambda: "finish" in _types(late))
            await until(lambda: "finish" in _types(early))
            await until(lambda: p.agent.get_active_thread_run_id(**TARGET) is None)

        assert _types(early) == _types(late)
        words = [c["payload"]["text"] for c in early if c.get("type") == "text-delta"]
        assert "one two three" == "".join(words)
        assert {active} == {chunk.get("runId") for chunk in early}

    @case("signals", 123)
    async def test_the_branch_is_that_of_the_run_elsewhere(self, opener: Opener) -> None:
        """Discard, persist and attributes for an active run hold whichever process is asked."""
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("two")]]) as q,
            neighbour(opener) as p,
        ):
            await q.send("first")
            await q.gates.reached("go")

            discarded = await p.send("no", if_active={"behavior": "discard"})
            stored = p.agent.send_message("kept", **TARGET, if_active={"behavior": "persist"})
            persisted = await stored.accepted
            assert stored.persisted is not None
            await stored.persisted
            told = await p.send(
                "told",
                if_active={"attributes": {"when": "active"}},
                if_idle={"attributes": {"when": "idle"}},
            )

            q.gates.open("go")
            await q.answered("first", "kept", "told")
            texts = await q.texts()
            prompt = str(q.model.requests[-1].prompt)

        actions = [discarded.action, persisted.action, told.action]
        assert ["discard", "persist", "deliver"] == actions
        assert "no" not in texts
        assert '<user when="active">told</user>' in prompt
        assert 2 == len(q.model.requests)

    @requires("pubsub.history", "pubsub.cursors")
    async def test_what_is_stored_of_a_run_leaves_the_topic(self, opener: Opener) -> None:
        """While it goes on; who comes then sees its start, and what isn't stored (12.2, 17.8)."""
        calls = [[text("one"), _GATE], [text("two"), _NEXT]]
        async with neighbour(opener, calls, keep_parts_ms=1) as q, neighbour(opener) as p:
            await q.send("first", if_idle={"stream_options": {"save_per_step": True}})
            await q.gates.reached("go")
            await p.send("second")
            q.gates.open("go")
            await q.gates.reached("next")

            async def is_short() -> bool:
                parts = await _parts(p)
                words = [one["payload"]["text"] for one in parts if one["type"] == "text-delta"]
                return words == ["two"] and parts[0]["type"] == "start"

            await until(is_short)
            async with reads(p) as late:
                await until(lambda: "text-delta" in _types(late))
                q.gates.open("next")
                await until(lambda: bool({"finish", "error"} & set(_types(late))))
        words = [c["payload"]["text"] for c in late if c.get("type") == "text-delta"]

        assert "start" == _types(late)[0]
        assert "finish" == _types(late)[-1]
        assert "two" == "".join(words)

    async def test_a_stream_waits_for_the_run_elsewhere(self, opener: Opener) -> None:
        """And starts as soon as that has ended; both stand in the thread, one after the other."""
        async with (
            neighbour(opener, [[text("one"), _GATE]]) as q,
            neighbour(opener, [[text("two")]]) as p,
        ):
            await q.send("first")
            await q.gates.reached("go")
            starting = asyncio.ensure_future(p.agent.stream("second", **TARGET))
            await asyncio.sleep(0.3)
            assert not starting.done()

            q.gates.open("go")
            async with asyncio.timeout(PATIENCE_S):
                output = await starting
                answer = await output.text
            texts = await p.texts()

        assert "two" == answer
        assert ["first", "one", "second", "two"] == texts

    @case("signals", 126)
    async def test_a_signal_that_comes_again_enters_once(self, opener: Opener) -> None:
        """While its run goes on, and after it."""
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("two")], [text("three")]]) as q,
            neighbour(opener) as p,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            sent = p.agent.send_message("second", **TARGET)
            await sent.accepted
            again = events.signal_enqueued(woken.run_id, sent.signal, source_id="somebody")

            await p.mastra.pubsub.publish(_TOPIC, again)
            q.gates.open("go")
            await q.answered("first", "second")
            await q.is_free()
            await p.mastra.pubsub.publish(_TOPIC, again)
            await q.send("third")
            await q.answered("third")
            texts = await q.texts()

        assert ["first", "one", "second", "two", "third", "three"] == texts

    @case("signals", 127)
    async def test_what_is_cancelled_here_is_forgotten_there(self, opener: Opener) -> None:
        """The owner's model never sees it, also if it is announced again."""
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("two")]]) as q,
            neighbour(opener) as p,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            sent = p.agent.send_message("never mind", **TARGET)
            await sent.accepted
            again = events.signal_enqueued(woken.run_id, sent.signal, source_id="somebody")

            removed = p.agent.cancel_queued_messages(**TARGET, signal_ids=[sent.signal.id])
            await until(_nothing_waits(q, but=1))
            # The announcement came before the cancellation, and comes once more after it.
            await p.mastra.pubsub.publish(_TOPIC, again)
            await p.send("last")
            q.gates.open("go")
            await q.answered("first", "last")
            await until(_nothing_waits(q))
            texts = await q.texts()
            prompts = str([request.prompt for request in q.model.requests])

        assert [] == removed
        assert ["first", "one", "last", "two"] == texts
        assert "never mind" not in prompts

    @case("signals", 130)
    async def test_a_turn_for_a_run_elsewhere_is_a_run_of_its_own(self, opener: Opener) -> None:
        """It doesn't join the run that works now, though nobody here reads the thread (G11)."""
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("two")]]) as q,
            neighbour(opener) as p,
            reads(q) as seen,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")

            queued = await p.agent.queue_message("its own", **TARGET).accepted

            q.gates.open("go")
            await q.answered("first", "its own")
            await until(_nothing_waits(q))
            await until(lambda: _types(seen).count("finish") == 2)
            texts = await q.texts()
            first = str(q.model.requests[0].prompt)
            requests = len(q.model.requests), len(p.model.requests)
            await woken.output.wait()
            steps = len(await woken.output.steps)

        assert "deliver" == queued.action
        assert [woken.run_id, queued.run_id] == list(dict.fromkeys(c.get("runId") for c in seen))
        assert ["first", "one", "its own", "two"] == texts
        assert "its own" not in first
        assert (2, 0) == requests
        assert 1 == steps

    @case("signals", 139)
    @pytest.mark.parametrize("kind", ["message", "turn"])
    async def test_who_has_a_thread_keeps_its_limit_for_all(
        self, opener: Opener, kind: str
    ) -> None:
        """A sender elsewhere gets the owner's error; nothing of it stays, and nothing is lost."""
        calls = [[text(f"answer {number}")] for number in range(4)]
        async with (
            neighbour(opener, [[text("one"), _GATE], *calls], max_waiting_signals=2) as q,
            neighbour(opener) as p,
        ):
            await q.send("first")
            await q.gates.reached("go")
            send = p.agent.send_message if kind == "message" else p.agent.queue_message
            taken = []
            for words in ("second", "third"):
                taken.append(send(words, **TARGET))
                await taken[-1].accepted
            refused = send("too much", **TARGET)
            here = q.agent.send_message("too much, too", **TARGET)
            with pytest.raises(SignalQueueFullError) as there:
                await refused.accepted
            with pytest.raises(SignalQueueFullError) as error:
                await here.accepted
            waiting = await p.waiting()
            active = p.agent.get_active_thread_run_id(**TARGET)

            q.gates.open("go")
            await q.answered("first", "second", "third")
            await until(_nothing_waits(q))
            # There is room again, also for the very signal that was refused.
            again = p.agent.send_signal(refused.signal, **TARGET)
            await again.accepted
            await q.answered("too much")
            texts = await q.texts()

        assert (str(error.value), error.value.details) == (str(there.value), there.value.details)
        assert {one.signal.id for one in taken} <= set(waiting)
        assert not {refused.signal.id, here.signal.id} & set(waiting)
        assert active is None
        assert 1 == texts.count("too much")
        assert 0 == texts.count("too much, too")

    @case("signals", 139)
    async def test_of_many_that_wait_for_a_thread_some_find_no_room(self, opener: Opener) -> None:
        """They were sent to a run here that never began; each learns what became of it."""
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("two")]], max_waiting_signals=3) as q,
            neighbour(opener) as p,
        ):
            await q.send("first")
            await q.gates.reached("go")
            outcomes = await asyncio.gather(
                *(p.send(f"words {number}") for number in range(5)), return_exceptions=True
            )
            waiting = len(await p.waiting())
            q.gates.open("go")
            await until(_nothing_waits(q))
            await q.is_free()
            texts = [one for one in await q.texts() if one.startswith("words")]

        refused = [one for one in outcomes if isinstance(one, SignalQueueFullError)]
        taken = [one for one in outcomes if not isinstance(one, BaseException)]
        assert (3, 2) == (len(taken), len(refused))
        assert 3 == len(texts)
        assert 4 >= waiting

    @case("signals", 139)
    async def test_what_was_accepted_is_never_refused(self, opener: Opener) -> None:
        """An owner that says nothing in time has to keep it, whatever waits there."""
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("two")]], max_waiting_signals=1) as q,
            neighbour(opener) as p,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            await p.send("second")
            sent = p.agent.send_message("third", **TARGET)
            with pytest.raises(SignalQueueFullError):
                await sent.accepted
            # It comes again, without the offer: from a sender that has stopped waiting.
            firm = events.signal_enqueued(woken.run_id, sent.signal, source_id="somebody")
            await p.mastra.pubsub.publish(_TOPIC, firm)
            await until(_has(q, sent.signal.id))
            q.gates.open("go")
            await q.answered("first", "second", "third")
            await until(_nothing_waits(q))
            texts = await q.texts()

        assert ["first", "one", "second", "third", "two"] == texts

    @case("signals", 128)
    async def test_an_abort_reaches_the_run_elsewhere(self, opener: Opener) -> None:
        """With what waits for it; one that means another segment does nothing."""
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("never")]]) as q,
            neighbour(opener, [[text("never")]]) as p,
            reads(p) as seen,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            await until(lambda: p.agent.get_active_thread_run_id(**TARGET) == woken.run_id)
            await p.send("second")
            wrong = events.abort_requested(
                woken.run_id, stream_id="another", source_id="x", clear_pending_signals=True
            )
            await p.mastra.pubsub.publish(_TOPIC, wrong)
            await asyncio.sleep(0.3)
            status = woken.output.status

            asked = p.agent.abort_thread_stream(**TARGET, clear_pending_signals=True)

            await until(lambda: woken.output.status != "running")
            await until(lambda: "abort" in _types(seen))
            await q.is_free()
            await until(_nothing_waits(q))
            requests = len(q.model.requests), len(p.model.requests)

        assert "running" == status
        assert asked
        assert (1, 0) == requests

    async def test_an_abort_can_be_waited_for(self, opener: Opener) -> None:
        """Without a reader here; what the run said is stored then, and its thread handed on."""
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("two"), _NEXT]]) as q,
            neighbour(opener, [[text("never")]]) as p,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            await p.send("second")

            unexpected = await p.agent.abort_thread_stream_and_wait(
                **TARGET, expected_run_id="another"
            )
            status = woken.output.status
            aborted = await p.agent.abort_thread_stream_and_wait(**TARGET)

            after = await p.mastra.lease.get_lease_owner(KEY)
            texts = await p.texts()
            assert "running" != woken.output.status
            await q.gates.reached("next")
            cleared = await p.agent.abort_thread_stream_and_wait(
                **TARGET, clear_pending_signals=True
            )
            await p.is_free()
            again = await p.agent.abort_thread_stream_and_wait(**TARGET)
            await until(_nothing_waits(p))
            requests = len(q.model.requests), len(p.model.requests)

        assert (False, "running") == (unexpected, status)
        assert (True, True, False) == (aborted, cleared, again)
        assert woken.run_id != after
        assert ["first", "one"] == texts[:2]
        assert (2, 0) == requests

    async def test_an_expected_run_elsewhere_is_aborted(self, opener: Opener) -> None:
        """Another one isn't, and nothing that waits is dropped then (8.5)."""
        async with (
            neighbour(opener, [[text("one"), _GATE]]) as q,
            neighbour(opener) as p,
            reads(p),
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            await until(lambda: p.agent.get_active_thread_run_id(**TARGET) == woken.run_id)

            other = p.agent.abort_thread_stream(**TARGET, expected_run_id="another")
            this = p.agent.abort_thread_stream(**TARGET, expected_run_id=woken.run_id)

            await until(lambda: woken.output.status != "running")

        assert (False, True) == (other, this)

    async def test_with_a_key_strangers_can_do_nothing(self, opener: Opener) -> None:
        """They neither abort, cancel nor say anything; those with the key do (G17)."""
        key = "a secret of all processes"
        async with (
            neighbour(opener, [[text("one"), _GATE], [text("two")]], control_keys=[key]) as q,
            neighbour(opener, control_keys=key) as p,
            reads(q) as seen,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            kept = await p.send("second")
            cancelled = p.agent.send_message("never mind", **TARGET)
            await cancelled.accepted
            run = (await _active_segment(p)) or ("", "")
            said = {"type": "user", "contents": "mine", "id": "x", "createdAt": _LONG_AGO}
            signer = q.mastra.threads.signer
            for event in (
                events.abort_requested(
                    woken.run_id, stream_id=run[1], source_id="x", clear_pending_signals=True
                ),
                events.signals_cancelled(KEY, [kept.run_id or ""], source_id="x"),
                Event(
                    type="signal-enqueued",
                    run_id=woken.run_id,
                    data={
                        "type": "signal-enqueued",
                        "runId": woken.run_id,
                        "signal": said,
                        "sourceId": "x",
                    },
                ),
            ):
                await p.mastra.pubsub.publish(_TOPIC, event)
            await until(lambda: signer.refused == len(("abort", "cancel", "signal")))
            status = woken.output.status

            await _cancel_there(p, q, cancelled.signal.id)
            q.gates.open("go")
            await q.answered("first", "second")
            await until(lambda: "finish" in _types(seen))
            await until(_nothing_waits(q))
            texts = await q.texts()

        assert run[0] == woken.run_id
        assert "running" == status
        assert ["first", "one", "second", "two"] == texts

    async def test_who_is_not_listened_to_has_aborted_nothing(self, opener: Opener) -> None:
        """The run goes on to its end, and a process without the key is told so (G13, G17)."""
        async with (
            neighbour(opener, [[text("one"), _GATE]], control_keys="a secret of some") as q,
            neighbour(opener) as p,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            asking = asyncio.create_task(p.agent.abort_thread_stream_and_wait(**TARGET))
            await until(lambda: bool(q.mastra.threads.signer.refused))
            q.gates.open("go")
            was_aborted = await asking
            reason = await woken.output.finish_reason

        assert not was_aborted
        assert "stop" == reason

    async def test_what_a_process_without_the_key_sends_is_not_lost(self, opener: Opener) -> None:
        """The owner doesn't hear it, but it is in the inbox: it is answered once (G17)."""
        async with (
            neighbour(
                opener, [[text("one"), _GATE], [text("two")]], control_keys="a secret of some"
            ) as q,
            neighbour(opener) as p,
        ):
            await q.send("first")
            await q.gates.reached("go")
            sent = await p.send("second")
            q.gates.open("go")
            await q.answered("first", "second")
            await until(_nothing_waits(q))
            texts = await q.texts()
            refused = q.mastra.threads.signer.refused
            first = str(q.model.requests[0].prompt)

        assert "deliver" == sent.action
        assert refused
        assert "second" not in first
        assert ["first", "one", "second", "two"] == texts

    @case("signals", 129)
    async def test_a_local_abort_leaves_runs_elsewhere_alone(self, opener: Opener) -> None:
        """It says that there was nothing to abort."""
        async with (
            neighbour(opener, [[text("one"), _GATE]]) as q,
            neighbour(opener) as p,
            reads(p) as seen,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            await until(lambda: "text-delta" in _types(seen))

            was_aborted = p.agent.abort_thread_stream(**TARGET, local_only=True)

            q.gates.open("go")
            reason = await woken.output.finish_reason

        assert not was_aborted
        assert "stop" == reason

    @case("signals", 131)
    async def test_half_an_answer_of_the_past_is_not_replayed(self, opener: Opener) -> None:
        """Who subscribes after an aborted run sees the next one, and nothing of that one."""
        async with (
            neighbour(opener, [[text("half"), _GATE], [text("whole")]]) as q,
            neighbour(opener) as p,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            assert q.agent.abort_thread_stream(**TARGET)
            await woken.output.wait()
            await q.is_free()

            async with reads(p) as seen:
                await q.send("second")
                await until(lambda: "finish" in _types(seen))
        words = [c["payload"]["text"] for c in seen if c.get("type") == "text-delta"]

        assert "whole" == "".join(words)
        assert woken.run_id not in {chunk.get("runId") for chunk in seen}

    @pytest.mark.parametrize("hours", [1, -1])
    async def test_clocks_that_differ_change_nothing(self, opener: Opener, hours: int) -> None:
        """Neither who runs, nor what is answered, nor the order of the rows (17.5, 2.5)."""
        calls = [[text(f"answer {number}")] for number in range(4)]
        async with (
            neighbour(opener, calls, clock=SkewedClock(hours=hours), ttl_ms=_PATIENT_MS) as p,
            neighbour(opener, calls, clock=SkewedClock(hours=-hours), ttl_ms=_PATIENT_MS) as q,
        ):
            said: list[str] = []
            for number, where in enumerate((p, q, p, q)):
                said.append(f"question {number}")
                await where.send(said[-1])
                await where.answered(*said)
                await where.is_free()
                await until(_nothing_waits(where))
            texts = await q.texts()
            requests = len(p.model.requests), len(q.model.requests)

        assert said == texts[::2]
        assert all(one.startswith("answer") for one in texts[1::2])
        assert (2, 2) == requests

    async def test_clocks_that_differ_do_not_part_sender_and_owner(self, opener: Opener) -> None:
        """What joins a run elsewhere, queues there or is aborted there does so as always."""
        async with (
            neighbour(
                opener,
                [[text("one"), _GATE], [text("two")]],
                clock=SkewedClock(hours=-1),
                ttl_ms=_PATIENT_MS,
            ) as q,
            neighbour(opener, clock=SkewedClock(hours=1), ttl_ms=_PATIENT_MS) as p,
            reads(p) as seen,
        ):
            woken = await q.send("first")
            await q.gates.reached("go")
            joined = await p.send("second")
            queued = await p.agent.queue_message("its own", **TARGET).accepted
            cancelled = p.agent.send_message("never mind", **TARGET)
            await cancelled.accepted
            await _cancel_there(p, q, cancelled.signal.id)
            q.gates.open("go")
            await q.answered("first", "second", "its own")
            await until(_nothing_waits(q))
            await until(lambda: _types(seen).count("finish") == len(("run", "turn")))
            texts = await q.texts()

        assert ("deliver", woken.run_id) == (joined.action, joined.run_id)
        assert queued.run_id != woken.run_id
        assert ["first", "one", "second", "two", "its own"] == texts[:5]
        assert "never mind" not in texts

    @case("signals", 140)
    async def test_no_run_starts_when_nobody_knows_whose_the_thread_is(
        self, opener: Opener
    ) -> None:
        """The sender learns it, and the signal is answered once the leases are back (G2)."""
        lines: list[_CutLease] = []

        def cut(provider: LeaseProvider) -> Any:
            lines.append(_CutLease(provider))
            return lines[0]

        async with neighbour(opener, [[text("at last")]], lease=cut) as here:
            lines[0].is_cut = True
            try:
                await here.send("first")
                error = None
            except LeaseUnavailableError as exc:
                error = exc
            requests = len(here.model.requests)
            lines[0].is_cut = False
            await here.answered("first")
            texts = await here.texts()

        assert error is not None
        assert 0 == requests
        assert ["first", "at last"] == texts


async def _parts(where: Any) -> list[dict[str, Any]]:
    """What runs have said and the thread's topic still tells."""
    past = [event.data for event in await where.mastra.pubsub.get_history(_TOPIC)]
    return [data["part"] for data in past if data.get("type") == "stream-part"]


async def _active_segment(where: Any) -> tuple[str, str] | None:
    """Run and segment that another process has, as its events tell."""
    reach = where.mastra.threads.outside.reach
    async with reach.heard(KEY, runs=True):
        await until(lambda: reach.remote_run(KEY) is not None)
        run: tuple[str, str] | None = reach.remote_run(KEY)
        return run


async def _cancel_there(here: Any, there: Any, signal_id: str) -> None:
    """Cancel what waits in another process, once it has arrived there."""
    record = there.mastra.threads.known_record(KEY)
    await until(lambda: signal_id in record.known_signals())
    here.agent.cancel_queued_messages(**TARGET, signal_ids=[signal_id])
    await until(lambda: signal_id not in record.known_signals())


def _has(where: Any, signal_id: str) -> Any:
    def look() -> bool:
        record = where.mastra.threads.known_record(KEY)
        return record is not None and signal_id in record.known_signals()

    return look


def _nothing_waits(where: Any, *, but: int = 0) -> Any:
    async def look() -> bool:
        return len(await where.waiting()) <= but

    return look


class _CutLease:
    """Leases whose line is cut."""

    def __init__(self, provider: LeaseProvider) -> None:
        self._provider = provider
        self.lease_capabilities = provider.lease_capabilities
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def acquire_lease(self, *arguments: Any, **options: Any) -> LeaseGrant:
        """Fails while the line is cut."""
        if self.is_cut:
            raise LeaseUnavailableError("The line is cut.")
        return await self._provider.acquire_lease(*arguments, **options)


@several_processes()
class SharedStateSuite(_Shared):
    """Processes that tell a thread the same states."""

    @case("signals", 104)
    @pytest.mark.parametrize("idle", ["persist", "wake"])
    async def test_what_processes_tell_at_once_is_told_once(
        self, opener: Opener, processes: Processes, idle: str
    ) -> None:
        """One of the senders tells each; for the others it is unchanged (13.3, G9)."""
        states = [_state(number) for number in range(_LANES)]
        async with neighbour(opener) as here, AsyncExitStack() as stack:
            await _thread_of(here)
            target = {"if_idle": {"behavior": idle}}
            workers = [
                await stack.enter_async_context(
                    processes.start(tell_states, states=states, target=target, ttl_ms=_PATIENT_MS)
                )
                for _ in range(_TELLERS)
            ]
            told = []
            for _ in states:
                for worker in workers:
                    await worker.reached("ready")
                start = time.time() + _START_S
                for worker in workers:
                    await worker.go(start)
                told.append([await worker.reached("told") for worker in workers])
                await until(_nothing_waits(here))
                await here.is_free()
                for worker in workers:
                    await worker.go()
            for worker in workers:
                await worker.result()
            await _was_told_once(here, states)

        assert [1] * len(states) == [sum(ones) for ones in told]

    @case("signals", 104)
    @pytest.mark.parametrize("idle", ["persist", "wake"])
    async def test_what_applications_tell_at_once_is_told_once(
        self, opener: Opener, idle: str
    ) -> None:
        """All look before any of them has written (13.3, G9)."""
        calls = [[text("noted")]] * _LANES
        states = [_state(number) for number in range(_LANES)]
        async with (
            neighbour(opener, calls, ttl_ms=_PATIENT_MS) as p,
            neighbour(opener, calls, ttl_ms=_PATIENT_MS) as q,
            neighbour(opener, calls, ttl_ms=_PATIENT_MS) as s,
        ):
            await _thread_of(p)
            skipped = []
            for state in states:
                results = await asyncio.gather(
                    *(
                        one.agent.send_state_signal(state, **TARGET, if_idle={"behavior": idle})
                        for one in (p, q, s)
                    )
                )
                skipped.append(sum(one.skipped for one in results))
                await until(_nothing_waits(p))
                await p.is_free()
            await _was_told_once(p, states)

        assert [2] * len(states) == skipped


def _state(number: int) -> dict[str, Any]:
    return {"id": f"lane{number}", "cache_key": "k", "contents": f"state {number}"}


async def _thread_of(where: Neighbour) -> None:
    now = where.mastra.clock.now()
    await where.mastra.storage.memory.create_thread(
        Thread(
            id=TARGET["thread_id"],
            resource_id=TARGET["resource_id"],
            created_at=now,
            updated_at=now,
        )
    )


async def _was_told_once(where: Neighbour, states: Sequence[Mapping[str, Any]]) -> None:
    """Each state has one row, and the thread's row speaks of that one."""
    rows = [row for row in await where.rows() if row.role == "signal"]
    texts = ["".join(str(part.get("text", "")) for part in row.content["parts"]) for row in rows]
    thread = await where.mastra.storage.memory.get_thread_by_id(TARGET["thread_id"])
    assert sorted(one["contents"] for one in states) == sorted(texts)
    assert thread is not None
    lanes = (thread.metadata or {})["mastra"]["stateSignals"]
    assert {one["id"]: 1 for one in states} == {n: one["version"] for n, one in lanes.items()}
    assert {row.id for row in rows} == {one["lastSignalId"] for one in lanes.values()}


@several_processes()
class SharedThreadCrashSuite(_Shared):
    """Processes that die, or stand still, while they have a thread."""

    @case("signals", 121)
    async def test_what_a_dead_sender_was_told_is_true(
        self, opener: Opener, processes: Processes
    ) -> None:
        """It died right after ``accepted``: another process answers, once."""
        async with processes.start(send_and_die, contents="last words") as sender:
            with pytest.raises(WorkerDiedError):
                await sender.result()

        async with neighbour(opener, [[text("heard")]]) as here:
            await here.answered("last words")
            await here.is_free()
            texts = await here.texts()

        assert ["last words", "heard"] == texts

    @case("signals", 124)
    async def test_what_a_dead_owner_had_accepted_is_answered(
        self, opener: Opener, processes: Processes
    ) -> None:
        """By a process that is alive, once the lease has run out."""
        async with neighbour(opener, [[text("I took over")]]) as here:
            async with processes.start(own) as owner:
                run_id = await owner.reached("running")
                taken = [await here.send("second"), await here.send("third")]
                await owner.kill()

            await here.answered("first", "second", "third")
            await here.is_free()
            texts = await here.texts()
            await until(_nothing_waits(here))

        assert [("deliver", run_id)] * 2 == [(one.action, one.run_id) for one in taken]
        assert ["first", "second", "third"] == [
            one for one in texts if one in {"first", "second", "third"}
        ]
        assert "I took over" == texts[-1]

    @case("signals", 125)
    async def test_an_owner_that_stood_still_is_fenced_out(
        self, opener: Opener, processes: Processes
    ) -> None:
        """Another has answered meanwhile: its words are not in the thread, and it knows why."""
        async with neighbour(opener, [[text("in time")]]) as here, reads(here) as seen:
            async with processes.start(own_and_come_back) as owner:
                await owner.reached("running")
                # All that it said is here: who is stopped in the middle of a write keeps a file
                # locked for everybody, which isn't what is looked at.
                await until(lambda: "text-end" in _types(seen))
                owner.pause()
                await here.send("second")
                await here.answered("first", "second")
                await asyncio.sleep(3 * TTL_MS / 1000)
                owner.resume()
                await owner.go()
                result = await owner.result()
            texts = await here.texts()

        assert "AGENT_THREAD_LEASE_LOST" == result["error"]
        assert "late words" not in texts
        assert "in time" == texts[-1]

    @case("signals", 132)
    async def test_readers_of_a_dead_owner_are_told(
        self, opener: Opener, processes: Processes
    ) -> None:
        """An error ends what it said; what was sent to it is answered by another."""
        async with neighbour(opener, [[text("I took over")]]) as here, reads(here) as seen:
            async with processes.start(own) as owner:
                run_id = await owner.reached("running")
                await until(lambda: "text-delta" in _types(seen))
                await owner.kill()
            await until(lambda: "error" in _types(seen))
            error = next(chunk for chunk in seen if chunk["type"] == "error")

        assert run_id == error["runId"]
        assert "lost its lease" in str(error["payload"])
