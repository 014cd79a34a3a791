"""What the topic of a thread tells of input that nobody took (signals.md 22, G1)."""

from __future__ import annotations

from typing import Any

from mastra_core.base.ids import UuidIds
from mastra_core.messages.signals import create_signal, signal_from_wire
from mastra_core.testing.fake_clock import FakeClock
from mastra_core.threads import events
from mastra_core.threads.events import ThreadEvent, read_event
from mastra_core.threads.left_behind import left_behind
from mastra_core.wire.events import Event
from mastra_core.wire.signals import Signal

__all__ = ()

_US = "us"


def _signal(clock: FakeClock, signal_id: str, **members: Any) -> Signal:
    value = {"type": "user", "contents": signal_id, "id": signal_id, **members}
    return create_signal(value, clock=clock, ids=UuidIds())


def _found(clock: FakeClock, *told: Event) -> list[tuple[str, str | None]]:
    past: list[ThreadEvent] = [event for one in told if (event := read_event(one)) is not None]
    return [(one.signal.id, one.agent_id) for one in left_behind(past, clock=clock)]


def _registered(run_id: str, agent_id: str = "helper") -> Event:
    return events.run_registered(
        run_id, stream_id="s", stream_seq=1, agent_id=agent_id, source_id=_US
    )


def test_what_a_dead_run_was_sent_is_found_in_order(clock: FakeClock) -> None:
    """With the agent of the run, once each; of a run of version 1.71 the agent isn't known."""
    sent = [_signal(clock, name) for name in ("one", "two", "three")]
    theirs = Event(type="run-registered", run_id="r2", data={"type": "run-registered"})

    found = _found(
        clock,
        _registered("r1"),
        events.signal_enqueued("r1", sent[0], source_id=_US),
        events.signal_enqueued("r1", sent[1], source_id=_US),
        events.signal_enqueued("r1", sent[0], source_id=_US),
        theirs,
        events.signal_enqueued("r2", sent[2], source_id=_US),
    )

    assert [("one", "helper"), ("two", "helper"), ("three", None)] == found


def test_what_an_owner_has_dealt_with_is_not_found(clock: FakeClock) -> None:
    """Its run ended after the signal was sent to it; one that came later is found."""
    before, after = _signal(clock, "before"), _signal(clock, "after")

    found = _found(
        clock,
        _registered("r1"),
        events.signal_enqueued("r1", before, source_id=_US),
        events.run_ended(
            "r1", stream_id="s", status="success", persisted=True, parts=0, source_id=_US
        ),
        events.signal_enqueued("r1", after, source_id=_US),
    )

    assert [("after", "helper")] == found


def test_what_was_admitted_cancelled_or_kept_is_not_found(clock: FakeClock) -> None:
    """Nor what is never to be stored, nor what can't be read."""
    admitted, cancelled, kept = (_signal(clock, name) for name in ("a", "c", "k"))
    broken = {"type": "signal-enqueued", "runId": "r1", "signal": {"type": 1}, "sourceId": "x"}
    nothing = {**broken, "signal": None}

    found = _found(
        clock,
        events.signals_cancelled("key", ["c"], source_id=_US),
        events.signal_enqueued("r1", admitted, source_id=_US),
        events.signal_enqueued("r1", cancelled, source_id=_US),
        events.signal_enqueued("r1", kept, kept=True, source_id=_US),
        events.signal_enqueued("r1", _signal(clock, "t", transient=True), source_id=_US),
        events.signal_admitted("r1", "a", source_id=_US),
        Event(type="signal-enqueued", run_id="r1", data=broken),
        Event(type="signal-enqueued", run_id="r1", data=nothing),
        events.stream_part(
            "r1",
            {"type": "start"},
            seq=0,
            stream_id="s",
            produced_at=0,
            pinned=False,
            source_id=_US,
        ),
    )

    assert [] == found


def test_an_announced_signal_says_that_it_was_created() -> None:
    """Version 1.71 takes it as it is then; we ignore the mark (2.2, 2.4)."""
    clock = FakeClock()
    signal = create_signal({"type": "user", "contents": "hi"}, clock=clock, ids=UuidIds())

    event = events.signal_enqueued("run", signal, source_id="p")

    said = event.data["signal"]
    assert said["__isCreatedSignal"] is True
    assert signal == signal_from_wire(said, clock=clock)
