"""Bursts (pubsub_and_lease.md 3.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from mastra_conformance import Suite, case
from mastra_conformance.suites.pubsub.support import (
    Elapse,
    Recorder,
    eventually,
    make_event,
    publish_all,
    settle,
)
from mastra_core.base.clock import Clock
from mastra_core.contracts.pubsub import BatchPolicy, PubSub
from mastra_core.wire.events import Event

__all__ = ("BatchingSuite",)

_LONG_MS = 3_600_000


class _Bursts:
    """A handler that tells bursts apart: within one, each call is awaited before the next."""

    def __init__(self, clock: Clock) -> None:
        self.bursts: list[list[Any]] = []
        self.times: list[float] = []
        self._clock = clock
        self.gate = asyncio.Event()
        self.gate.set()

    @property
    def data(self) -> list[Any]:
        """All data in order."""
        return [item for burst in self.bursts for item in burst]

    def begin(self, events: Sequence[Event]) -> Sequence[Event]:
        """A ``coalesce`` that keeps all and notes where a burst begins."""
        self.bursts.append([])
        self.times.append(self._clock.monotonic())
        return events

    async def __call__(self, event: Event) -> None:
        await self.gate.wait()
        self.bursts[-1].append(event.data)


class BatchingSuite(Suite):
    """Batches: size, time, floor, immediacy, coalescing, overflow."""

    role: ClassVar[str] = "pubsub"
    capabilities: ClassVar[tuple[str, ...]] = ("pubsub.native_batching",)

    @case("pubsub_and_lease", 41)
    async def test_full_buffers_make_bursts(self, pubsub: PubSub, clock: Clock) -> None:
        """Seven events, three at a time: 3, 3, and 1 with the flush."""
        seen = _Bursts(clock)
        policy = BatchPolicy(max_size=3, coalesce=seen.begin)
        await pubsub.subscribe("t", seen, batch=policy)

        for number in range(7):
            await pubsub.publish("t", make_event(number))
            await eventually(lambda: len(seen.data) >= (number + 1) // 3 * 3)  # noqa: B023 – used at once
        await pubsub.flush()

        assert [[0, 1, 2], [3, 4, 5], [6]] == seen.bursts

    @case("pubsub_and_lease", 42)
    async def test_the_deadline_counts_from_the_first_event(
        self, pubsub: PubSub, clock: Clock, elapse: Elapse
    ) -> None:
        """One waits a second; another one later doesn't prolong it."""
        seen = _Bursts(clock)
        await pubsub.subscribe("t", seen, batch=BatchPolicy(max_wait_ms=1000, coalesce=seen.begin))
        started = clock.monotonic()

        await pubsub.publish("t", make_event(1))
        await settle()
        await elapse(400)
        await pubsub.publish("t", make_event(2))
        await eventually(lambda: len(seen.data) == 2, elapse, step_ms=20)

        assert [[1, 2]] == seen.bursts
        assert 1 <= seen.times[0] - started < 1.4

    @case("pubsub_and_lease", 43)
    async def test_immediate_events_respect_the_floor(
        self, pubsub: PubSub, clock: Clock, elapse: Elapse
    ) -> None:
        """The first goes at once; one soon after waits for the second between bursts."""
        seen = _Bursts(clock)
        policy = BatchPolicy(min_interval_ms=1000, is_immediate=lambda _: True, coalesce=seen.begin)
        await pubsub.subscribe("t", seen, batch=policy)

        await pubsub.publish("t", make_event(1))
        await eventually(lambda: seen.data == [1])
        await elapse(100)
        await pubsub.publish("t", make_event(2))
        await settle()
        assert [1] == seen.data
        await eventually(lambda: seen.data == [1, 2], elapse, step_ms=20)

        assert seen.times[1] - seen.times[0] >= 1

    @case("pubsub_and_lease", 44)
    async def test_a_floor_alone_sets_no_timer(
        self, pubsub: PubSub, clock: Clock, elapse: Elapse
    ) -> None:
        """Only a flush delivers."""
        seen, witness = _Bursts(clock), Recorder()
        policy = BatchPolicy(min_interval_ms=50, coalesce=seen.begin)
        await pubsub.subscribe("t", seen, batch=policy)
        await pubsub.subscribe("t", witness)

        await publish_all(pubsub, "t", [1, 2])
        await witness.until(2)
        for _ in range(20):
            await elapse(50)
            await settle()
        assert [] == seen.data
        await pubsub.flush()

        assert [[1, 2]] == seen.bursts

    @case("pubsub_and_lease", 45)
    @pytest.mark.parametrize(
        ("kind", "kept"), [("subset", [1, 3]), ("copies", []), ("reordered", [])]
    )
    async def test_coalescing_keeps_a_subset(
        self,
        pubsub: PubSub,
        kind: str,
        kept: list[int],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """By identity and in order; anything else discards the batch, with a line in the log."""

        def coalesce(events: Sequence[Event]) -> Sequence[Event]:
            match kind:
                case "subset":
                    return [event for event in events if event.data != 2]
                case "copies":
                    return [event.copy() for event in events]
                case _:
                    return list(reversed(events))

        group = "g" if pubsub.capabilities.groups else None
        seen = Recorder()
        await pubsub.subscribe("t", seen, group=group, batch=BatchPolicy(coalesce=coalesce))

        await publish_all(pubsub, "t", [1, 2, 3])
        await pubsub.flush()
        await pubsub.flush()

        assert kept == seen.data
        if not kept:
            assert any(record.levelname == "ERROR" for record in caplog.records)
        if group is not None:
            await pubsub.unsubscribe("t", seen)
            again = Recorder()
            await pubsub.subscribe("t", again, group=group)
            await pubsub.flush()
            assert [] == again.data, "what was dropped is acked"

    @case("pubsub_and_lease", 46)
    @pytest.mark.parametrize(
        ("overflow", "kept"),
        [
            ("drop-oldest", [0, 3, 5, 6, 7]),
            ("coalesce-or-drop-oldest", [0, 3, 5, 6, 7]),
            ("drop-newest", [0, 1, 2, 3, 4]),
        ],
    )
    async def test_overflow_never_drops_immediate_events(
        self, pubsub: PubSub, clock: Clock, overflow: Any, kept: list[int]
    ) -> None:
        """Room for five: eight come while a burst is held up; 0 and 3 are immediate."""
        seen, came = _Bursts(clock), set[Any]()

        def is_immediate(event: Event) -> bool:
            came.add(event.data)
            return event.data in {"first", 0, 3}

        policy = BatchPolicy(
            max_buffer_size=5, overflow=overflow, is_immediate=is_immediate, coalesce=seen.begin
        )
        seen.gate.clear()
        await pubsub.subscribe("t", seen, batch=policy)
        await pubsub.publish("t", make_event("first"))
        await eventually(lambda: len(seen.bursts) == 1)

        await publish_all(pubsub, "t", range(8))
        await eventually(lambda: came >= set(range(8)))
        seen.gate.set()
        await eventually(lambda: len(seen.data) >= 1 + len(kept))
        await pubsub.flush()

        assert [["first"], kept] == seen.bursts

    @case("pubsub_and_lease", 47)
    async def test_an_empty_flush_moves_nothing(self, pubsub: PubSub, clock: Clock) -> None:
        """The floor stays; a flush during a burst delivers what came meanwhile, without a timer."""
        seen = _Bursts(clock)
        policy = BatchPolicy(
            min_interval_ms=_LONG_MS, is_immediate=lambda _: True, coalesce=seen.begin
        )
        await pubsub.subscribe("t", seen, batch=policy)
        await pubsub.flush()
        seen.gate.clear()
        await pubsub.publish("t", make_event(1))
        await eventually(lambda: len(seen.bursts) == 1)

        await pubsub.publish("t", make_event(2))
        await settle()
        flushing = asyncio.create_task(pubsub.flush())
        await settle()
        seen.gate.set()
        await flushing

        assert [[1], [2]] == seen.bursts

    @case("pubsub_and_lease", 48)
    async def test_a_raising_coalesce_loses_nothing(
        self, pubsub: PubSub, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The error is logged; the events come with the next flush."""
        calls = 0

        def coalesce(events: Sequence[Event]) -> Sequence[Event]:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise ValueError(len(events))
            return events

        seen = Recorder()
        await pubsub.subscribe("t", seen, batch=BatchPolicy(coalesce=coalesce))
        await publish_all(pubsub, "t", [1, 2])

        await pubsub.flush()
        assert [] == seen.data
        await pubsub.flush()

        assert [1, 2] == seen.data
        assert any(record.exc_info for record in caplog.records)
