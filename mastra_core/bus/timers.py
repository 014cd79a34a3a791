"""One timer that can be set anew, on the injected clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mastra_core.base.clock import Clock

__all__ = ("Alarm", "first_of", "within")


class Alarm:
    """Calls back once at a time of the monotonic clock; owns the task that waits for it."""

    __slots__ = ("_at", "_callback", "_clock", "_name", "_task")

    def __init__(self, clock: Clock, callback: Callable[[], None], *, name: str) -> None:
        self._clock = clock
        self._callback = callback
        self._name = name
        self._at: float | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def at(self) -> float | None:
        """When it will ring; None if it isn't set."""
        return self._at

    def set(self, at: float) -> None:
        """Ring then, and not when it was set for before."""
        if at == self._at:
            return
        self.stop()
        self._at = at
        self._task = asyncio.get_running_loop().create_task(self._wait(at), name=self._name)

    def set_earlier(self, at: float) -> None:
        """Ring then, unless it rings before anyway."""
        if self._at is None or at < self._at:
            self.set(at)

    def stop(self) -> None:
        """Don't ring."""
        self._at = None
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _wait(self, at: float) -> None:
        # A sleep may end early by the clock's own grain.
        while (left := at - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        self._at = None
        self._task = None
        self._callback()


async def within(clock: Clock, work: Coroutine[Any, Any, Any], seconds: float) -> bool:
    """Do it within a time of the injected clock; True if it was done, else it is cancelled."""
    loop = asyncio.get_running_loop()
    doing = loop.create_task(work, name="bus-within")
    timer = loop.create_task(clock.sleep(seconds), name="bus-within-timer")
    try:
        await asyncio.wait([doing, timer], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            await doing
            return True
        return False
    finally:
        for task in (doing, timer):
            task.cancel()
        await asyncio.wait([doing, timer])


async def first_of(*work: Coroutine[Any, Any, Any]) -> None:
    """Until one of them is over; the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
