"""Dedupe window, backlog, slots, handlers, stamps, alarms."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.base.clock import SystemClock
from mastra_core.base.ids import UuidIds
from mastra_core.bus.backpressure import Backlog, Slots
from mastra_core.bus.dedupe import DedupeWindow
from mastra_core.bus.handlers import HandlerKey, accepted_arguments, with_ack
from mastra_core.bus.stamps import Stamps
from mastra_core.bus.timers import Alarm, within
from mastra_core.testing.fake_clock import FakeClock

pytestmark = pytest.mark.anyio


def test_an_id_is_known_within_the_window() -> None:
    """A repeat doesn't prolong it."""
    window = DedupeWindow(100)

    assert window.add("a", 0)
    assert not window.add("a", 99)
    assert window.is_known("a", 99)
    assert window.add("a", 100)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 50)), max_size=60))
def test_the_window_agrees_with_a_plain_model(calls: list[tuple[str, int]]) -> None:
    """An id is refused iff it was accepted less than the window ago."""
    window, accepted, now = DedupeWindow(60, limit=100), dict[str, int](), 0
    for name, step in calls:
        now += step
        expected = name not in accepted or now - accepted[name] >= 60
        assert expected == window.add(name, now)
        if expected:
            accepted[name] = now


def test_the_window_is_bounded() -> None:
    """The oldest ids go first."""
    window = DedupeWindow(1_000_000, limit=3)
    for number in range(10):
        window.add(str(number), number)

    assert 3 == len(window)
    assert not window.is_known("6", 10)
    assert window.is_known("9", 10)


def test_a_full_backlog_lets_the_oldest_go() -> None:
    """And counts."""
    backlog: Backlog[int] = Backlog(2)

    assert [True, True, False] == [backlog.add(number) for number in range(3)]
    assert (1, [1, 2, None]) == (backlog.dropped, [backlog.pop() for _ in range(3)])


def test_slots_without_a_limit_are_never_full() -> None:
    """0 is no limit."""
    bounded, unbounded = Slots(2), Slots(0)
    bounded.used = unbounded.used = 2

    assert (True, 0) == (bounded.is_full, bounded.free)
    assert not unbounded.is_full
    assert unbounded.free > 0


class _Handler:
    def method(self, event: Any, ack: Any) -> None: ...


def _only_keywords(event: Any, *, ack: Any = None) -> None: ...


def _defaults(
    event: Any, ack: Any = None, nack: Any = None, extend: Any = None, x: int = 1
) -> None: ...


@pytest.mark.parametrize(
    ("handler", "count"),
    [
        (lambda event: None, 1),
        (lambda: None, 1),
        (_Handler().method, 2),
        (_only_keywords, 1),
        (_defaults, 4),
        (lambda *arguments: None, 4),
        ([].append, 1),
        (print, 4),
    ],
)
def test_how_many_arguments_a_handler_takes(handler: Any, count: int) -> None:
    """Looked at once, between one and four."""
    assert count == accepted_arguments(handler)


def test_bound_methods_are_equal_keys() -> None:
    """A new object at each access, but the same handler."""
    handler = _Handler()

    assert HandlerKey("t", handler.method) == HandlerKey("t", handler.method)
    assert hash(HandlerKey("t", handler.method)) == hash(HandlerKey("t", handler.method))
    assert HandlerKey("t", handler.method) != HandlerKey("u", handler.method)
    assert HandlerKey("t", handler.method) != HandlerKey("t", _Handler().method)
    assert HandlerKey("t", handler.method) != "t"


async def test_with_ack_acks_after_success_only() -> None:
    """Sync or async; a failure is raised on."""
    acked: list[str] = []

    async def ack() -> None:
        acked.append("ack")

    async def work(event: Any) -> None:
        await asyncio.sleep(0)
        if event == "bad":
            raise ValueError(event)

    await with_ack(work)("good", ack)  # type: ignore[misc]  # the handler is async
    with pytest.raises(ValueError, match="bad"):
        await with_ack(work)("bad", ack)  # type: ignore[misc]  # the same
    await with_ack(acked.append)("sync", ack)  # type: ignore[misc]  # the same

    assert ["ack", "sync", "ack"] == acked


def test_event_ids_look_like_random_uuids() -> None:
    """Version 4, different between buses and within one."""
    one, two = Stamps(SystemClock(), UuidIds()), Stamps(SystemClock(), UuidIds())
    one.seed()
    two.seed()
    ids = [stamps.new_id() for stamps in (one, two) for _ in range(1_000)]

    assert 2_000 == len(set(ids))
    assert {(4, uuid.RFC_4122)} == {(uuid.UUID(one).version, uuid.UUID(one).variant) for one in ids}
    assert all(str(uuid.UUID(one)) == one for one in ids)


def test_injected_ids_are_used() -> None:
    """Tests that count see their own."""

    class Counting:
        def new(self, kind: str = "message", **facts: Any) -> str:
            return f"{kind}-1"

    stamps = Stamps(SystemClock(), Counting())
    stamps.seed()

    assert stamps.new_id() == "event-1"


def test_stamped_times_are_the_clock_in_milliseconds(clock: FakeClock) -> None:
    """Exactly, for many times."""
    stamps = Stamps(clock, UuidIds())
    for step in range(0, 5_000, 7):
        clock.jump_wall(step / 1000)
        assert clock.now() == stamps.now()


async def test_an_alarm_rings_once_at_its_latest_time(clock: FakeClock) -> None:
    """Set anew, set earlier, stopped."""
    rings: list[int] = []
    alarm = Alarm(clock, lambda: rings.append(round(clock.monotonic() * 10)), name="alarm")
    alarm.set(1.0)
    alarm.set_earlier(2.0)
    alarm.set_earlier(0.5)
    await clock.advance(3)
    assert [5] == rings
    assert alarm.at is None

    alarm.set(4.0)
    alarm.stop()
    await clock.advance(3)
    assert [5] == rings


async def test_within_cancels_what_takes_too_long(clock: FakeClock) -> None:
    """And says which it was; an exception passes."""
    waiting = asyncio.ensure_future(within(clock, asyncio.Event().wait(), 1))
    await clock.advance(1)
    assert await waiting is False
    assert await within(clock, asyncio.sleep(0), 1) is True

    async def explode() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        await within(clock, explode(), 1)
    assert clock.sleepers == 0
