"""Cancels a call at one chosen place: the k-th time that it waits for something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from types import coroutine
from typing import Any, Final

__all__ = ("MOST_WAITS", "as_coroutine", "cancelled_at_every_wait")

MOST_WAITS: Final = 200
"""Where a sweep stops at the latest."""


async def cancelled_at_every_wait(
    call: Callable[[int], Coroutine[Any, Any, object]],
    *,
    most: int = MOST_WAITS,
    limit_s: float,
) -> AsyncIterator[tuple[int, BaseException | None]]:
    """
    Run a call again and again, cancelled at its first wait, at its second, and so on.

    Ends after the first run that was over before its turn to be cancelled came.

    Args:
        call: Makes the call; gets the number of the run.
        most: Runs at most.
        limit_s: How long one run may take.

    Yields:
        The place and what came out: an exception, or None for an answer.

    Raises:
        AssertionError: A run took too long.
    """
    for place in range(1, most + 1):
        reached = [0]
        task = asyncio.create_task(_drive(call(place), place, reached), name=f"sweep-{place}")
        await asyncio.wait([task], timeout=limit_s)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=limit_s)
            raise AssertionError(
                f"Run {place} was not done after {limit_s:g} s: an earlier one holds something."
            )
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        yield place, error
        if reached[0] < place:
            return


async def _drive(inner: Coroutine[Any, Any, object], place: int, reached: list[int]) -> object:
    return await _cancelled_at(inner, place, reached)


@coroutine
def _cancelled_at(
    inner: Coroutine[Any, Any, object], place: int, reached: list[int]
) -> Generator[Any, Any, object]:
    """Pass on what the inner call waits for, and cancel the task at the chosen one."""
    value: Any = None
    error: BaseException | None = None
    task = asyncio.current_task()
    assert task is not None
    while True:
        try:
            waiting = inner.send(value) if error is None else inner.throw(error)
        except StopIteration as done:
            return done.value
        reached[0] += 1
        if reached[0] == place:
            # Takes effect at this very wait.
            task.cancel()
        try:
            value, error = (yield waiting), None
        except BaseException as exc:  # noqa: BLE001 – the inner call decides what it means
            value, error = None, exc


def as_coroutine(call: Callable[[], Awaitable[object]]) -> Coroutine[Any, Any, object]:
    """Any call as the coroutine that a sweep drives."""

    async def run() -> object:
        return await call()

    return run()
