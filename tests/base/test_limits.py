"""A bounded queue keeps its bounds, its order and its waiters."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mastra_core.base.limits import BoundedQueue, QueueClosedError, QueueFullError

pytestmark = pytest.mark.anyio


def test_items_come_out_in_order() -> None:
    """First in, first out; looking takes nothing."""
    queue: BoundedQueue[str] = BoundedQueue(max_items=3)
    for item in "abc":
        queue.put_nowait(item)

    assert list(queue) == ["a", "b", "c"]
    assert (len(queue), queue.get_nowait()) == (3, "a")
    assert queue.drain() == ["b", "c"]
    assert queue.get_nowait() is None


def test_a_full_queue_refuses_and_stays_as_it_is() -> None:
    """By items and by bytes."""
    queue: BoundedQueue[str] = BoundedQueue(max_items=2, max_bytes=10)
    queue.put_nowait("a", size=6)

    with pytest.raises(QueueFullError):
        queue.put_nowait("too large", size=5)
    queue.put_nowait("b", size=4)
    with pytest.raises(QueueFullError):
        queue.put_nowait("one too many")

    assert (list(queue), queue.size_bytes) == (["a", "b"], 10)


@given(st.lists(st.none() | st.integers(min_value=0, max_value=12), max_size=40))
def test_the_budget_is_never_exceeded(steps: list[int | None]) -> None:
    """Any sequence of puts (sizes) and gets (None) keeps count and bounds."""
    queue: BoundedQueue[int] = BoundedQueue(max_items=4, max_bytes=20)
    expected: list[int] = []
    for size in steps:
        if size is None:
            assert queue.get_nowait() == (expected.pop(0) if expected else None)
        elif queue.fits(size):
            queue.put_nowait(size, size=size)
            expected.append(size)
        assert list(queue) == expected
        assert queue.size_bytes == sum(expected) <= 20
        assert len(queue) <= 4


async def test_get_waits_for_an_item_and_put_for_room() -> None:
    """A slow reader slows the writer."""
    queue: BoundedQueue[int] = BoundedQueue(max_items=2)
    received: list[int] = []

    async def read() -> None:
        while True:
            try:
                received.append(await queue.get())
            except QueueClosedError:
                return

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        group.create_task(read())
        for number in range(50):
            await queue.put(number)
        queue.close()

    assert sorted(received) == list(range(50))


async def test_an_item_larger_than_the_budget_never_waits() -> None:
    """It would wait for ever."""
    queue: BoundedQueue[str] = BoundedQueue(max_items=2, max_bytes=10)

    with pytest.raises(QueueFullError):
        await queue.put("x", size=11)


async def test_closing_wakes_a_waiting_writer() -> None:
    """Nobody waits on a closed queue; what is left can be taken."""
    queue: BoundedQueue[str] = BoundedQueue(max_items=1)
    queue.put_nowait("a")
    writer = asyncio.create_task(queue.put("b"))
    await asyncio.sleep(0)

    queue.close()

    with pytest.raises(QueueClosedError):
        await writer
    with pytest.raises(QueueClosedError):
        queue.put_nowait("c")
    assert (queue.is_closed, await queue.get()) == (True, "a")
    with pytest.raises(QueueClosedError):
        await queue.get()


@pytest.mark.parametrize("limits", [{"max_items": 0}, {"max_items": 1, "max_bytes": 0}])
def test_a_queue_without_room_is_refused(limits: dict[str, int]) -> None:
    """A limit of zero is a mistake."""
    with pytest.raises(ValueError, match="at least one"):
        BoundedQueue(**limits)
