"""The loop, alone with a clock that a test moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from mastra_core.notifications.dispatcher import Dispatcher
from mastra_core.notifications.waiting import WaitingRecords
from mastra_core.testing.fake_clock import FakeClock

pytestmark = pytest.mark.anyio


class Work:
    """What the loop is given to do."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.done: list[str] = []
        self.more = 0
        self.error: Exception | None = None
        self.dispatcher = Dispatcher(
            dispatch=self.dispatch, dispatch_thread=self.thread, clock=clock, poll_ms=10_000
        )

    async def dispatch(self) -> bool:
        self.done.append("all")
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.more -= 1
        return self.more >= 0

    async def thread(self, thread_id: str) -> None:
        self.done.append(thread_id)


@pytest.fixture
def work(clock: FakeClock) -> Work:
    return Work(clock)


@asynccontextmanager
async def running(work: Work) -> AsyncIterator[None]:
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(work.dispatcher.run())
        await work.clock.settle()
        yield
        work.dispatcher.stop()


async def test_it_looks_at_the_start_and_by_the_clock(work: Work) -> None:
    """Every ten seconds, and it stops at once."""
    async with running(work):
        await work.clock.advance(9)
        early = len(work.done)
        await work.clock.advance(21)

    assert (1, ["all"] * 4) == (early, work.done)
    assert 0 == work.clock.sleepers


async def test_it_looks_when_woken(work: Work) -> None:
    """Wakes during one look make one more."""
    async with running(work):
        work.dispatcher.wake()
        work.dispatcher.wake()
        await work.clock.settle()

    assert ["all", "all"] == work.done


async def test_it_goes_on_while_more_is_due(work: Work) -> None:
    """Without waiting."""
    work.more = 3
    async with running(work):
        pass

    assert ["all"] * 4 == work.done


async def test_idle_threads_come_first_and_once(work: Work) -> None:
    """A thread that became idle twice is looked at once."""
    async with running(work):
        for thread_id in ("t1", "t2", "t1"):
            work.dispatcher.thread_idle(thread_id)
        await work.clock.settle()

    assert ["all", "t1", "t2", "all"] == work.done


async def test_a_failing_dispatch_is_logged_and_tried_again(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop goes on with its next look."""
    work.error = OSError("gone")
    with caplog.at_level(logging.ERROR):
        async with running(work):
            await work.clock.advance(10)

    assert ["all", "all"] == work.done
    assert ["notification dispatch failed; it will be tried again"] == caplog.messages


async def test_a_cancelled_loop_leaves_nothing(work: Work) -> None:
    """Neither a timer nor a task."""
    task = asyncio.create_task(work.dispatcher.run())
    await work.clock.settle()
    task.cancel()
    await asyncio.wait([task])

    names = {task.get_name() for task in asyncio.all_tasks()}
    assert task.cancelled()
    assert not names & {"notification-poll", "notification-wake"}


def test_the_memory_of_what_waits_is_bounded() -> None:
    """The threads that waited longest are forgotten first; their timer still comes."""
    waiting = WaitingRecords()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(10_001):
        waiting.add(f"t{number}", "n1", start + timedelta(seconds=number))

    assert (False, True) == ("t0" in waiting, "t1" in waiting)
    assert {"n1": start + timedelta(seconds=1)} == waiting.take("t1")
    assert {} == waiting.take("t1")
