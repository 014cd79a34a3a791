"""The loop that dispatches: by the clock, on ingress, and when a thread becomes idle (S18)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from mastra_core.base.clock import Clock

__all__ = ("Dispatcher",)

logger = logging.getLogger(__name__)


class Dispatcher:
    """
    Runs one dispatch after the other, never two at once.

    It depends on no schedule row and on no other process; several processes may run one each.

    Args:
        dispatch: One dispatch of whatever is due; True if more is due right now.
        dispatch_thread: What waits for a thread that has become idle.
        clock: Where time comes from.
        poll_ms: How often it looks without being woken.
    """

    def __init__(
        self,
        *,
        dispatch: Callable[[], Awaitable[bool]],
        dispatch_thread: Callable[[str], Awaitable[None]],
        clock: Clock,
        poll_ms: int,
    ) -> None:
        self._dispatch = dispatch
        self._dispatch_thread = dispatch_thread
        self._clock = clock
        self._poll_ms = poll_ms
        self._woken = asyncio.Event()
        self._idle: OrderedDict[str, None] = OrderedDict()
        self._stopping = False

    @property
    def is_stopping(self) -> bool:
        """True after ``stop``; the dispatch at work ends after its current signal."""
        return self._stopping

    def wake(self) -> None:
        """Look at once."""
        self._woken.set()

    def thread_idle(self, thread_id: str) -> None:
        """A run of this thread has ended."""
        self._idle[thread_id] = None
        self._woken.set()

    def stop(self) -> None:
        """End the loop after the signal that is being sent now."""
        self._stopping = True
        self._woken.set()

    async def run(self) -> None:
        """Dispatch until ``stop``; a failing dispatch is logged and tried again."""
        while not self._stopping:
            self._woken.clear()
            has_more = await self._round()
            if not has_more and not self._stopping:
                await self._pause()

    async def _round(self) -> bool:
        try:
            while self._idle and not self._stopping:
                thread_id, _ = self._idle.popitem(last=False)
                await self._dispatch_thread(thread_id)
            return await self._dispatch()
        except Exception:
            logger.exception("notification dispatch failed; it will be tried again")
            return False

    async def _pause(self) -> None:
        """Wait until woken or until it is time to look."""
        timer = asyncio.create_task(
            self._clock.sleep(self._poll_ms / 1000), name="notification-poll"
        )
        waker = asyncio.create_task(self._woken.wait(), name="notification-wake")
        try:
            await asyncio.wait([timer, waker], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (timer, waker):
                task.cancel()
            await asyncio.gather(timer, waker, return_exceptions=True)
