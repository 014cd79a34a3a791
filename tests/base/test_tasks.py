"""Tasks have an owner that logs, awaits and stops them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

import pytest

from mastra_core.base.tasks import TaskSupervisor, call_maybe_async, shielded
from mastra_core.errors import ClosedError, MastraError

pytestmark = pytest.mark.anyio


async def test_a_supervisor_holds_its_tasks_until_they_end() -> None:
    """Results belong to whoever awaits the task."""
    go = asyncio.Event()

    async def work() -> int:
        await go.wait()
        return 7

    async with TaskSupervisor("test") as tasks:
        task = tasks.start(work(), name="work:1")
        assert (len(tasks), tasks.names) == (1, ["work:1"])
        go.set()
        await tasks.join()
        assert len(tasks) == 0
        assert await task == 7


async def test_close_cancels_and_awaits_what_still_runs() -> None:
    """After close nothing runs any more, clean-up included."""
    cleaned = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("yes")

    tasks = TaskSupervisor("test")
    task = tasks.start(work(), name="work")
    await asyncio.sleep(0)

    await tasks.close()
    await tasks.close()

    assert cleaned == ["yes"]
    assert task.cancelled()
    assert tasks.is_closed


async def test_a_task_that_has_not_begun_may_clean_up_after_itself() -> None:
    """Cancelled before its first step it would never know that it was there."""
    cleaned = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    tasks = TaskSupervisor("test")
    tasks.start(work(), name="work")
    await tasks.close()

    assert ["up"] == cleaned


async def test_close_lets_tasks_end_within_their_grace() -> None:
    """Those that end by themselves aren't cancelled."""
    started = asyncio.Event()

    async def work() -> str:
        started.set()
        await asyncio.sleep(0)
        return "done"

    tasks = TaskSupervisor("test")
    task = tasks.start(work(), name="work")
    await started.wait()

    await tasks.close(grace=5)

    assert task.result() == "done"


async def test_a_failure_is_logged_once_and_stops_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log names the task; the exception stays in the task."""

    async def fail() -> None:
        raise ValueError("broken")

    async with TaskSupervisor("test") as tasks:
        other = tasks.start(asyncio.sleep(0, "fine"), name="other")
        with caplog.at_level(logging.ERROR):
            failed = tasks.start(fail(), name="failing")
            with pytest.raises(ValueError, match="broken"):
                await failed
            assert await other == "fine"
            await tasks.close()

    assert [record.task for record in caplog.records] == ["failing"]  # type: ignore[attr-defined]
    # "task" is in our own extra


async def test_a_closed_supervisor_starts_nothing() -> None:
    """The coroutine is closed, so nothing warns about it."""
    tasks = TaskSupervisor("test")
    await tasks.close()

    with pytest.raises(ClosedError, match="test is closed"):
        tasks.start(asyncio.sleep(0), name="late")


async def test_a_task_may_close_its_own_supervisor() -> None:
    """It isn't cancelled by itself."""
    tasks = TaskSupervisor("test")

    async def stop_all() -> str:
        await tasks.close()
        return "closed"

    other = tasks.start(asyncio.Event().wait(), name="other")
    task = tasks.start(stop_all(), name="stopper")

    assert await task == "closed"
    assert other.cancelled()


async def test_shielded_work_gives_its_result() -> None:
    """Without a cancellation it's a plain await."""
    assert await shielded(asyncio.sleep(0, "saved"), 5) == "saved"


async def test_shielded_work_finishes_although_its_caller_is_cancelled() -> None:
    """The cancellation takes effect afterwards, also if it comes twice."""
    started, go = asyncio.Event(), asyncio.Event()
    saved = []

    async def save() -> None:
        started.set()
        await go.wait()
        saved.append("yes")

    caller = asyncio.create_task(shielded(save(), 5))
    await started.wait()
    caller.cancel()
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0)
    go.set()

    with pytest.raises(asyncio.CancelledError):
        await caller
    assert saved == ["yes"]


async def test_shielded_work_has_a_deadline() -> None:
    """Clean-up that hangs doesn't keep the process alive."""
    with pytest.raises(TimeoutError):
        await shielded(asyncio.Event().wait(), 0.01)


async def test_a_failure_of_shielded_work_passes_or_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Cancelled callers get the cancellation, and the failure is in the log."""
    go = asyncio.Event()

    async def fail() -> None:
        await go.wait()
        raise ValueError("broken")

    caller = asyncio.create_task(shielded(fail(), 5))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    with pytest.raises(ValueError, match="broken"):
        await shielded(fail(), 5)

    assert [record.message for record in caplog.records] == [
        "clean-up failed while being cancelled"
    ]


async def test_callbacks_may_be_sync_or_async() -> None:
    """Users write what they like."""

    def plain(a: int, *, b: int) -> int:
        return a + b

    async def waiting(a: int, *, b: int) -> int:
        return a + b

    def hands_on(a: int, b: int) -> Awaitable[int]:
        return waiting(a, b=b)

    assert await call_maybe_async(plain, 1, b=2) == 3
    assert await call_maybe_async(waiting, 1, b=2) == 3
    assert await call_maybe_async(hands_on, 1, 2) == 3


async def test_a_task_that_swallows_its_cancellation_is_asked_again() -> None:
    """Closing waits for its end, not for its consent."""
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while swallowed < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed += 1

    tasks = TaskSupervisor("test")
    task = tasks.start(stubborn(), name="stubborn")
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await tasks.close()

    assert (2, True) == (swallowed, task.done())


async def test_a_task_that_never_stops_holds_nobody_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named in the log and left behind."""
    monkeypatch.setattr("mastra_core.base.tasks._CANCEL_EVERY", 0.01)
    may_stop = False

    async def never_stops() -> None:
        while not may_stop:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    tasks = TaskSupervisor("test")
    task = tasks.start(never_stops(), name="deaf")
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await tasks.close()

    [record] = [r for r in caplog.records if r.getMessage() == "background tasks don't stop"]
    assert ["deaf"] == record.tasks  # type: ignore[attr-defined] # "tasks" is in our own extra
    may_stop = True
    task.cancel()
    await asyncio.wait([task])


async def test_what_a_callback_waited_for_may_be_cancelled_without_cancelling_us() -> None:
    """It is an error of the callback; our own cancellation passes."""

    async def waits_in_vain() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    with pytest.raises(MastraError, match="waits_in_vain was cancelled inside"):
        await call_maybe_async(waits_in_vain)

    async def waits() -> None:
        await asyncio.Event().wait()

    ours = asyncio.create_task(call_maybe_async(waits))
    await asyncio.sleep(0)
    ours.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ours
